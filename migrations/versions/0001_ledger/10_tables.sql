-- The ledger's tables. Everything but effect_work, the registry and the control row is insert-only.
-- No foreign keys and no sequences on the hot path: identifiers are made by the client, and an offline check proves the
-- references (they cost 6 % more log and share locks on the tenant's row).

CREATE TYPE effect_broker.effect_status AS ENUM (
    'prepared', 'dispatching', 'retryable', 'outcome_unknown', 'reconciling',
    'succeeded', 'failed_final', 'manual_review', 'compensated'
);

CREATE TYPE effect_broker.event_type AS ENUM (
    'EffectReserved', 'AttemptStarted', 'ReceiptRecorded', 'AttemptRejected', 'AttemptNotExecuted', 'AttemptNotSent',
    'OutcomeLost', 'ContractViolated', 'SendForbidden', 'ReconciliationStarted', 'RedispatchPermitted',
    'ProbeInconclusive', 'ReconciliationInterrupted', 'ReconciliationExhausted', 'EvidenceRecorded',
    'ReconciliationRequested', 'ContradictionRecorded', 'ResolvedCommitted', 'ResolvedNotCommitted', 'ResolvedFailed',
    'CompensationLinked'
);

CREATE TYPE effect_broker.ending_kind AS ENUM (
    'committed', 'rejected', 'not_executed', 'not_sent', 'ambiguous'
);

CREATE TYPE effect_broker.safety_class AS ENUM (
    'transactional', 'idempotent', 'reconcilable', 'unsafe'
);

CREATE TABLE effect_broker.tenants (
    tenant_id uuid PRIMARY KEY,
    slug text NOT NULL UNIQUE CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    hmac_key_id text NOT NULL CHECK (length(hmac_key_id) BETWEEN 1 AND 64),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    disabled_at timestamptz
);

-- Last use is not kept: it would make one hot row of every busy key.
CREATE TABLE effect_broker.api_keys (
    key_id text PRIMARY KEY CHECK (length(key_id) BETWEEN 1 AND 64),
    tenant_id uuid NOT NULL REFERENCES effect_broker.tenants,
    secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) BETWEEN 32 AND 64),
    scopes text[] NOT NULL CHECK (scopes <@ ARRAY['submit', 'read', 'operate'] AND cardinality(scopes) > 0),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,
    revoked_at timestamptz
);

CREATE INDEX api_keys_by_tenant ON effect_broker.api_keys (tenant_id);

-- The typed columns repeat what the document says, for the steps that compute with them.
CREATE TABLE effect_broker.contracts (
    contract_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tool text NOT NULL CHECK (length(tool) BETWEEN 1 AND 255),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    version text NOT NULL CHECK (length(version) BETWEEN 1 AND 255),
    document bytea NOT NULL CHECK (octet_length(document) <= 1048576),
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    safety effect_broker.safety_class NOT NULL,
    attempt_ms bigint NOT NULL CHECK (attempt_ms > 0),
    lease_ms bigint NOT NULL CHECK (lease_ms >= attempt_ms),
    settlement_ms bigint NOT NULL CHECK (settlement_ms >= 0),
    retention_ms bigint CHECK (retention_ms > 0),
    submit_ms bigint NOT NULL CHECK (submit_ms > 0),
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (name, version)
);

COMMENT ON COLUMN effect_broker.contracts.retention_ms IS 'How long the target knows a key; NULL: no horizon.';

CREATE INDEX contracts_by_tool ON effect_broker.contracts (tool);

