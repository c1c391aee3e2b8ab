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

-- A domain is checked where a value enters; a CHECK of the table would be read and compiled anew by each statement.
CREATE DOMAIN effect_broker.sha256_digest AS bytea CHECK (octet_length(VALUE) = 32);
CREATE DOMAIN effect_broker.receipt_source AS text
    CHECK (VALUE IN ('attempt', 'probe', 'late_answer', 'operator', 'ledger'));
CREATE DOMAIN effect_broker.receipt_flags AS text[] CHECK (cardinality(VALUE) <= 16);
CREATE DOMAIN effect_broker.natural_number AS integer CHECK (VALUE >= 0);

CREATE TABLE effect_broker.tenants (
    tenant_id uuid PRIMARY KEY,
    slug text NOT NULL UNIQUE CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    hmac_key_id text NOT NULL CHECK (length(hmac_key_id) BETWEEN 1 AND 64),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    disabled_at timestamptz
);

-- Under which keys rows may stand: a few rows that a starting process reads, where the rows themselves are too many to be
-- asked. A process names the data key that it seals with before it seals; a tenant names its HMAC key. A key goes from
-- here once nothing stands under it.
CREATE TABLE effect_broker.ledger_keys (
    kind text NOT NULL CHECK (kind IN ('data', 'hmac')),
    key_id text NOT NULL CHECK (length(key_id) BETWEEN 1 AND 64),
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (kind, key_id)
);

-- Last use is kept to the hour: more often it would make one hot row of every busy key.
CREATE TABLE effect_broker.api_keys (
    key_id text PRIMARY KEY CHECK (length(key_id) BETWEEN 1 AND 64),
    tenant_id uuid NOT NULL REFERENCES effect_broker.tenants,
    secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) BETWEEN 32 AND 64),
    scopes text[] NOT NULL CHECK (scopes <@ ARRAY['submit', 'read', 'operate'] AND cardinality(scopes) > 0),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz
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
    probe_ms bigint NOT NULL CHECK (probe_ms > 0),
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

-- The uniqueness rule, kept for ever and small: it survives the partitions of everything below. What a replay compares
-- stands in the intent, later in its tombstone.
CREATE TABLE effect_broker.effect_keys (
    tenant_id uuid NOT NULL,
    key_digest effect_broker.sha256_digest NOT NULL,
    effect_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, key_digest)
);

COMMENT ON COLUMN effect_broker.effect_keys.key_digest IS 'SHA-256 of the operation key.';

-- Tool, contract name, version and safety class come from the immutable contract row.
CREATE TABLE effect_broker.effect_intents (
    effect_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    contract_id integer NOT NULL,
    request_hash effect_broker.sha256_digest NOT NULL,
    operation_key varchar(255) NOT NULL,
    downstream_key varchar(255) NOT NULL,
    hmac_key_id varchar(64) NOT NULL,
    data_key_id varchar(64) NOT NULL,
    requested_by varchar(1024),
    trace_id varchar(256),
    preview varchar(65536) NOT NULL,
    arguments_ciphertext bytea,
    PRIMARY KEY (tenant_id, effect_id)
) PARTITION BY RANGE (effect_id);

CREATE TABLE effect_broker.effect_intents_default PARTITION OF effect_broker.effect_intents DEFAULT;

COMMENT ON COLUMN effect_broker.effect_intents.arguments_ciphertext IS 'NULL once the payload was pruned.';

-- The lane keeps kinds of work from starving each other: 0 send, 1 recover, 2 leased, 3 parked.
CREATE FUNCTION effect_broker.lane_of(p_status effect_broker.effect_status, p_proof_committed boolean) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN p_status IN ('dispatching', 'reconciling') THEN 2
        WHEN p_status = 'outcome_unknown' OR p_proof_committed THEN 1
        WHEN p_status = 'manual_review' THEN 3
        ELSE 0
    END::smallint
$$;