-- Which contract a new effect of a tool pins.
CREATE TABLE effect_broker.contract_routes (
    tool text PRIMARY KEY CHECK (length(tool) BETWEEN 1 AND 255),
    contract_id integer NOT NULL REFERENCES effect_broker.contracts,
    routed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The uniqueness rule, kept for ever: it survives the partitions of everything below.
CREATE TABLE effect_broker.effect_keys (
    tenant_id uuid NOT NULL,
    key_digest bytea NOT NULL CHECK (octet_length(key_digest) = 32),
    effect_id uuid NOT NULL,
    request_hash bytea NOT NULL CHECK (octet_length(request_hash) = 32),
    operation_key text NOT NULL CHECK (octet_length(operation_key) BETWEEN 1 AND 255),
    PRIMARY KEY (tenant_id, key_digest)
);

COMMENT ON COLUMN effect_broker.effect_keys.key_digest IS 'SHA-256 of the operation key.';

-- Tool, contract name, version and safety class come from the immutable contract row.
CREATE TABLE effect_broker.effect_intents (
    effect_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    contract_id integer NOT NULL,
    request_hash bytea NOT NULL CHECK (octet_length(request_hash) = 32),
    operation_key text NOT NULL CHECK (octet_length(operation_key) BETWEEN 1 AND 255),
    downstream_key text NOT NULL CHECK (octet_length(downstream_key) <= 255),
    hmac_key_id text NOT NULL CHECK (octet_length(hmac_key_id) <= 64),
    data_key_id text NOT NULL CHECK (octet_length(data_key_id) <= 64),
    requested_by text CHECK (octet_length(requested_by) <= 1024),
    trace_id text CHECK (octet_length(trace_id) <= 256),
    preview text NOT NULL CHECK (octet_length(preview) <= 65536),
    arguments_ciphertext bytea,
    PRIMARY KEY (tenant_id, effect_id)
) PARTITION BY RANGE (effect_id);

CREATE TABLE effect_broker.effect_intents_default PARTITION OF effect_broker.effect_intents DEFAULT;

COMMENT ON COLUMN effect_broker.effect_intents.arguments_ciphertext IS 'NULL once the payload was pruned.';

-- One row for each live effect, gone at its terminal transition. Every wait is one due_at, `infinity` for what waits for
-- a person or for evidence. The lane keeps kinds of work from starving each other: 0 send, 1 recover, 2 leased, 3 parked.
CREATE TABLE effect_broker.effect_work (
    effect_id uuid PRIMARY KEY,
    tenant_id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    last_event_at timestamptz NOT NULL,
    due_at timestamptz NOT NULL,
    submit_until timestamptz NOT NULL,
    settlement_at timestamptz,
    horizon_at timestamptz,
    negative_at timestamptz,
    unknown_since timestamptz,
    status effect_broker.effect_status NOT NULL,
    contract_id integer NOT NULL,
    version integer NOT NULL CHECK (version > 0),
    attempts integer NOT NULL DEFAULT 0,
    unproven integer NOT NULL DEFAULT 0,
    proven_through integer NOT NULL DEFAULT 0,
    rejections integer NOT NULL DEFAULT 0 CHECK (rejections >= 0),
    retries integer NOT NULL DEFAULT 0 CHECK (retries >= 0),
    redispatches integer NOT NULL DEFAULT 0 CHECK (redispatches >= 0),
    probes integer NOT NULL DEFAULT 0 CHECK (probes >= 0),
    key_generation integer NOT NULL DEFAULT 1 CHECK (key_generation > 0),
    lane smallint NOT NULL GENERATED ALWAYS AS (
        CASE
            WHEN status IN ('dispatching', 'reconciling') THEN 2
            WHEN status = 'outcome_unknown' OR proof_committed THEN 1
            WHEN status = 'manual_review' THEN 3
            ELSE 0
        END
    ) STORED,
    proof_committed boolean NOT NULL DEFAULT false,
    claim_token uuid,
    scope_digest bytea CHECK (octet_length(scope_digest) = 32),
    head bytea NOT NULL CHECK (octet_length(head) = 32),
    CONSTRAINT a_live_status CHECK (status NOT IN ('succeeded', 'failed_final', 'compensated')),
    CONSTRAINT a_lease_has_a_token_and_an_end CHECK (
        (status IN ('dispatching', 'reconciling')) = (claim_token IS NOT NULL)
        AND (claim_token IS NULL OR isfinite(due_at))
    ),
    CONSTRAINT attempts_are_counted CHECK (
        unproven BETWEEN 0 AND attempts - proven_through AND proven_through >= 0
    ),
    CONSTRAINT an_open_attempt_is_unproven CHECK (status <> 'dispatching' OR unproven > 0),
    CONSTRAINT an_unknown_outcome_has_a_beginning CHECK (
        status NOT IN ('outcome_unknown', 'reconciling') OR unknown_since IS NOT NULL
    ),
    CONSTRAINT an_attempt_settles CHECK (attempts = 0 OR settlement_at IS NOT NULL)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX effect_work_due ON effect_broker.effect_work (lane, due_at);
CREATE INDEX effect_work_due_by_tenant ON effect_broker.effect_work (lane, tenant_id, due_at);
CREATE INDEX effect_work_unknown ON effect_broker.effect_work (tenant_id, effect_id) WHERE unknown_since IS NOT NULL;

COMMENT ON COLUMN effect_broker.effect_work.unproven IS 'Attempts that may have committed, the open one included.';
COMMENT ON COLUMN effect_broker.effect_work.proven_through IS 'Every attempt up to this ordinal is proven not committed.';
COMMENT ON COLUMN effect_broker.effect_work.settlement_at IS 'The latest send_deadline plus settlement_bound.';
COMMENT ON COLUMN effect_broker.effect_work.horizon_at IS 'When the target may forget the current key.';
COMMENT ON COLUMN effect_broker.effect_work.head IS 'The digest of the last event.';

-- Committed before any byte leaves.
CREATE TABLE effect_broker.effect_attempts (
    effect_id uuid NOT NULL,
    attempt_id uuid NOT NULL,
    started_at timestamptz NOT NULL,
    send_deadline timestamptz NOT NULL CHECK (send_deadline > started_at),
    ordinal integer NOT NULL CHECK (ordinal > 0),
    version integer NOT NULL,
    key_generation integer NOT NULL,
    worker text NOT NULL CHECK (octet_length(worker) BETWEEN 1 AND 255),
    scope_digest bytea NOT NULL CHECK (octet_length(scope_digest) = 32),
    PRIMARY KEY (effect_id, ordinal)
) PARTITION BY RANGE (effect_id);

CREATE TABLE effect_broker.effect_attempts_default PARTITION OF effect_broker.effect_attempts DEFAULT;

-- What the sender of an attempt learned, in time or late; at most one each.
CREATE TABLE effect_broker.effect_attempt_endings (
    effect_id uuid NOT NULL,
    ended_at timestamptz NOT NULL,
    ordinal integer NOT NULL,
    kind effect_broker.ending_kind NOT NULL,
    late boolean NOT NULL,
    final boolean NOT NULL,
    from_key_record boolean NOT NULL,
    bytes_may_have_left boolean NOT NULL,
    reason text NOT NULL CHECK (octet_length(reason) <= 4096),
    external_id text CHECK (octet_length(external_id) <= 4096),
    data_key_id text CHECK (octet_length(data_key_id) <= 64),
    evidence text CHECK (octet_length(evidence) <= 65536),
    request_digest bytea CHECK (octet_length(request_digest) = 32),
    response_digest bytea CHECK (octet_length(response_digest) = 32),
    result_ciphertext bytea,
    PRIMARY KEY (effect_id, ordinal)
) PARTITION BY RANGE (effect_id);

CREATE TABLE effect_broker.effect_attempt_endings_default
    PARTITION OF effect_broker.effect_attempt_endings DEFAULT;

-- The key that a generation sends; generation 1 stands in the intent.
CREATE TABLE effect_broker.effect_key_generations (
    effect_id uuid NOT NULL,
    generation integer NOT NULL CHECK (generation > 1),
    minted_at timestamptz NOT NULL,
    downstream_key text NOT NULL CHECK (octet_length(downstream_key) BETWEEN 1 AND 255),
    PRIMARY KEY (effect_id, generation)
);

-- After the terminal transition the primary key is the compare-and-swap: what follows appends over the last event.
CREATE TABLE effect_broker.effect_events (
    effect_id uuid NOT NULL,
    at timestamptz NOT NULL,
    sequence integer NOT NULL CHECK (sequence > 0),
    type effect_broker.event_type NOT NULL,
    old_status effect_broker.effect_status,
    new_status effect_broker.effect_status NOT NULL,
    actor text NOT NULL CHECK (octet_length(actor) BETWEEN 1 AND 1024),
    metadata text NOT NULL CHECK (octet_length(metadata) <= 65536),
    previous_digest bytea NOT NULL,
    digest bytea NOT NULL,
    PRIMARY KEY (effect_id, sequence)
) PARTITION BY RANGE (effect_id);

CREATE TABLE effect_broker.effect_events_default PARTITION OF effect_broker.effect_events DEFAULT;

-- The terminal row: proof of the effect, or of its failure for good.
CREATE TABLE effect_broker.effect_receipts (
    effect_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    receipt_id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    target_time timestamptz,
    kind effect_broker.effect_status NOT NULL CHECK (kind IN ('succeeded', 'failed_final')),
    contract_id integer NOT NULL,
    source text NOT NULL CHECK (source IN ('attempt', 'probe', 'late_answer', 'operator', 'ledger')),
    reason text NOT NULL CHECK (octet_length(reason) <= 4096),
    external_id text CHECK (octet_length(external_id) <= 4096),
    data_key_id text CHECK (octet_length(data_key_id) <= 64),
    flags text[] NOT NULL CHECK (cardinality(flags) <= 16),
    evidence_digest bytea CHECK (octet_length(evidence_digest) = 32),
    downstream_key_digest bytea NOT NULL,
    digest bytea NOT NULL,
    result_ciphertext bytea,
    PRIMARY KEY (effect_id)
) PARTITION BY RANGE (effect_id);

CREATE TABLE effect_broker.effect_receipts_default PARTITION OF effect_broker.effect_receipts DEFAULT;

CREATE INDEX effect_receipts_failed ON effect_broker.effect_receipts (tenant_id, effect_id)
    WHERE kind = 'failed_final';

-- Links; the receipts stay.
CREATE TABLE effect_broker.effect_compensations (
    effect_id uuid PRIMARY KEY,
    tenant_id uuid NOT NULL,
    compensated_by uuid NOT NULL UNIQUE CHECK (compensated_by <> effect_id),
    actor text NOT NULL CHECK (octet_length(actor) BETWEEN 1 AND 1024),
    reason_ciphertext bytea NOT NULL CHECK (octet_length(reason_ciphertext) <= 65536),
    data_key_id text NOT NULL CHECK (octet_length(data_key_id) <= 64),
    linked_at timestamptz NOT NULL
);

CREATE INDEX effect_compensations_by_tenant ON effect_broker.effect_compensations (tenant_id, effect_id);

-- Operators' decisions; the free text is sealed.
CREATE TABLE effect_broker.effect_resolutions (
    effect_id uuid NOT NULL,
    decision_id text NOT NULL CHECK (octet_length(decision_id) BETWEEN 1 AND 255),
    decision text NOT NULL CHECK (decision IN ('committed', 'not_committed', 'failed')),
    actor text NOT NULL CHECK (octet_length(actor) BETWEEN 1 AND 1024),
    observed_at timestamptz,
    decided_at timestamptz NOT NULL,
    version integer NOT NULL,
    sealed bytea NOT NULL CHECK (octet_length(sealed) <= 262144),
    data_key_id text NOT NULL CHECK (octet_length(data_key_id) <= 64),
    PRIMARY KEY (effect_id, decision_id)
);

-- What operators must look at: late evidence against a terminal state.
CREATE TABLE effect_broker.effect_contradictions (
    effect_id uuid NOT NULL,
    sequence integer NOT NULL,
    tenant_id uuid NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (effect_id, sequence)
);

CREATE INDEX effect_contradictions_by_tenant ON effect_broker.effect_contradictions (tenant_id, effect_id);

-- Encrypted task tokens of callers that wait; outlive the work row until they were answered.
CREATE TABLE effect_broker.effect_callbacks (
    effect_id uuid NOT NULL,
    callback_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    due_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    token uuid,
    deliveries integer NOT NULL DEFAULT 0,
    sealed bytea NOT NULL CHECK (octet_length(sealed) <= 16384),
    data_key_id text NOT NULL CHECK (octet_length(data_key_id) <= 64),
    PRIMARY KEY (effect_id, callback_id)
);

CREATE INDEX effect_callbacks_due ON effect_broker.effect_callbacks (due_at);

-- A token stands here once its claim's commit was unknown: the write settles it. An absent claim can then only fail.
CREATE TABLE effect_broker.claim_fences (
    token uuid PRIMARY KEY,
    found boolean NOT NULL,
    fenced_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX claim_fences_by_age ON effect_broker.claim_fences (fenced_at);

-- One row. A hold stops every dispatch claim until an operator releases it.
CREATE TABLE effect_broker.ledger_control (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    dispatch_held boolean NOT NULL DEFAULT false,
    reason text CHECK (octet_length(reason) <= 1024),
    since timestamptz,
    released_by text CHECK (octet_length(released_by) <= 1024),
    released_at timestamptz,
    timeline text
);

COMMENT ON COLUMN effect_broker.ledger_control.timeline IS
    'The write-ahead log''s timeline; another one means a failover that may have lost commits. NULL: not watched.';

INSERT INTO effect_broker.ledger_control DEFAULT VALUES;