-- What ties a live status to its columns. One function, since the server keeps its plan, where it compiles a CHECK's
-- expression anew for each statement (18 us a row for the same conditions written out). A lease has a token and an end;
-- whatever has lapsed unproved says since when; proof of commit brings waiting work into the lane of recovery.
CREATE FUNCTION effect_broker.possible_work(
    p_status effect_broker.effect_status, p_lane smallint, p_claim_token uuid, p_due_at timestamptz, p_attempts integer,
    p_unproven integer, p_proven_through integer, p_unknown_since timestamptz, p_settlement_at timestamptz,
    p_proof_committed boolean
) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN p_unproven BETWEEN 0 AND p_attempts - p_proven_through
        AND (p_attempts = 0) = (p_settlement_at IS NULL)
        AND CASE p_status
            WHEN 'prepared' THEN p_lane = p_proof_committed::integer AND p_claim_token IS NULL
            WHEN 'retryable' THEN p_lane = p_proof_committed::integer AND p_claim_token IS NULL AND p_attempts > 0
            WHEN 'dispatching' THEN p_lane = 2 AND p_claim_token IS NOT NULL AND isfinite(p_due_at) AND p_unproven > 0
            WHEN 'outcome_unknown' THEN p_lane = 1 AND p_claim_token IS NULL AND p_unknown_since IS NOT NULL
            WHEN 'reconciling' THEN
                p_lane = 2 AND p_claim_token IS NOT NULL AND isfinite(p_due_at) AND p_unknown_since IS NOT NULL
            WHEN 'manual_review' THEN
                p_lane = CASE WHEN p_proof_committed THEN 1 ELSE 3 END AND p_claim_token IS NULL
            ELSE false
        END;
END
$$;

-- One row for each live effect, gone at its terminal transition. Every wait is one due_at, `infinity` for what waits for
-- a person or for evidence.
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
    version integer NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    unproven integer NOT NULL DEFAULT 0,
    proven_through integer NOT NULL DEFAULT 0,
    rejections effect_broker.natural_number NOT NULL DEFAULT 0,
    retries effect_broker.natural_number NOT NULL DEFAULT 0,
    redispatches effect_broker.natural_number NOT NULL DEFAULT 0,
    probes effect_broker.natural_number NOT NULL DEFAULT 0,
    key_generation integer NOT NULL DEFAULT 1,
    lane smallint NOT NULL,
    proof_committed boolean NOT NULL DEFAULT false,
    claim_token uuid,
    scope_digest effect_broker.sha256_digest,
    head effect_broker.sha256_digest NOT NULL,
    CONSTRAINT a_possible_row CHECK (effect_broker.possible_work(
        status, lane, claim_token, due_at, attempts, unproven, proven_through, unknown_since, settlement_at,
        proof_committed
    ))
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
    send_deadline timestamptz NOT NULL,
    ordinal integer NOT NULL,
    version integer NOT NULL,
    key_generation integer NOT NULL,
    worker varchar(255) NOT NULL,
    scope_digest effect_broker.sha256_digest NOT NULL,
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
    reason varchar(4096) NOT NULL,
    external_id varchar(4096),
    data_key_id varchar(64),
    evidence varchar(65536),
    request_digest effect_broker.sha256_digest,
    response_digest effect_broker.sha256_digest,
    result_ciphertext bytea,
    PRIMARY KEY (effect_id, ordinal)
) PARTITION BY RANGE (effect_id);

CREATE TABLE effect_broker.effect_attempt_endings_default
    PARTITION OF effect_broker.effect_attempt_endings DEFAULT;

-- The key that a generation sends; generation 1 stands in the intent.
CREATE TABLE effect_broker.effect_key_generations (
    effect_id uuid NOT NULL,
    generation integer NOT NULL,
    minted_at timestamptz NOT NULL,
    downstream_key varchar(255) NOT NULL,
    PRIMARY KEY (effect_id, generation)
);

-- A chain: each digest covers the one before. After the terminal transition the primary key is the compare-and-swap: what follows appends over the last event.
CREATE TABLE effect_broker.effect_events (
    effect_id uuid NOT NULL,
    at timestamptz NOT NULL,
    sequence integer NOT NULL,
    type effect_broker.event_type NOT NULL,
    old_status effect_broker.effect_status,
    new_status effect_broker.effect_status NOT NULL,
    actor varchar(1024) NOT NULL,
    metadata varchar(65536) NOT NULL,
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
    source effect_broker.receipt_source NOT NULL,
    reason varchar(4096) NOT NULL,
    external_id varchar(4096),
    data_key_id varchar(64),
    flags effect_broker.receipt_flags NOT NULL,
    evidence_digest effect_broker.sha256_digest,
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
    timeline varchar(64)
);

COMMENT ON COLUMN effect_broker.ledger_control.timeline IS
    'The write-ahead log''s timeline; another one means a failover that may have lost commits. NULL: not watched.';

INSERT INTO effect_broker.ledger_control DEFAULT VALUES;
