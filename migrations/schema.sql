SELECT pg_catalog.set_config('search_path', '', false);
CREATE SCHEMA effect_broker;
ALTER SCHEMA effect_broker OWNER TO effect_broker_owner;
CREATE TYPE effect_broker.ending_kind AS ENUM (
    'committed',
    'rejected',
    'not_executed',
    'not_sent',
    'ambiguous'
);
ALTER TYPE effect_broker.ending_kind OWNER TO effect_broker_owner;
CREATE TYPE effect_broker.attempt_ending AS (
	ordinal integer,
	attempt_id uuid,
	kind effect_broker.ending_kind,
	final boolean,
	from_key_record boolean,
	bytes_may_have_left boolean,
	speaks_for_all boolean,
	reason text,
	external_id text,
	data_key_id text,
	evidence text,
	request_digest bytea,
	response_digest bytea,
	result_ciphertext bytea
);
ALTER TYPE effect_broker.attempt_ending OWNER TO effect_broker_owner;
CREATE DOMAIN effect_broker.natural_number AS integer
	CONSTRAINT natural_number_check CHECK ((VALUE >= 0));
ALTER DOMAIN effect_broker.natural_number OWNER TO effect_broker_owner;
CREATE DOMAIN effect_broker.sha256_digest AS bytea
	CONSTRAINT sha256_digest_check CHECK ((octet_length(VALUE) = 32));
ALTER DOMAIN effect_broker.sha256_digest OWNER TO effect_broker_owner;
CREATE TYPE effect_broker.claim_row AS (
	disposition text,
	detail text,
	remaining boolean,
	oldest_due_at timestamp with time zone,
	ledger_now timestamp with time zone,
	effect_id uuid,
	tenant_id uuid,
	operation_key character varying,
	tool text,
	request_hash effect_broker.sha256_digest,
	contract_id integer,
	contract_name text,
	contract_version text,
	safety text,
	downstream_key character varying,
	hmac_key_id character varying,
	arguments_ciphertext bytea,
	data_key_id character varying,
	preview character varying,
	requested_by character varying,
	trace_id character varying,
	intent_created_at timestamp with time zone,
	status text,
	version integer,
	attempts integer,
	unproven integer,
	proven_through integer,
	rejections effect_broker.natural_number,
	retries effect_broker.natural_number,
	redispatches effect_broker.natural_number,
	probes effect_broker.natural_number,
	key_generation integer,
	proof_committed boolean,
	due_at timestamp with time zone,
	settlement_at timestamp with time zone,
	horizon_at timestamp with time zone,
	submit_until timestamp with time zone,
	negative_at timestamp with time zone,
	unknown_since timestamp with time zone,
	created_at timestamp with time zone,
	claim_token uuid,
	current_key character varying,
	attempt_id uuid,
	worker character varying,
	started_at timestamp with time zone,
	send_deadline timestamp with time zone,
	scope_digest effect_broker.sha256_digest
);
ALTER TYPE effect_broker.claim_row OWNER TO effect_broker_owner;
CREATE TYPE effect_broker.decision AS (
	decision_id text,
	decision text,
	actor text,
	observed_at timestamp with time zone,
	sealed bytea,
	data_key_id text
);
ALTER TYPE effect_broker.decision OWNER TO effect_broker_owner;
CREATE TYPE effect_broker.effect_status AS ENUM (
    'prepared',
    'dispatching',
    'retryable',
    'outcome_unknown',
    'reconciling',
    'succeeded',
    'failed_final',
    'manual_review',
    'compensated'
);
ALTER TYPE effect_broker.effect_status OWNER TO effect_broker_owner;
CREATE TYPE effect_broker.event_type AS ENUM (
    'EffectReserved',
    'AttemptStarted',
    'ReceiptRecorded',
    'AttemptRejected',
    'AttemptNotExecuted',
    'AttemptNotSent',
    'OutcomeLost',
    'ContractViolated',
    'SendForbidden',
    'ReconciliationStarted',
    'RedispatchPermitted',
    'ProbeInconclusive',
    'ReconciliationInterrupted',
    'ReconciliationExhausted',
    'EvidenceRecorded',
    'ReconciliationRequested',
    'ContradictionRecorded',
    'ResolvedCommitted',
    'ResolvedNotCommitted',
    'ResolvedFailed',
    'CompensationLinked'
);
ALTER TYPE effect_broker.event_type OWNER TO effect_broker_owner;
CREATE TYPE effect_broker.deferral AS (
	effect_id uuid,
	tenant_id uuid,
	version integer,
	token uuid,
	type effect_broker.event_type,
	new_status effect_broker.effect_status,
	actor text,
	metadata text,
	delay_ms bigint,
	unproven integer,
	proven_through integer,
	rejections integer,
	retries integer,
	redispatches integer,
	probes integer,
	key_generation integer,
	unknown boolean,
	negative boolean,
	fresh_horizon boolean,
	deadline_ms bigint,
	downstream_key text,
	ending effect_broker.attempt_ending
);
ALTER TYPE effect_broker.deferral OWNER TO effect_broker_owner;
CREATE TYPE effect_broker.finishing AS (
	effect_id uuid,
	tenant_id uuid,
	version integer,
	token uuid,
	type effect_broker.event_type,
	new_status effect_broker.effect_status,
	actor text,
	metadata text,
	receipt_id uuid,
	source text,
	reason text,
	external_id text,
	data_key_id text,
	flags text[],
	evidence_digest bytea,
	target_time timestamp with time zone,
	result_ciphertext bytea,
	ending effect_broker.attempt_ending
);
ALTER TYPE effect_broker.finishing OWNER TO effect_broker_owner;
CREATE TYPE effect_broker.new_intent AS (
	effect_id uuid,
	tenant_id uuid,
	operation_key text,
	request_hash bytea,
	contract_id integer,
	downstream_key text,
	hmac_key_id text,
	data_key_id text,
	requested_by text,
	trace_id text,
	preview text,
	arguments_ciphertext bytea
);
ALTER TYPE effect_broker.new_intent OWNER TO effect_broker_owner;
CREATE DOMAIN effect_broker.receipt_flags AS text[]
	CONSTRAINT receipt_flags_check CHECK ((cardinality(VALUE) <= 16));
ALTER DOMAIN effect_broker.receipt_flags OWNER TO effect_broker_owner;
CREATE DOMAIN effect_broker.receipt_source AS text
	CONSTRAINT receipt_source_check CHECK ((VALUE = ANY (ARRAY['attempt'::text, 'probe'::text, 'late_answer'::text, 'operator'::text, 'ledger'::text])));
ALTER DOMAIN effect_broker.receipt_source OWNER TO effect_broker_owner;
CREATE TYPE effect_broker.reserved_row AS (
	created boolean,
	ledger_now timestamp with time zone,
	effect_id uuid,
	tenant_id uuid,
	operation_key character varying,
	tool text,
	request_hash effect_broker.sha256_digest,
	contract_id integer,
	contract_name text,
	contract_version text,
	safety text,
	downstream_key character varying,
	hmac_key_id character varying,
	arguments_ciphertext bytea,
	data_key_id character varying,
	preview character varying,
	requested_by character varying,
	trace_id character varying,
	intent_created_at timestamp with time zone,
	shown_status text,
	shown_version integer,
	updated_at timestamp with time zone
);
ALTER TYPE effect_broker.reserved_row OWNER TO effect_broker_owner;
CREATE TYPE effect_broker.safety_class AS ENUM (
    'transactional',
    'idempotent',
    'reconcilable',
    'unsafe'
);
ALTER TYPE effect_broker.safety_class OWNER TO effect_broker_owner;
CREATE TYPE effect_broker.sealed_row AS (
	place text,
	effect_id uuid,
	detail text,
	tenant_id uuid,
	ciphertext bytea,
	data_key_id character varying
);
ALTER TYPE effect_broker.sealed_row OWNER TO effect_broker_owner;
CREATE TYPE effect_broker.step_row AS (
	outcome text,
	version integer,
	late_recorded boolean,
	contradicted boolean
);
ALTER TYPE effect_broker.step_row OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.add_api_key(p_tenant_id uuid, p_key_id text, p_secret_hash bytea, p_scopes text[], p_lifetime_ms bigint) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
    INSERT INTO api_keys (key_id, tenant_id, secret_hash, scopes, expires_at)
    VALUES (p_key_id, p_tenant_id, p_secret_hash, p_scopes, clock_timestamp() + milliseconds(p_lifetime_ms))
$$;
ALTER FUNCTION effect_broker.add_api_key(p_tenant_id uuid, p_key_id text, p_secret_hash bytea, p_scopes text[], p_lifetime_ms bigint) OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.effect_events (
    effect_id uuid NOT NULL,
    at timestamp with time zone NOT NULL,
    sequence integer NOT NULL,
    type effect_broker.event_type NOT NULL,
    old_status effect_broker.effect_status,
    new_status effect_broker.effect_status NOT NULL,
    actor character varying(1024) NOT NULL,
    metadata character varying(65536) NOT NULL,
    digest bytea NOT NULL
)
PARTITION BY RANGE (effect_id);
ALTER TABLE effect_broker.effect_events OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.append_event(p_last effect_broker.effect_events, p_type effect_broker.event_type, p_new effect_broker.effect_status, p_actor text, p_metadata text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_at timestamptz := greatest(clock_timestamp(), p_last.at);
BEGIN
    INSERT INTO effect_broker.effect_events (
        effect_id, at, sequence, type, old_status, new_status, actor, metadata, digest
    )
    VALUES (
        p_last.effect_id, v_at, p_last.sequence + 1, p_type, p_last.new_status, p_new, p_actor, p_metadata,
        effect_broker.event_digest(
            p_last.digest, p_last.effect_id, p_last.sequence + 1, v_at, p_type, p_last.new_status, p_new, p_actor,
            p_metadata
        )
    )
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;
ALTER FUNCTION effect_broker.append_event(p_last effect_broker.effect_events, p_type effect_broker.event_type, p_new effect_broker.effect_status, p_actor text, p_metadata text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.archive_month(p_month date) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    SET lock_timeout TO '3s'
    AS $$
DECLARE
    v_from uuid := month_start(p_month);
    v_to uuid := month_start((p_month + interval '1 month')::date);
    v_suffix text := to_char(p_month, '_YYYY_MM');
    v_table text;
    v_left uuid;
    v_archived bigint;
BEGIN
    IF to_regclass('effect_intents' || v_suffix) IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'EB007', MESSAGE = 'There is no partition of this month.';
    END IF;
    -- No reservation of the month can begin behind the look for live effects.
    EXECUTE 'LOCK TABLE ' || quote_ident('effect_intents' || v_suffix) || ' IN SHARE MODE';
    SELECT w.effect_id INTO v_left FROM effect_work w WHERE w.effect_id >= v_from AND w.effect_id < v_to LIMIT 1;
    IF v_left IS NULL THEN
        SELECT c.effect_id INTO v_left FROM effect_callbacks c
        WHERE c.effect_id >= v_from AND c.effect_id < v_to LIMIT 1;
    END IF;
    IF v_left IS NOT NULL OR v_to > month_start((clock_timestamp() AT TIME ZONE 'UTC')::date) THEN
        RAISE EXCEPTION USING ERRCODE = 'EB008',
            MESSAGE = 'The month is not over: ' || coalesce('effect ' || v_left || ' is live.', 'it is the present one.');
    END IF;
    INSERT INTO effect_tombstones (
        effect_id, tenant_id, created_at, updated_at, archived_at, contract_id, version, status, request_hash,
        operation_key, downstream_key, hmac_key_id, requested_by, trace_id, last_metadata, receipt_id, kind, source,
        reason, external_id, flags, target_time, receipt_created_at, evidence_digest, downstream_key_digest, digest,
        head
    )
    SELECT e.effect_id, e.tenant_id, e.intent_created_at, e.updated_at, clock_timestamp(), e.contract_id,
        e.shown_version, e.shown_status::effect_status, e.request_hash, e.operation_key, e.downstream_key,
        e.hmac_key_id, e.requested_by, e.trace_id, e.last_metadata, r.receipt_id, r.kind, r.source, r.reason,
        r.external_id, r.flags, r.target_time, r.created_at, r.evidence_digest, r.downstream_key_digest, r.digest,
        v.digest
    FROM effects e
    JOIN effect_receipts r ON r.effect_id = e.effect_id
    JOIN effect_events v ON v.effect_id = e.effect_id AND v.sequence = e.shown_version
    WHERE e.effect_id >= v_from AND e.effect_id < v_to;
    GET DIAGNOSTICS v_archived = ROW_COUNT;
    FOREACH v_table IN ARRAY partitioned_tables() LOOP
        EXECUTE 'ALTER TABLE ' || quote_ident(v_table) || ' DETACH PARTITION ' || quote_ident(v_table || v_suffix);
        EXECUTE 'ALTER TABLE ' || quote_ident(v_table || v_suffix) || ' SET SCHEMA effect_broker_archive';
    END LOOP;
    RETURN v_archived;
END
$$;
ALTER FUNCTION effect_broker.archive_month(p_month date) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.claim(p_token uuid, p_worker text, p_limit integer, p_contract_ids integer[], p_scope_digests bytea[], p_margin_ms bigint, p_budget_ms bigint, p_unsafe_limit integer, p_attempt_ids uuid[], p_effect_ids uuid[], p_tenants uuid[], p_due_from timestamp with time zone) RETURNS SETOF effect_broker.claim_row
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    v_obstacle text;
    v_fitting integer[];
    v_unsafe integer[];
    v_picked uuid[];
    v_kept uuid[];
    v_oldest_due_at timestamptz;
    v_remaining boolean := false;
    v_now timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(uuid_hash_extended(p_token, 0));
    SELECT
        CASE
            WHEN EXISTS (SELECT FROM claim_fences f WHERE f.token = p_token) THEN 'fenced'
            WHEN o.dispatch_held THEN 'held'
            WHEN failed_over(o.timeline) THEN 'failed_over'
        END,
        t.fitting, t.unsafe
    INTO v_obstacle, v_fitting, v_unsafe
    FROM ledger_control o
    CROSS JOIN (
        SELECT coalesce(array_agg(c.contract_id), '{}') AS fitting,
            array_agg(c.contract_id) FILTER (WHERE c.safety = 'unsafe') AS unsafe
        FROM contracts c
        WHERE c.contract_id = ANY (p_contract_ids)
            AND (p_budget_ms IS NULL OR c.attempt_ms + p_margin_ms <= p_budget_ms)
            AND (p_unsafe_limit > 0 OR c.safety <> 'unsafe')
    ) t
    WHERE o.singleton;
    IF v_obstacle IS NOT NULL THEN
        RETURN NEXT obstacle_row(v_obstacle);
        RETURN;
    END IF;
    IF p_effect_ids IS NULL THEN
        SELECT p.picked, p.oldest_due_at INTO v_picked, v_oldest_due_at
        FROM pick(0::smallint, p_limit, v_fitting, p_tenants, p_due_from) p;
        v_remaining := cardinality(v_picked) = p_limit;
    ELSE
        v_picked := pick_named(0::smallint, p_limit, v_fitting, p_effect_ids);
    END IF;
    IF v_unsafe IS NOT NULL AND cardinality(v_picked) > p_unsafe_limit THEN
        v_kept := without_excess(v_picked, v_unsafe, p_unsafe_limit);
        IF cardinality(v_kept) < cardinality(v_picked) THEN
            v_remaining := true;
            IF p_effect_ids IS NULL THEN
                v_kept := v_kept || pick_safe(p_limit - cardinality(v_kept), v_fitting, v_unsafe, v_picked, p_due_from);
            END IF;
            v_picked := v_kept;
        END IF;
    END IF;
    v_now := clock_timestamp();
    FOR n IN 1..cardinality(v_picked) LOOP
        RETURN NEXT start_attempt(
            v_picked[n], v_now, v_remaining, v_oldest_due_at, p_token, p_worker, p_attempt_ids[n],
            p_contract_ids, p_scope_digests, p_margin_ms
        );
    END LOOP;
END
$$;
ALTER FUNCTION effect_broker.claim(p_token uuid, p_worker text, p_limit integer, p_contract_ids integer[], p_scope_digests bytea[], p_margin_ms bigint, p_budget_ms bigint, p_unsafe_limit integer, p_attempt_ids uuid[], p_effect_ids uuid[], p_tenants uuid[], p_due_from timestamp with time zone) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.claim_callbacks(p_token uuid, p_limit integer, p_effect_ids uuid[]) RETURNS TABLE(effect_id uuid, callback_id uuid, tenant_id uuid, sealed bytea, data_key_id text, deliveries integer)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH named AS MATERIALIZED (
        SELECT c.effect_id, c.callback_id
        FROM effect_callbacks c
        WHERE c.effect_id = ANY (p_effect_ids) AND (c.token IS NULL OR c.due_at <= clock_timestamp())
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ), due AS MATERIALIZED (
        SELECT c.effect_id, c.callback_id
        FROM effect_callbacks c
        WHERE p_effect_ids IS NULL AND c.due_at <= clock_timestamp()
        ORDER BY c.due_at
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ), seen AS MATERIALIZED (
        SELECT p.effect_id, p.callback_id, w.due_at AS work_due_at,
            w.effect_id IS NULL OR NOT goes_on(w.status, w.due_at, w.proof_committed) AS answerable
        FROM (SELECT * FROM named UNION ALL SELECT * FROM due) p
        LEFT JOIN effect_work w ON w.effect_id = p.effect_id
    ), taken AS (
        UPDATE effect_callbacks c
        SET token = CASE WHEN s.answerable THEN p_token END,
            deliveries = c.deliveries + s.answerable::integer,
            due_at = clock_timestamp() + CASE
                WHEN s.answerable THEN least(interval '30 seconds' * 2 ^ least(c.deliveries, 10), interval '15 minutes')
                ELSE greatest(
                    interval '30 seconds', least(s.work_due_at - clock_timestamp(), interval '10 minutes')
                )
            END
        FROM seen s
        WHERE c.effect_id = s.effect_id AND c.callback_id = s.callback_id
        RETURNING c.*
    )
    SELECT t.effect_id, t.callback_id, t.tenant_id, t.sealed, t.data_key_id, t.deliveries
    FROM taken t
    WHERE t.token IS NOT NULL;
END
$$;
ALTER FUNCTION effect_broker.claim_callbacks(p_token uuid, p_limit integer, p_effect_ids uuid[]) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.claim_reconciliation(p_token uuid, p_worker text, p_limit integer, p_contract_ids integer[], p_margin_ms bigint, p_budget_ms bigint, p_effect_ids uuid[], p_tenants uuid[], p_due_from timestamp with time zone) RETURNS SETOF effect_broker.claim_row
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    v_fitting integer[] := p_contract_ids;
    v_picked uuid[];
    v_oldest_due_at timestamptz;
    v_now timestamptz;
    v_row claim_row;
BEGIN
    PERFORM pg_advisory_xact_lock(uuid_hash_extended(p_token, 0));
    IF EXISTS (SELECT FROM claim_fences f WHERE f.token = p_token) THEN
        RETURN;
    END IF;
    IF p_budget_ms IS NOT NULL THEN
        SELECT array_agg(c.contract_id) INTO v_fitting FROM contracts c
        WHERE c.contract_id = ANY (p_contract_ids) AND c.probe_ms + p_margin_ms <= p_budget_ms;
    END IF;
    IF p_effect_ids IS NULL THEN
        SELECT p.picked, p.oldest_due_at INTO v_picked, v_oldest_due_at
        FROM pick(1::smallint, p_limit, v_fitting, p_tenants, p_due_from) p;
    ELSE
        v_picked := pick_named(1::smallint, p_limit, v_fitting, p_effect_ids);
    END IF;
    IF cardinality(v_picked) = 0 THEN
        RETURN;
    END IF;
    v_now := clock_timestamp();
    FOR v_row IN SELECT * FROM claim_rows(v_picked, v_now) LOOP
        v_row.remaining := cardinality(v_picked) = p_limit;
        v_row.oldest_due_at := v_oldest_due_at;
        IF v_row.status = 'outcome_unknown' THEN
            v_row.status := 'reconciling';
            v_row.version := v_row.version + 1;
            v_row.claim_token := p_token;
            SELECT v_row.ledger_now + milliseconds(c.lease_ms) INTO STRICT v_row.due_at
            FROM contracts c WHERE c.contract_id = v_row.contract_id;
            PERFORM start_reconciliation(v_row, p_worker);
        END IF;
        RETURN NEXT v_row;
    END LOOP;
END
$$;
ALTER FUNCTION effect_broker.claim_reconciliation(p_token uuid, p_worker text, p_limit integer, p_contract_ids integer[], p_margin_ms bigint, p_budget_ms bigint, p_effect_ids uuid[], p_tenants uuid[], p_due_from timestamp with time zone) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.claim_rows(p_picked uuid[], p_now timestamp with time zone) RETURNS SETOF effect_broker.claim_row
    LANGUAGE sql STABLE ROWS 10
    AS $$
    SELECT
        'claimed', NULL::text, false, NULL::timestamptz, greatest(p_now, w.last_event_at),
        i.effect_id, i.tenant_id, i.operation_key, c.tool, i.request_hash, i.contract_id, c.name, c.version,
        c.safety::text, i.downstream_key, i.hmac_key_id, i.arguments_ciphertext, i.data_key_id, i.preview,
        i.requested_by, i.trace_id, i.created_at,
        w.status::text, w.version, w.attempts, w.unproven, w.proven_through, w.rejections, w.retries,
        w.redispatches, w.probes, w.key_generation, w.proof_committed, nullif(w.due_at, 'infinity'),
        w.settlement_at, w.horizon_at, w.submit_until, w.negative_at, w.unknown_since, w.created_at,
        w.claim_token,
        CASE WHEN w.key_generation = 1 THEN i.downstream_key ELSE g.downstream_key END,
        a.attempt_id, a.worker, a.started_at, a.send_deadline, coalesce(a.scope_digest, w.scope_digest)
    FROM unnest(p_picked) WITH ORDINALITY AS p (effect_id, place)
    JOIN effect_broker.effect_work w ON w.effect_id = p.effect_id
    JOIN effect_broker.effect_intents i ON i.tenant_id = w.tenant_id AND i.effect_id = w.effect_id
    JOIN effect_broker.contracts c ON c.contract_id = w.contract_id
    LEFT JOIN effect_broker.effect_key_generations g
        ON g.effect_id = w.effect_id AND g.generation = w.key_generation AND w.key_generation > 1
    LEFT JOIN effect_broker.effect_attempts a
        ON a.effect_id = w.effect_id AND a.ordinal = w.attempts AND w.status = 'dispatching'
    ORDER BY p.place
$$;
ALTER FUNCTION effect_broker.claim_rows(p_picked uuid[], p_now timestamp with time zone) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.compensate(p_tenant_id uuid, p_effect_id uuid, p_compensated_by uuid, p_actor text, p_reason_ciphertext bytea, p_data_key_id text, p_expected_version integer, OUT outcome text, OUT version integer) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
DECLARE
    v_target effects;
    v_by effects;
    v_last effect_events;
    v_metadata text := '{"compensated_by":"' || p_compensated_by || '"}';
BEGIN
    PERFORM pg_advisory_xact_lock(uuid_hash_extended(p_tenant_id, 1));
    v_target := standing_of(p_tenant_id, p_effect_id);
    v_by := standing_of(p_tenant_id, p_compensated_by);
    version := v_target.shown_version;
    outcome := CASE
        WHEN v_target.effect_id IS NULL THEN 'not_found'
        WHEN v_by.effect_id IS NULL THEN 'compensating_not_found'
        WHEN p_effect_id = p_compensated_by THEN 'itself'
        WHEN v_target.compensated_by = p_compensated_by THEN 'applied'
        WHEN v_target.shown_version <> p_expected_version THEN 'moved'
        WHEN v_target.shown_status <> 'succeeded' THEN 'not_succeeded'
        WHEN v_by.shown_status <> 'succeeded' THEN 'compensating_not_succeeded'
        WHEN EXISTS (SELECT FROM effect_compensations c WHERE c.compensated_by = p_compensated_by) THEN 'used'
    END;
    IF outcome IS NOT NULL THEN
        RETURN;
    END IF;
    INSERT INTO effect_compensations (
        effect_id, tenant_id, compensated_by, actor, reason_ciphertext, data_key_id, linked_at
    )
    VALUES (
        p_effect_id, p_tenant_id, p_compensated_by, p_actor, p_reason_ciphertext, p_data_key_id, clock_timestamp()
    );
    LOOP
        SELECT * INTO STRICT v_last FROM effect_events e
        WHERE e.effect_id = p_effect_id ORDER BY e.sequence DESC LIMIT 1;
        EXIT WHEN append_event(v_last, 'CompensationLinked', 'compensated', p_actor, v_metadata);
    END LOOP;
    outcome := 'applied';
    version := v_last.sequence + 1;
END
$$;
ALTER FUNCTION effect_broker.compensate(p_tenant_id uuid, p_effect_id uuid, p_compensated_by uuid, p_actor text, p_reason_ciphertext bytea, p_data_key_id text, p_expected_version integer, OUT outcome text, OUT version integer) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.confirm_claim(p_token uuid) RETURNS SETOF effect_broker.claim_row
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    v_held uuid[];
BEGIN
    PERFORM pg_advisory_xact_lock(uuid_hash_extended(p_token, 0));
    SELECT coalesce(array_agg(w.effect_id), '{}') INTO v_held
    FROM effect_work w
    WHERE w.lane = 2 AND w.claim_token = p_token;
    INSERT INTO claim_fences (token, found)
    VALUES (p_token, cardinality(v_held) > 0)
    ON CONFLICT (token) DO UPDATE SET fenced_at = clock_timestamp();
    RETURN QUERY
    SELECT * FROM claim_rows(v_held, clock_timestamp());
END
$$;
ALTER FUNCTION effect_broker.confirm_claim(p_token uuid) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.contradicts(p_effect_id uuid, p_ending effect_broker.attempt_ending) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT p_ending.kind = 'committed' AND (r.kind = 'failed_final' OR r.external_id <> p_ending.external_id)
    FROM effect_broker.effect_receipts r
    WHERE r.effect_id = p_effect_id
$$;
ALTER FUNCTION effect_broker.contradicts(p_effect_id uuid, p_ending effect_broker.attempt_ending) OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.tenants (
    tenant_id uuid NOT NULL,
    slug text NOT NULL,
    name text NOT NULL,
    hmac_key_id text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    disabled_at timestamp with time zone,
    CONSTRAINT tenants_hmac_key_id_check CHECK (((length(hmac_key_id) >= 1) AND (length(hmac_key_id) <= 64))),
    CONSTRAINT tenants_name_check CHECK (((length(name) >= 1) AND (length(name) <= 255))),
    CONSTRAINT tenants_slug_check CHECK ((slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'::text))
);
ALTER TABLE effect_broker.tenants OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.create_tenant(p_tenant_id uuid, p_slug text, p_name text, p_hmac_key_id text, OUT stored effect_broker.tenants, OUT created boolean) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
BEGIN
    LOOP
        INSERT INTO tenants (tenant_id, slug, name, hmac_key_id) VALUES (p_tenant_id, p_slug, p_name, p_hmac_key_id)
        ON CONFLICT (slug) DO NOTHING
        RETURNING * INTO stored;
        created := FOUND;
        IF created THEN
            PERFORM declare_key('hmac', p_hmac_key_id);
            EXIT;
        END IF;
        SELECT * INTO stored FROM tenants t WHERE t.slug = p_slug;
        EXIT WHEN FOUND;
    END LOOP;
END
$$;
ALTER FUNCTION effect_broker.create_tenant(p_tenant_id uuid, p_slug text, p_name text, p_hmac_key_id text, OUT stored effect_broker.tenants, OUT created boolean) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.decided_version(p_tenant_id uuid, p_effect_id uuid, p_decision_id text) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_version integer;
BEGIN
    PERFORM FROM effect_broker.effect_work w WHERE w.effect_id = p_effect_id AND w.tenant_id = p_tenant_id FOR UPDATE;
    SELECT r.version INTO v_version
    FROM effect_broker.effect_resolutions r
    JOIN effect_broker.effect_intents i ON i.tenant_id = p_tenant_id AND i.effect_id = r.effect_id
    WHERE r.effect_id = p_effect_id AND r.decision_id = p_decision_id;
    RETURN v_version;
END
$$;
ALTER FUNCTION effect_broker.decided_version(p_tenant_id uuid, p_effect_id uuid, p_decision_id text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.declare_key(p_kind text, p_key_id text) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
    INSERT INTO ledger_keys (kind, key_id) VALUES (p_kind, p_key_id) ON CONFLICT DO NOTHING
$$;
ALTER FUNCTION effect_broker.declare_key(p_kind text, p_key_id text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.defer(p_steps effect_broker.deferral[]) RETURNS SETOF effect_broker.step_row
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    s deferral;
    v_old record;
    v_at timestamptz;
BEGIN
    FOREACH s IN ARRAY p_steps LOOP
        SELECT w.status, w.head, w.key_generation, w.last_event_at INTO v_old
        FROM effect_work w
        WHERE w.effect_id = s.effect_id AND w.tenant_id = s.tenant_id AND w.version = s.version
            AND w.claim_token IS NOT DISTINCT FROM s.token
            AND NOT (w.proof_committed AND s.new_status IN ('prepared', 'retryable', 'dispatching'))
        FOR UPDATE;
        IF FOUND THEN
            v_at := greatest(clock_timestamp(), v_old.last_event_at);
            PERFORM write_deferral(
                s, v_at,
                store_event(
                    s.effect_id, s.version + 1, v_at, s.type, v_old.status, s.new_status, s.actor, s.metadata,
                    v_old.head
                )
            );
            IF (s.ending).ordinal IS NOT NULL THEN
                PERFORM store_ending(s.effect_id, s.ending, v_at, false);
            END IF;
            IF s.key_generation > v_old.key_generation THEN
                INSERT INTO effect_key_generations (effect_id, generation, minted_at, downstream_key)
                VALUES (s.effect_id, s.key_generation, v_at, s.downstream_key);
            END IF;
            RETURN NEXT ('applied', s.version + 1, false, false)::step_row;
        ELSE
            RETURN NEXT lost_step(
                s.effect_id, s.tenant_id, s.version, s.token, s.type, s.new_status, s.actor, s.metadata, s.ending
            );
        END IF;
    END LOOP;
END
$$;
ALTER FUNCTION effect_broker.defer(p_steps effect_broker.deferral[]) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.deny_against_proof() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT NEW.proof_committed
        OR (NEW.status <> OLD.status AND NEW.status IN ('prepared', 'retryable', 'dispatching'))
    THEN
        RAISE EXCEPTION USING ERRCODE = 'EB002',
            MESSAGE = 'Proof of commit stands for effect ' || OLD.effect_id || '.';
    END IF;
    RETURN NEW;
END
$$;
ALTER FUNCTION effect_broker.deny_against_proof() OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.deny_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'EB001',
        MESSAGE = 'Rows of ' || TG_TABLE_NAME || ' are immutable; corrections are new rows.';
END
$$;
ALTER FUNCTION effect_broker.deny_change() OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.deny_change_but_payload() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_row record := NEW;
BEGIN
    CASE TG_ARGV[0]
        WHEN 'arguments_ciphertext' THEN
            v_row.arguments_ciphertext := OLD.arguments_ciphertext;
            IF NEW.arguments_ciphertext IS NULL THEN
                v_row.preview := OLD.preview;
            END IF;
        WHEN 'result_ciphertext' THEN
            v_row.result_ciphertext := OLD.result_ciphertext;
        WHEN 'sealed' THEN
            v_row.sealed := OLD.sealed;
        WHEN 'reason_ciphertext' THEN
            v_row.reason_ciphertext := OLD.reason_ciphertext;
    END CASE;
    v_row.data_key_id := OLD.data_key_id;
    IF TG_OP = 'UPDATE' AND v_row IS NOT DISTINCT FROM OLD THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'EB001',
        MESSAGE = 'Rows of ' || TG_TABLE_NAME || ' are immutable; corrections are new rows.';
END
$$;
ALTER FUNCTION effect_broker.deny_change_but_payload() OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.deny_failure_against_proof() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF EXISTS (
        SELECT FROM effect_broker.effect_attempt_endings e
        WHERE e.effect_id = NEW.effect_id AND e.kind = 'committed'
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'EB003',
            MESSAGE = 'An attempt of effect ' || NEW.effect_id || ' is proven committed; it cannot have failed.';
    END IF;
    RETURN NEW;
END
$$;
ALTER FUNCTION effect_broker.deny_failure_against_proof() OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.drop_archived_month(p_month date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    SET lock_timeout TO '3s'
    AS $$
DECLARE
    v_suffix text := to_char(p_month, '_YYYY_MM');
    v_table text;
    v_missing boolean;
BEGIN
    IF to_regclass('effect_broker_archive.' || quote_ident('effect_intents' || v_suffix)) IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'EB007', MESSAGE = 'This month is not archived.';
    END IF;
    EXECUTE 'SELECT EXISTS (SELECT FROM effect_broker_archive.' || quote_ident('effect_intents' || v_suffix)
        || ' i WHERE NOT EXISTS (SELECT FROM effect_tombstones t'
        || ' WHERE t.tenant_id = i.tenant_id AND t.effect_id = i.effect_id))'
        INTO v_missing;
    IF v_missing THEN
        RAISE EXCEPTION USING ERRCODE = 'EB008', MESSAGE = 'An effect of this month has no tombstone.';
    END IF;
    FOREACH v_table IN ARRAY partitioned_tables() LOOP
        EXECUTE 'DROP TABLE effect_broker_archive.' || quote_ident(v_table || v_suffix);
    END LOOP;
END
$$;
ALTER FUNCTION effect_broker.drop_archived_month(p_month date) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.due_tenants(p_lane smallint, p_due_from timestamp with time zone, p_after uuid, p_limit integer) RETURNS SETOF uuid
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    SELECT t.tenant_id
    FROM (
        (SELECT a.tenant_id, 0 AS part FROM tenants a
         WHERE a.tenant_id > p_after ORDER BY a.tenant_id LIMIT p_limit)
        UNION ALL
        (SELECT b.tenant_id, 1 AS part FROM tenants b
         WHERE b.tenant_id <= p_after ORDER BY b.tenant_id LIMIT p_limit)
    ) t
    WHERE EXISTS (
        SELECT FROM effect_work w
        WHERE w.lane = p_lane AND w.tenant_id = t.tenant_id
            AND w.due_at >= coalesce(p_due_from, '-infinity') AND w.due_at <= v_now
    )
    ORDER BY t.part, t.tenant_id
    LIMIT p_limit;
END
$$;
ALTER FUNCTION effect_broker.due_tenants(p_lane smallint, p_due_from timestamp with time zone, p_after uuid, p_limit integer) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.end_callback(p_effect_id uuid, p_callback_id uuid, p_token uuid) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM effect_callbacks c
    WHERE c.effect_id = p_effect_id AND c.callback_id = p_callback_id AND c.token = p_token;
    RETURN FOUND;
END
$$;
ALTER FUNCTION effect_broker.end_callback(p_effect_id uuid, p_callback_id uuid, p_token uuid) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.event_digest(p_previous bytea, p_effect_id uuid, p_sequence integer, p_at timestamp with time zone, p_type effect_broker.event_type, p_old effect_broker.effect_status, p_new effect_broker.effect_status, p_actor text, p_metadata text) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT sha256(
        p_previous || uuid_send(p_effect_id) || int4send(p_sequence) || timestamptz_send(p_at)
        || effect_broker.framed(p_type::text) || effect_broker.framed(p_old::text)
        || effect_broker.framed(p_new::text) || effect_broker.framed(p_actor) || effect_broker.framed(p_metadata)
    )
$$;
ALTER FUNCTION effect_broker.event_digest(p_previous bytea, p_effect_id uuid, p_sequence integer, p_at timestamp with time zone, p_type effect_broker.event_type, p_old effect_broker.effect_status, p_new effect_broker.effect_status, p_actor text, p_metadata text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.expire_leases(p_limit integer, p_margin_ms bigint) RETURNS TABLE(tenant_id uuid, effect_id uuid, status text, safety text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_lapsed uuid[];
    v_old record;
    v_head bytea;
    v_metadata CONSTANT text := '{"reason":"lease_expired"}';
BEGIN
    WITH lapsed AS MATERIALIZED (
        SELECT w.effect_id
        FROM effect_work w
        WHERE w.lane = 2 AND w.due_at < v_now - milliseconds(p_margin_ms)
        ORDER BY w.due_at
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    )
    SELECT array_agg(l.effect_id) INTO v_lapsed FROM lapsed l;
    FOR v_old IN
        SELECT w.*, c.safety, greatest(v_now, w.last_event_at) AS at
        FROM unnest(v_lapsed) l (effect_id)
        JOIN effect_work w ON w.effect_id = l.effect_id
        JOIN contracts c ON c.contract_id = w.contract_id
    LOOP
        v_head := store_event(
            v_old.effect_id, v_old.version + 1, v_old.at,
            CASE WHEN v_old.status = 'dispatching' THEN 'OutcomeLost' ELSE 'ReconciliationInterrupted' END::event_type,
            v_old.status, 'outcome_unknown', 'sweep', v_metadata, v_old.head
        );
        UPDATE effect_work w
        SET status = 'outcome_unknown', lane = 1, version = v_old.version + 1, claim_token = NULL,
            last_event_at = v_old.at, head = v_head, unknown_since = coalesce(w.unknown_since, v_old.at),
            due_at = CASE WHEN v_old.safety = 'unsafe' AND NOT v_old.proof_committed THEN 'infinity' ELSE v_old.at END
        WHERE w.effect_id = v_old.effect_id AND w.version = v_old.version;
        tenant_id := v_old.tenant_id;
        effect_id := v_old.effect_id;
        status := 'outcome_unknown';
        safety := v_old.safety;
        RETURN NEXT;
    END LOOP;
END
$$;
ALTER FUNCTION effect_broker.expire_leases(p_limit integer, p_margin_ms bigint) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.failed_over(p_timeline text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF p_timeline IS NULL THEN
        RETURN false;
    END IF;
    RETURN p_timeline <> left(pg_walfile_name(pg_current_wal_lsn()), 8);
END
$$;
ALTER FUNCTION effect_broker.failed_over(p_timeline text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.finish(p_steps effect_broker.finishing[]) RETURNS SETOF effect_broker.step_row
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    v_step finishing;
    v_done uuid[];
    v_applied boolean;
BEGIN
    IF cardinality(p_steps) > 1 THEN
        v_done := finish_many(p_steps);
    END IF;
    FOREACH v_step IN ARRAY p_steps LOOP
        v_applied := CASE
            WHEN v_done IS NOT NULL THEN v_step.effect_id = ANY (v_done)
            ELSE finish_one(v_step)
        END;
        IF v_applied THEN
            RETURN NEXT ('applied', v_step.version + 1, false, false)::step_row;
        ELSE
            RETURN NEXT lost_step(
                v_step.effect_id, v_step.tenant_id, v_step.version, v_step.token, v_step.type, v_step.new_status,
                v_step.actor, v_step.metadata, v_step.ending
            );
        END IF;
    END LOOP;
END
$$;
ALTER FUNCTION effect_broker.finish(p_steps effect_broker.finishing[]) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.finish_many(p_steps effect_broker.finishing[]) RETURNS uuid[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_range record := effect_broker.id_range(ARRAY(SELECT s.effect_id FROM unnest(p_steps) s));
    v_done uuid[];
BEGIN
    WITH gone AS (
        DELETE FROM effect_broker.effect_work w
        USING unnest(p_steps) s
        WHERE w.effect_id = s.effect_id AND w.tenant_id = s.tenant_id AND w.version = s.version
            AND w.claim_token IS NOT DISTINCT FROM s.token
            AND NOT (w.proof_committed AND s.new_status = 'failed_final')
        RETURNING s.*, w.status AS old_status, w.head, w.key_generation, w.contract_id,
            greatest(clock_timestamp(), w.last_event_at) AS at
    ), event AS (
        INSERT INTO effect_broker.effect_events (
            effect_id, at, sequence, type, old_status, new_status, actor, metadata, digest
        )
        SELECT g.effect_id, g.at, g.version + 1, g.type, g.old_status, g.new_status, g.actor, g.metadata,
            effect_broker.event_digest(
                g.head, g.effect_id, g.version + 1, g.at, g.type, g.old_status, g.new_status, g.actor, g.metadata
            )
        FROM gone g
    ), ending AS (
        INSERT INTO effect_broker.effect_attempt_endings (
            effect_id, ended_at, ordinal, kind, late, final, from_key_record, bytes_may_have_left, reason, external_id,
            data_key_id, evidence, request_digest, response_digest, result_ciphertext
        )
        SELECT g.effect_id, g.at, (g.ending).ordinal, (g.ending).kind, false, (g.ending).final,
            (g.ending).from_key_record, (g.ending).bytes_may_have_left, (g.ending).reason, (g.ending).external_id,
            CASE WHEN g.result_ciphertext IS NULL THEN (g.ending).data_key_id END,
            (g.ending).evidence, (g.ending).request_digest, (g.ending).response_digest,
            CASE WHEN g.result_ciphertext IS NULL THEN (g.ending).result_ciphertext END
        FROM gone g
        WHERE (g.ending).ordinal IS NOT NULL
    ), receipt AS (
        INSERT INTO effect_broker.effect_receipts (
            effect_id, tenant_id, receipt_id, created_at, target_time, kind, contract_id, source, reason, external_id,
            data_key_id, flags, evidence_digest, downstream_key_digest, digest, result_ciphertext
        )
        SELECT d.effect_id, d.tenant_id, d.receipt_id, d.at, d.target_time, d.new_status, d.contract_id, d.source,
            d.reason, d.external_id, d.data_key_id, d.flags, d.evidence_digest, d.key_digest,
            effect_broker.receipt_digest(
                d.receipt_id, d.effect_id, d.tenant_id, d.contract_id, d.at, d.target_time, d.new_status, d.source,
                d.reason, d.external_id, d.flags, d.evidence_digest, d.key_digest
            ),
            d.result_ciphertext
        FROM (
            SELECT g.*, sha256(convert_to(coalesce(k.downstream_key, i.downstream_key), 'UTF8')) AS key_digest
            FROM gone g
            JOIN effect_broker.effect_intents i ON i.tenant_id = g.tenant_id AND i.effect_id = g.effect_id
                AND i.effect_id BETWEEN v_range.first_id AND v_range.last_id
            LEFT JOIN effect_broker.effect_key_generations k
                ON k.effect_id = g.effect_id AND k.generation = g.key_generation AND g.key_generation > 1
        ) d
    )
    SELECT coalesce(array_agg(g.effect_id), '{}') INTO v_done FROM gone g;
    RETURN v_done;
END
$$;
ALTER FUNCTION effect_broker.finish_many(p_steps effect_broker.finishing[]) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.finish_one(s effect_broker.finishing) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
    w effect_broker.effect_work;
    e effect_broker.attempt_ending := s.ending;
    v_at timestamptz;
    v_key_digest bytea;
BEGIN
    DELETE FROM effect_broker.effect_work k
    WHERE k.effect_id = s.effect_id AND k.tenant_id = s.tenant_id AND k.version = s.version
        AND k.claim_token IS NOT DISTINCT FROM s.token
        AND NOT (k.proof_committed AND s.new_status = 'failed_final')
    RETURNING * INTO w;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    v_at := greatest(clock_timestamp(), w.last_event_at);
    w.head := effect_broker.store_event(
        s.effect_id, s.version + 1, v_at, s.type, w.status, s.new_status, s.actor, s.metadata, w.head
    );
    IF e.ordinal IS NOT NULL THEN
        INSERT INTO effect_broker.effect_attempt_endings (
            effect_id, ended_at, ordinal, kind, late, final, from_key_record, bytes_may_have_left, reason, external_id,
            data_key_id, evidence, request_digest, response_digest, result_ciphertext
        )
        VALUES (
            s.effect_id, v_at, e.ordinal, e.kind, false, e.final, e.from_key_record, e.bytes_may_have_left, e.reason,
            e.external_id, CASE WHEN s.result_ciphertext IS NULL THEN e.data_key_id END, e.evidence, e.request_digest,
            e.response_digest, CASE WHEN s.result_ciphertext IS NULL THEN e.result_ciphertext END
        );
    END IF;
    SELECT sha256(convert_to(CASE
        WHEN w.key_generation = 1 THEN i.downstream_key
        ELSE (SELECT g.downstream_key FROM effect_broker.effect_key_generations g
              WHERE g.effect_id = s.effect_id AND g.generation = w.key_generation)
    END, 'UTF8'))
    INTO STRICT v_key_digest
    FROM effect_broker.effect_intents i
    WHERE i.tenant_id = s.tenant_id AND i.effect_id = s.effect_id;
    INSERT INTO effect_broker.effect_receipts (
        effect_id, tenant_id, receipt_id, created_at, target_time, kind, contract_id, source, reason, external_id,
        data_key_id, flags, evidence_digest, downstream_key_digest, digest, result_ciphertext
    )
    VALUES (
        s.effect_id, s.tenant_id, s.receipt_id, v_at, s.target_time, s.new_status, w.contract_id, s.source, s.reason,
        s.external_id, s.data_key_id, s.flags, s.evidence_digest, v_key_digest,
        effect_broker.receipt_digest(
            s.receipt_id, s.effect_id, s.tenant_id, w.contract_id, v_at, s.target_time, s.new_status, s.source,
            s.reason, s.external_id, s.flags, s.evidence_digest, v_key_digest
        ),
        s.result_ciphertext
    );
    RETURN true;
END
$$;
ALTER FUNCTION effect_broker.finish_one(s effect_broker.finishing) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.first_head() RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT '\x0000000000000000000000000000000000000000000000000000000000000000'::bytea
$$;
ALTER FUNCTION effect_broker.first_head() OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.first_id_at(p_at timestamp with time zone) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT (lpad(to_hex((extract(epoch FROM p_at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;
ALTER FUNCTION effect_broker.first_id_at(p_at timestamp with time zone) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.forget_fences(p_limit integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
DECLARE
    v_forgotten bigint;
BEGIN
    DELETE FROM claim_fences f
    WHERE f.token IN (
        SELECT o.token FROM claim_fences o WHERE o.fenced_at < clock_timestamp() - interval '1 day'
        ORDER BY o.fenced_at LIMIT p_limit
    );
    GET DIAGNOSTICS v_forgotten = ROW_COUNT;
    RETURN v_forgotten;
END
$$;
ALTER FUNCTION effect_broker.forget_fences(p_limit integer) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.framed(p_bytes bytea) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT CASE WHEN p_bytes IS NULL THEN '\xffffffff'::bytea
                ELSE int4send(octet_length(p_bytes)) || p_bytes END
$$;
ALTER FUNCTION effect_broker.framed(p_bytes bytea) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.framed(p_text text) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT CASE WHEN p_text IS NULL THEN '\xffffffff'::bytea
                ELSE int4send(octet_length(p_text)) || convert_to(p_text, 'UTF8') END
$$;
ALTER FUNCTION effect_broker.framed(p_text text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.goes_on(p_status effect_broker.effect_status, p_due_at timestamp with time zone, p_proof_committed boolean) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT p_proof_committed
        OR NOT (p_status = 'manual_review' OR (p_status = 'outcome_unknown' AND p_due_at = 'infinity'))
$$;
ALTER FUNCTION effect_broker.goes_on(p_status effect_broker.effect_status, p_due_at timestamp with time zone, p_proof_committed boolean) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.hold_dispatch(p_reason text) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
    UPDATE ledger_control
    SET dispatch_held = true, reason = p_reason, since = clock_timestamp()
    WHERE NOT dispatch_held
$$;
ALTER FUNCTION effect_broker.hold_dispatch(p_reason text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.id_range(p_ids uuid[], OUT first_id uuid, OUT last_id uuid) RETURNS record
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
BEGIN
    SELECT (array_agg(i ORDER BY i))[1], (array_agg(i ORDER BY i DESC))[1] INTO first_id, last_id
    FROM unnest(p_ids) i;
END
$$;
ALTER FUNCTION effect_broker.id_range(p_ids uuid[], OUT first_id uuid, OUT last_id uuid) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.keep_callback(p_tenant_id uuid, p_effect_id uuid, p_callback_id uuid, p_sealed bytea, p_data_key_id text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO effect_callbacks (effect_id, callback_id, tenant_id, due_at, created_at, sealed, data_key_id)
    VALUES (
        p_effect_id, p_callback_id, p_tenant_id, clock_timestamp(), clock_timestamp(), p_sealed, p_data_key_id
    )
    ON CONFLICT (effect_id, callback_id) DO NOTHING;
    RETURN NOT EXISTS (
        SELECT FROM effect_work w
        WHERE w.effect_id = p_effect_id AND goes_on(w.status, w.due_at, w.proof_committed)
    );
END
$$;
ALTER FUNCTION effect_broker.keep_callback(p_tenant_id uuid, p_effect_id uuid, p_callback_id uuid, p_sealed bytea, p_data_key_id text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.lane_of(p_status effect_broker.effect_status, p_proof_committed boolean) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE
        WHEN p_status IN ('dispatching', 'reconciling') THEN 2
        WHEN p_status = 'outcome_unknown' OR p_proof_committed THEN 1
        WHEN p_status = 'manual_review' THEN 3
        ELSE 0
    END::smallint
$$;
ALTER FUNCTION effect_broker.lane_of(p_status effect_broker.effect_status, p_proof_committed boolean) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.possible_work(p_status effect_broker.effect_status, p_lane smallint, p_claim_token uuid, p_due_at timestamp with time zone, p_attempts integer, p_unproven integer, p_proven_through integer, p_unknown_since timestamp with time zone, p_settlement_at timestamp with time zone, p_proof_committed boolean) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
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
ALTER FUNCTION effect_broker.possible_work(p_status effect_broker.effect_status, p_lane smallint, p_claim_token uuid, p_due_at timestamp with time zone, p_attempts integer, p_unproven integer, p_proven_through integer, p_unknown_since timestamp with time zone, p_settlement_at timestamp with time zone, p_proof_committed boolean) OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.effect_work (
    effect_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    last_event_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    submit_until timestamp with time zone NOT NULL,
    settlement_at timestamp with time zone,
    horizon_at timestamp with time zone,
    negative_at timestamp with time zone,
    unknown_since timestamp with time zone,
    status effect_broker.effect_status NOT NULL,
    contract_id integer NOT NULL,
    version integer NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    unproven integer DEFAULT 0 NOT NULL,
    proven_through integer DEFAULT 0 NOT NULL,
    rejections effect_broker.natural_number DEFAULT 0 NOT NULL,
    retries effect_broker.natural_number DEFAULT 0 NOT NULL,
    redispatches effect_broker.natural_number DEFAULT 0 NOT NULL,
    probes effect_broker.natural_number DEFAULT 0 NOT NULL,
    key_generation integer DEFAULT 1 NOT NULL,
    lane smallint NOT NULL,
    proof_committed boolean DEFAULT false NOT NULL,
    claim_token uuid,
    scope_digest effect_broker.sha256_digest,
    head effect_broker.sha256_digest NOT NULL,
    CONSTRAINT a_possible_row CHECK (effect_broker.possible_work(status, lane, claim_token, due_at, attempts, unproven, proven_through, unknown_since, settlement_at, proof_committed))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='500', autovacuum_analyze_scale_factor='0.1', autovacuum_vacuum_cost_delay='0');
ALTER TABLE effect_broker.effect_work OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.lock_claim(p_effect_id uuid, p_tenant_id uuid, p_token uuid) RETURNS SETOF effect_broker.effect_work
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
BEGIN
    RETURN QUERY
    SELECT w.*
    FROM effect_work w
    WHERE w.effect_id = p_effect_id AND w.tenant_id = p_tenant_id AND w.claim_token = p_token
        AND w.status = 'dispatching'
    FOR UPDATE;
END
$$;
ALTER FUNCTION effect_broker.lock_claim(p_effect_id uuid, p_tenant_id uuid, p_token uuid) OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.contracts (
    contract_id integer NOT NULL,
    tool text NOT NULL,
    name text NOT NULL,
    version text NOT NULL,
    document bytea NOT NULL,
    digest bytea NOT NULL,
    safety effect_broker.safety_class NOT NULL,
    attempt_ms bigint NOT NULL,
    probe_ms bigint NOT NULL,
    lease_ms bigint NOT NULL,
    settlement_ms bigint NOT NULL,
    retention_ms bigint,
    submit_ms bigint NOT NULL,
    published_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT contracts_attempt_ms_check CHECK ((attempt_ms > 0)),
    CONSTRAINT contracts_check CHECK ((lease_ms >= attempt_ms)),
    CONSTRAINT contracts_digest_check CHECK ((octet_length(digest) = 32)),
    CONSTRAINT contracts_document_check CHECK ((octet_length(document) <= 1048576)),
    CONSTRAINT contracts_name_check CHECK (((length(name) >= 1) AND (length(name) <= 255))),
    CONSTRAINT contracts_probe_ms_check CHECK ((probe_ms > 0)),
    CONSTRAINT contracts_retention_ms_check CHECK ((retention_ms > 0)),
    CONSTRAINT contracts_settlement_ms_check CHECK ((settlement_ms >= 0)),
    CONSTRAINT contracts_submit_ms_check CHECK ((submit_ms > 0)),
    CONSTRAINT contracts_tool_check CHECK (((length(tool) >= 1) AND (length(tool) <= 255))),
    CONSTRAINT contracts_version_check CHECK (((length(version) >= 1) AND (length(version) <= 255)))
);
ALTER TABLE effect_broker.contracts OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.effect_compensations (
    effect_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    compensated_by uuid NOT NULL,
    actor text NOT NULL,
    reason_ciphertext bytea NOT NULL,
    data_key_id text NOT NULL,
    linked_at timestamp with time zone NOT NULL,
    CONSTRAINT effect_compensations_actor_check CHECK (((octet_length(actor) >= 1) AND (octet_length(actor) <= 1024))),
    CONSTRAINT effect_compensations_check CHECK ((compensated_by <> effect_id)),
    CONSTRAINT effect_compensations_data_key_id_check CHECK ((octet_length(data_key_id) <= 64)),
    CONSTRAINT effect_compensations_reason_ciphertext_check CHECK ((octet_length(reason_ciphertext) <= 65536))
);
ALTER TABLE effect_broker.effect_compensations OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.effect_intents (
    effect_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    contract_id integer NOT NULL,
    request_hash effect_broker.sha256_digest NOT NULL,
    operation_key character varying(255) NOT NULL,
    downstream_key character varying(255) NOT NULL,
    hmac_key_id character varying(64) NOT NULL,
    data_key_id character varying(64) NOT NULL,
    requested_by character varying(1024),
    trace_id character varying(256),
    preview character varying(65536) NOT NULL,
    arguments_ciphertext bytea
)
PARTITION BY RANGE (effect_id);
ALTER TABLE effect_broker.effect_intents OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.effect_receipts (
    effect_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    receipt_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    target_time timestamp with time zone,
    kind effect_broker.effect_status NOT NULL,
    contract_id integer NOT NULL,
    source effect_broker.receipt_source NOT NULL,
    reason character varying(4096) NOT NULL,
    external_id character varying(4096),
    data_key_id character varying(64),
    flags effect_broker.receipt_flags NOT NULL,
    evidence_digest effect_broker.sha256_digest,
    downstream_key_digest bytea NOT NULL,
    digest bytea NOT NULL,
    result_ciphertext bytea,
    CONSTRAINT effect_receipts_kind_check CHECK ((kind = ANY (ARRAY['succeeded'::effect_broker.effect_status, 'failed_final'::effect_broker.effect_status])))
)
PARTITION BY RANGE (effect_id);
ALTER TABLE effect_broker.effect_receipts OWNER TO effect_broker_owner;
CREATE VIEW effect_broker.effects AS
 SELECT i.effect_id,
    i.tenant_id,
    i.operation_key,
    c.tool,
    i.request_hash,
    i.contract_id,
    c.name AS contract_name,
    c.version AS contract_version,
    (c.safety)::text AS safety,
    i.downstream_key,
    i.hmac_key_id,
    i.arguments_ciphertext,
    i.data_key_id,
    i.preview,
    i.requested_by,
    i.trace_id,
    i.created_at AS intent_created_at,
        CASE
            WHEN (w.effect_id IS NOT NULL) THEN (w.status)::text
            WHEN (p.effect_id IS NOT NULL) THEN 'compensated'::text
            ELSE (r.kind)::text
        END AS shown_status,
    e.sequence AS shown_version,
    e.at AS updated_at,
    e.metadata AS last_metadata,
    (w.effect_id IS NOT NULL) AS live,
    w.lane,
    (r.kind)::text AS receipt_kind,
    p.compensated_by,
    (w.status)::text AS status,
    w.version,
    w.attempts,
    w.unproven,
    w.proven_through,
    w.rejections,
    w.retries,
    w.redispatches,
    w.probes,
    w.key_generation,
    w.proof_committed,
    NULLIF(w.due_at, 'infinity'::timestamp with time zone) AS due_at,
    w.settlement_at,
    w.horizon_at,
    w.submit_until,
    w.negative_at,
    w.unknown_since,
    w.created_at
   FROM (((((effect_broker.effect_intents i
     JOIN effect_broker.contracts c ON ((c.contract_id = i.contract_id)))
     LEFT JOIN effect_broker.effect_work w ON (((w.effect_id = i.effect_id) AND (w.tenant_id = i.tenant_id))))
     LEFT JOIN effect_broker.effect_receipts r ON (((r.effect_id = i.effect_id) AND (r.tenant_id = i.tenant_id))))
     LEFT JOIN effect_broker.effect_compensations p ON (((p.effect_id = i.effect_id) AND (p.tenant_id = i.tenant_id))))
     CROSS JOIN LATERAL ( SELECT v.sequence,
            v.at,
            v.metadata
           FROM effect_broker.effect_events v
          WHERE (v.effect_id = i.effect_id)
          ORDER BY v.sequence DESC
         LIMIT 1) e);
ALTER VIEW effect_broker.effects OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.look_up(p_tenant_id uuid, p_effect_id uuid) RETURNS SETOF effect_broker.effects
    LANGUAGE plpgsql STABLE ROWS 1
    SET search_path TO 'effect_broker', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    v_found effects := standing_of(p_tenant_id, p_effect_id);
BEGIN
    IF v_found.effect_id IS NOT NULL THEN
        RETURN NEXT v_found;
    END IF;
END
$$;
ALTER FUNCTION effect_broker.look_up(p_tenant_id uuid, p_effect_id uuid) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.look_up_key(p_tenant_id uuid, p_operation_key text) RETURNS SETOF effect_broker.effects
    LANGUAGE plpgsql STABLE ROWS 1
    SET search_path TO 'effect_broker', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    v_effect_id uuid;
    v_found effects;
BEGIN
    SELECT k.effect_id INTO v_effect_id
    FROM effect_keys k
    WHERE k.tenant_id = p_tenant_id AND k.key_digest = sha256(convert_to(p_operation_key, 'UTF8'));
    v_found := standing_of(p_tenant_id, v_effect_id);
    IF v_found.effect_id IS NOT NULL THEN
        RETURN NEXT v_found;
    END IF;
END
$$;
ALTER FUNCTION effect_broker.look_up_key(p_tenant_id uuid, p_operation_key text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.lost_step(p_effect_id uuid, p_tenant_id uuid, p_version integer, p_token uuid, p_type effect_broker.event_type, p_new effect_broker.effect_status, p_actor text, p_metadata text, p_ending effect_broker.attempt_ending) RETURNS effect_broker.step_row
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_work effect_broker.effect_work;
    v_live boolean;
    v_result effect_broker.step_row;
BEGIN
    v_result.outcome := 'fenced';
    v_result.version := 0;
    v_result.late_recorded := false;
    v_result.contradicted := false;
    PERFORM FROM effect_broker.effect_intents i WHERE i.tenant_id = p_tenant_id AND i.effect_id = p_effect_id;
    IF NOT FOUND THEN
        RETURN v_result;
    END IF;
    SELECT * INTO v_work FROM effect_broker.effect_work w WHERE w.effect_id = p_effect_id FOR UPDATE;
    v_live := FOUND;
    PERFORM FROM effect_broker.effect_events e
    WHERE e.effect_id = p_effect_id AND e.sequence = p_version + 1 AND e.type = p_type AND e.new_status = p_new
        AND e.actor = p_actor AND e.metadata = p_metadata;
    IF FOUND THEN
        v_result.outcome := 'applied';
        v_result.version := p_version + 1;
        RETURN v_result;
    END IF;
    IF v_live AND v_work.claim_token IS NOT DISTINCT FROM p_token THEN
        v_result.outcome := CASE WHEN v_work.version = p_version THEN 'proof_stands' ELSE 'stale' END;
        v_result.version := v_work.version;
        RETURN v_result;
    END IF;
    IF p_ending.ordinal IS NOT NULL THEN
        RETURN effect_broker.record_ending(v_result, v_work, v_live, p_effect_id, p_ending, p_actor);
    END IF;
    v_result.version := CASE
        WHEN v_live THEN v_work.version
        ELSE (SELECT max(e.sequence) FROM effect_broker.effect_events e WHERE e.effect_id = p_effect_id)
    END;
    RETURN v_result;
END
$$;
ALTER FUNCTION effect_broker.lost_step(p_effect_id uuid, p_tenant_id uuid, p_version integer, p_token uuid, p_type effect_broker.event_type, p_new effect_broker.effect_status, p_actor text, p_metadata text, p_ending effect_broker.attempt_ending) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.make_partitions(p_months_ahead integer) RETURNS SETOF text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    SET lock_timeout TO '3s'
    AS $_$
DECLARE
    v_table text;
    v_name text;
    v_month date;
    v_occupied boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('effect_broker.make_partitions', 0));
    FOR v_month IN
        SELECT (date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC') + n * interval '1 month')::date
        FROM generate_series(0, p_months_ahead) n
    LOOP
        FOREACH v_table IN ARRAY partitioned_tables() LOOP
            v_name := v_table || to_char(v_month, '_YYYY_MM');
            CONTINUE WHEN to_regclass(v_name) IS NOT NULL;
            EXECUTE 'SELECT EXISTS (SELECT FROM ' || quote_ident(v_table || '_default')
                || ' WHERE effect_id >= $1 AND effect_id < $2)'
                INTO v_occupied
                USING month_start(v_month), month_start((v_month + interval '1 month')::date);
            CONTINUE WHEN v_occupied;
            -- Attached, not made in place: readers and writers go on meanwhile.
            EXECUTE 'CREATE TABLE ' || quote_ident(v_name) || ' (LIKE ' || quote_ident(v_table)
                || ' INCLUDING DEFAULTS INCLUDING CONSTRAINTS)';
            EXECUTE 'ALTER TABLE ' || quote_ident(v_table) || ' ATTACH PARTITION ' || quote_ident(v_name)
                || ' FOR VALUES FROM (' || quote_literal(month_start(v_month)) || ') TO ('
                || quote_literal(month_start((v_month + interval '1 month')::date)) || ')';
            EXECUTE 'CREATE TRIGGER untruncatable BEFORE TRUNCATE ON ' || quote_ident(v_name)
                || ' FOR EACH STATEMENT EXECUTE FUNCTION deny_change()';
            RETURN NEXT v_name;
        END LOOP;
    END LOOP;
END
$_$;
ALTER FUNCTION effect_broker.make_partitions(p_months_ahead integer) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.milliseconds(p_ms bigint) RETURNS interval
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT p_ms * interval '1 millisecond'
$$;
ALTER FUNCTION effect_broker.milliseconds(p_ms bigint) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.month_start(p_month date) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT effect_broker.first_id_at(date_trunc('month', p_month::timestamp) AT TIME ZONE 'UTC')
$$;
ALTER FUNCTION effect_broker.month_start(p_month date) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.note_api_key_use(p_key_id text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
BEGIN
    UPDATE api_keys k SET last_used_at = clock_timestamp()
    WHERE k.key_id = p_key_id
        AND (k.last_used_at IS NULL OR k.last_used_at < clock_timestamp() - interval '1 hour');
    RETURN FOUND;
END
$$;
ALTER FUNCTION effect_broker.note_api_key_use(p_key_id text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.obstacle_row(p_obstacle text) RETURNS effect_broker.claim_row
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_row effect_broker.claim_row;
BEGIN
    IF p_obstacle = 'failed_over' THEN
        PERFORM effect_broker.hold_dispatch('The database failed over; commits may be lost.');
    END IF;
    v_row.disposition := CASE WHEN p_obstacle = 'fenced' THEN 'fenced' ELSE 'held' END;
    SELECT o.reason INTO v_row.detail FROM effect_broker.ledger_control o;
    RETURN v_row;
END
$$;
ALTER FUNCTION effect_broker.obstacle_row(p_obstacle text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.overdue(p_limit integer, p_margin_ms bigint) RETURNS SETOF effect_broker.claim_row
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_looked_at integer := 20 * p_limit;
    v_overdue uuid[];
BEGIN
    SELECT array_agg(d.effect_id) INTO v_overdue
    FROM (
        SELECT o.effect_id
        FROM (
            SELECT w.effect_id, w.submit_until
            FROM effect_work w
            WHERE w.lane = 0 AND w.due_at <= v_now
            ORDER BY w.due_at
            LIMIT v_looked_at
        ) o
        WHERE o.submit_until < v_now - milliseconds(p_margin_ms)
        LIMIT p_limit
    ) d;
    RETURN QUERY
    SELECT * FROM claim_rows(v_overdue, v_now);
END
$$;
ALTER FUNCTION effect_broker.overdue(p_limit integer, p_margin_ms bigint) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.partitioned_tables() RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT ARRAY['effect_intents', 'effect_attempts', 'effect_attempt_endings', 'effect_events', 'effect_receipts']
$$;
ALTER FUNCTION effect_broker.partitioned_tables() OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.pick(p_lane smallint, p_limit integer, p_contract_ids integer[], p_tenants uuid[], p_due_from timestamp with time zone, OUT picked uuid[], OUT oldest_due_at timestamp with time zone) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_from timestamptz := coalesce(p_due_from, '-infinity');
    v_share integer := greatest(1, p_limit / 8);
    v_rest integer := p_limit;
    v_more uuid[];
BEGIN
    picked := '{}';
    SELECT w.due_at INTO oldest_due_at
    FROM effect_broker.effect_work w
    WHERE w.lane = p_lane AND w.due_at >= v_from AND w.due_at <= v_now AND w.contract_id = ANY (p_contract_ids)
    ORDER BY w.due_at
    LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF cardinality(p_tenants) > 1 THEN
        SELECT coalesce(array_agg(f.effect_id), '{}') INTO picked
        FROM (
            SELECT due.effect_id
            FROM unnest(p_tenants) t (tenant_id)
            CROSS JOIN LATERAL (
                SELECT w.effect_id
                FROM effect_broker.effect_work w
                WHERE w.lane = p_lane AND w.tenant_id = t.tenant_id
                    AND w.due_at >= v_from AND w.due_at <= v_now AND w.contract_id = ANY (p_contract_ids)
                ORDER BY w.due_at
                LIMIT v_share
                FOR UPDATE SKIP LOCKED
            ) due
            LIMIT p_limit
        ) f;
        v_rest := p_limit - cardinality(picked);
    END IF;
    IF v_rest > 0 THEN
        WITH oldest AS MATERIALIZED (
            SELECT w.effect_id
            FROM effect_broker.effect_work w
            WHERE w.lane = p_lane AND w.due_at >= oldest_due_at AND w.due_at <= v_now
                AND w.contract_id = ANY (p_contract_ids) AND w.effect_id <> ALL (picked)
            ORDER BY w.due_at
            LIMIT v_rest
            FOR UPDATE SKIP LOCKED
        )
        SELECT array_agg(o.effect_id) INTO v_more FROM oldest o;
        picked := picked || v_more;
    END IF;
    IF cardinality(picked) > p_limit THEN
        RAISE EXCEPTION USING ERRCODE = 'EB006', MESSAGE = 'More work was locked than the claim may take.';
    END IF;
END
$$;
ALTER FUNCTION effect_broker.pick(p_lane smallint, p_limit integer, p_contract_ids integer[], p_tenants uuid[], p_due_from timestamp with time zone, OUT picked uuid[], OUT oldest_due_at timestamp with time zone) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.pick_named(p_lane smallint, p_limit integer, p_contract_ids integer[], p_effect_ids uuid[]) RETURNS uuid[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_effect_id uuid;
    v_picked uuid[] := '{}';
BEGIN
    FOREACH v_effect_id IN ARRAY p_effect_ids LOOP
        EXIT WHEN cardinality(v_picked) = p_limit;
        PERFORM FROM effect_broker.effect_work w
        WHERE w.effect_id = v_effect_id AND w.lane IS NOT DISTINCT FROM p_lane AND w.due_at <= clock_timestamp()
            AND w.contract_id = ANY (p_contract_ids)
        FOR UPDATE SKIP LOCKED;
        IF FOUND AND v_effect_id <> ALL (v_picked) THEN
            v_picked := v_picked || v_effect_id;
        END IF;
    END LOOP;
    RETURN v_picked;
END
$$;
ALTER FUNCTION effect_broker.pick_named(p_lane smallint, p_limit integer, p_contract_ids integer[], p_effect_ids uuid[]) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.pick_safe(p_limit integer, p_fitting integer[], p_unsafe integer[], p_passed uuid[], p_due_from timestamp with time zone) RETURNS uuid[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_safe integer[] := ARRAY(SELECT unnest(p_fitting) EXCEPT SELECT unnest(p_unsafe));
    v_picked uuid[];
BEGIN
    SELECT p.picked INTO v_picked
    FROM effect_broker.pick(0::smallint, p_limit + cardinality(p_passed), v_safe, NULL, p_due_from) p;
    RETURN ARRAY(
        SELECT p.effect_id FROM unnest(v_picked) WITH ORDINALITY AS p (effect_id, place)
        WHERE p.effect_id <> ALL (p_passed) ORDER BY p.place LIMIT p_limit
    );
END
$$;
ALTER FUNCTION effect_broker.pick_safe(p_limit integer, p_fitting integer[], p_unsafe integer[], p_passed uuid[], p_due_from timestamp with time zone) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.prune_payloads(p_age_ms bigint, p_after uuid, p_limit integer, OUT pruned bigint, OUT last_effect_id uuid) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
DECLARE
    v_before timestamptz := clock_timestamp() - milliseconds(p_age_ms);
    v_ended uuid[];
BEGIN
    SELECT array_agg(o.effect_id), max(o.effect_id::text)::uuid
    INTO v_ended, last_effect_id
    FROM (
        SELECT r.effect_id, r.created_at
        FROM effect_receipts r
        -- An effect is not older than its id says, but for a caller's clock that is wrong by less than a day.
        WHERE r.effect_id > coalesce(p_after, '00000000-0000-0000-0000-000000000000')
            AND r.effect_id < first_id_at(v_before + interval '1 day')
        ORDER BY r.effect_id
        LIMIT p_limit
    ) o;
    UPDATE effect_intents i
    SET arguments_ciphertext = NULL, preview = ''
    FROM effect_receipts r
    WHERE r.effect_id = ANY (v_ended) AND r.created_at < v_before
        AND i.tenant_id = r.tenant_id AND i.effect_id = r.effect_id AND i.arguments_ciphertext IS NOT NULL;
    GET DIAGNOSTICS pruned = ROW_COUNT;
    UPDATE effect_attempt_endings n
    SET result_ciphertext = NULL
    FROM effect_receipts r
    WHERE r.effect_id = ANY (v_ended) AND r.created_at < v_before
        AND n.effect_id = r.effect_id AND n.result_ciphertext IS NOT NULL;
    UPDATE effect_receipts r
    SET result_ciphertext = NULL
    WHERE r.effect_id = ANY (v_ended) AND r.created_at < v_before AND r.result_ciphertext IS NOT NULL;
END
$$;
ALTER FUNCTION effect_broker.prune_payloads(p_age_ms bigint, p_after uuid, p_limit integer, OUT pruned bigint, OUT last_effect_id uuid) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.publish_contract(p_tool text, p_name text, p_version text, p_document bytea, p_digest bytea, p_safety text, p_attempt_ms bigint, p_probe_ms bigint, p_lease_ms bigint, p_settlement_ms bigint, p_retention_ms bigint, p_submit_ms bigint, OUT contract_id integer, OUT digest bytea, OUT created boolean) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
DECLARE
    v_tool text;
BEGIN
    LOOP
        SELECT c.contract_id, c.digest, c.tool INTO contract_id, digest, v_tool
        FROM contracts c WHERE c.name = p_name AND c.version = p_version;
        created := false;
        EXIT WHEN FOUND;
        INSERT INTO contracts AS c (
            tool, name, version, document, digest, safety, attempt_ms, probe_ms, lease_ms, settlement_ms, retention_ms,
            submit_ms
        )
        VALUES (
            p_tool, p_name, p_version, p_document, p_digest, p_safety::safety_class, p_attempt_ms, p_probe_ms, p_lease_ms,
            p_settlement_ms, p_retention_ms, p_submit_ms
        )
        ON CONFLICT ON CONSTRAINT contracts_name_version_key DO NOTHING
        RETURNING c.contract_id, c.digest, c.tool INTO contract_id, digest, v_tool;
        created := FOUND;
        EXIT WHEN FOUND;
    END LOOP;
    IF digest = p_digest THEN
        INSERT INTO contract_routes AS r (tool, contract_id) VALUES (v_tool, contract_id)
        ON CONFLICT (tool) DO UPDATE SET contract_id = excluded.contract_id, routed_at = clock_timestamp()
        WHERE r.contract_id <> excluded.contract_id;
    END IF;
END
$$;
ALTER FUNCTION effect_broker.publish_contract(p_tool text, p_name text, p_version text, p_document bytea, p_digest bytea, p_safety text, p_attempt_ms bigint, p_probe_ms bigint, p_lease_ms bigint, p_settlement_ms bigint, p_retention_ms bigint, p_submit_ms bigint, OUT contract_id integer, OUT digest bytea, OUT created boolean) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.receipt_digest(p_receipt_id uuid, p_effect_id uuid, p_tenant_id uuid, p_contract_id integer, p_created_at timestamp with time zone, p_target_time timestamp with time zone, p_kind effect_broker.effect_status, p_source text, p_reason text, p_external_id text, p_flags text[], p_evidence_digest bytea, p_downstream_key_digest bytea) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT sha256(
        uuid_send(p_receipt_id) || uuid_send(p_effect_id) || uuid_send(p_tenant_id) || int4send(p_contract_id)
        || timestamptz_send(p_created_at)
        || effect_broker.framed(timestamptz_send(p_target_time)) || effect_broker.framed(p_kind::text)
        || effect_broker.framed(p_source) || effect_broker.framed(p_reason) || effect_broker.framed(p_external_id)
        || effect_broker.framed(array_to_string(p_flags, chr(10))) || effect_broker.framed(p_evidence_digest)
        || effect_broker.framed(p_downstream_key_digest)
    )
$$;
ALTER FUNCTION effect_broker.receipt_digest(p_receipt_id uuid, p_effect_id uuid, p_tenant_id uuid, p_contract_id integer, p_created_at timestamp with time zone, p_target_time timestamp with time zone, p_kind effect_broker.effect_status, p_source text, p_reason text, p_external_id text, p_flags text[], p_evidence_digest bytea, p_downstream_key_digest bytea) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.record_ending(p_result effect_broker.step_row, p_work effect_broker.effect_work, p_live boolean, p_effect_id uuid, p_ending effect_broker.attempt_ending, p_actor text) RETURNS effect_broker.step_row
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_attempt effect_broker.effect_attempts;
    v_last effect_broker.effect_events;
    v_result effect_broker.step_row := p_result;
    v_fresh boolean;
    v_metadata text := '{"kind":"' || p_ending.kind || '","ordinal":' || p_ending.ordinal || '}';
BEGIN
    SELECT * INTO v_attempt FROM effect_broker.effect_attempts a
    WHERE a.effect_id = p_effect_id AND a.ordinal = p_ending.ordinal AND a.attempt_id = p_ending.attempt_id;
    IF FOUND THEN
        v_fresh := effect_broker.store_ending(
            p_effect_id, p_ending, greatest(clock_timestamp(), v_attempt.started_at), true
        );
        v_result.late_recorded := v_fresh OR EXISTS (
            SELECT FROM effect_broker.effect_attempt_endings e
            WHERE e.effect_id = p_effect_id AND e.ordinal = p_ending.ordinal AND e.late AND e.kind = p_ending.kind
        );
    END IF;
    IF v_fresh AND p_live THEN
        v_result.version := effect_broker.take_evidence(
            p_work, p_ending, v_attempt.key_generation, p_actor, v_metadata
        );
        RETURN v_result;
    END IF;
    LOOP
        SELECT * INTO STRICT v_last FROM effect_broker.effect_events e
        WHERE e.effect_id = p_effect_id ORDER BY e.sequence DESC LIMIT 1;
        v_result.version := v_last.sequence;
        EXIT WHEN NOT coalesce(v_fresh, false) OR NOT coalesce(effect_broker.contradicts(p_effect_id, p_ending), false);
        IF effect_broker.append_event(v_last, 'ContradictionRecorded', v_last.new_status, p_actor, v_metadata) THEN
            v_result.version := v_last.sequence + 1;
            v_result.contradicted := true;
            INSERT INTO effect_broker.effect_contradictions (effect_id, sequence, tenant_id, at)
            SELECT p_effect_id, v_last.sequence + 1, r.tenant_id, clock_timestamp()
            FROM effect_broker.effect_receipts r WHERE r.effect_id = p_effect_id;
            EXIT;
        END IF;
    END LOOP;
    RETURN v_result;
END
$$;
ALTER FUNCTION effect_broker.record_ending(p_result effect_broker.step_row, p_work effect_broker.effect_work, p_live boolean, p_effect_id uuid, p_ending effect_broker.attempt_ending, p_actor text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.release_dispatch(p_actor text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
BEGIN
    UPDATE ledger_control
    SET dispatch_held = false, released_by = p_actor, released_at = clock_timestamp(),
        timeline = CASE WHEN timeline IS NOT NULL THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END
    WHERE dispatch_held;
    RETURN FOUND;
END
$$;
ALTER FUNCTION effect_broker.release_dispatch(p_actor text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.renew(p_token uuid, p_effect_ids uuid[], p_lease_ms bigint) RETURNS SETOF uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    PERFORM FROM effect_work w
    WHERE w.effect_id = ANY (p_effect_ids) AND w.claim_token = p_token
    ORDER BY w.effect_id
    FOR UPDATE;
    RETURN QUERY
    UPDATE effect_work w
    SET due_at = greatest(w.due_at, clock_timestamp() + milliseconds(p_lease_ms))
    WHERE w.effect_id = ANY (p_effect_ids) AND w.claim_token = p_token
    RETURNING w.effect_id;
END
$$;
ALTER FUNCTION effect_broker.renew(p_token uuid, p_effect_ids uuid[], p_lease_ms bigint) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.reseal(p_old effect_broker.sealed_row[], p_ciphertexts bytea[], p_data_key_id text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
DECLARE
    v_old sealed_row;
    v_new bytea;
    v_done bigint;
    v_resealed bigint := 0;
BEGIN
    FOR n IN 1 .. coalesce(cardinality(p_old), 0) LOOP
        v_old := p_old[n];
        v_new := p_ciphertexts[n];
        CASE v_old.place
            WHEN 'arguments' THEN
                UPDATE effect_intents SET arguments_ciphertext = v_new, data_key_id = p_data_key_id
                WHERE tenant_id = v_old.tenant_id AND effect_id = v_old.effect_id
                    AND arguments_ciphertext = v_old.ciphertext;
            WHEN 'receipt' THEN
                UPDATE effect_receipts SET result_ciphertext = v_new, data_key_id = p_data_key_id
                WHERE effect_id = v_old.effect_id AND result_ciphertext = v_old.ciphertext;
            WHEN 'ending' THEN
                UPDATE effect_attempt_endings SET result_ciphertext = v_new, data_key_id = p_data_key_id
                WHERE effect_id = v_old.effect_id AND ordinal = v_old.detail::integer
                    AND result_ciphertext = v_old.ciphertext;
            WHEN 'resolution' THEN
                UPDATE effect_resolutions SET sealed = v_new, data_key_id = p_data_key_id
                WHERE effect_id = v_old.effect_id AND decision_id = v_old.detail AND sealed = v_old.ciphertext;
            WHEN 'compensation' THEN
                UPDATE effect_compensations SET reason_ciphertext = v_new, data_key_id = p_data_key_id
                WHERE effect_id = v_old.effect_id AND reason_ciphertext = v_old.ciphertext;
            WHEN 'callback' THEN
                UPDATE effect_callbacks SET sealed = v_new, data_key_id = p_data_key_id
                WHERE effect_id = v_old.effect_id AND callback_id = v_old.detail::uuid AND sealed = v_old.ciphertext;
        END CASE;
        GET DIAGNOSTICS v_done = ROW_COUNT;
        v_resealed := v_resealed + v_done;
    END LOOP;
    RETURN v_resealed;
END
$$;
ALTER FUNCTION effect_broker.reseal(p_old effect_broker.sealed_row[], p_ciphertexts bytea[], p_data_key_id text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.reserve(p_intents effect_broker.new_intent[]) RETURNS SETOF effect_broker.reserved_row
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    v_intent new_intent;
    v_digest bytea;
    v_stands uuid;
    v_found effects;
    v_row reserved_row;
BEGIN
    FOREACH v_intent IN ARRAY p_intents LOOP
        v_digest := sha256(convert_to(v_intent.operation_key, 'UTF8'));
        LOOP
            v_row := NULL;
            -- Waits for whoever else holds the key to end.
            INSERT INTO effect_keys (tenant_id, key_digest, effect_id)
            VALUES (v_intent.tenant_id, v_digest, v_intent.effect_id)
            ON CONFLICT DO NOTHING;
            IF FOUND THEN
                v_row.created := true;
                v_row.ledger_now := store_intent(v_intent);
                EXIT;
            END IF;
            -- A new statement has a new snapshot: it sees the winner, unless the winner rolled back and the key is free.
            SELECT k.effect_id INTO v_stands
            FROM effect_keys k
            WHERE k.tenant_id = v_intent.tenant_id AND k.key_digest = v_digest;
            CONTINUE WHEN NOT FOUND;
            v_found := standing_of(v_intent.tenant_id, v_stands);
            IF v_found.effect_id IS NULL THEN
                RAISE no_data_found USING MESSAGE = 'A key stands for no effect.';
            END IF;
            v_row := ROW(
                v_stands = v_intent.effect_id, clock_timestamp(), v_found.effect_id, v_found.tenant_id,
                v_found.operation_key, v_found.tool, v_found.request_hash, v_found.contract_id, v_found.contract_name,
                v_found.contract_version, v_found.safety, v_found.downstream_key, v_found.hmac_key_id,
                v_found.arguments_ciphertext, v_found.data_key_id, v_found.preview, v_found.requested_by,
                v_found.trace_id, v_found.intent_created_at, v_found.shown_status, v_found.shown_version,
                v_found.updated_at
            );
            EXIT;
        END LOOP;
        RETURN NEXT v_row;
    END LOOP;
END
$$;
ALTER FUNCTION effect_broker.reserve(p_intents effect_broker.new_intent[]) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.reserve_leased(p_intent effect_broker.new_intent, p_token uuid, p_worker text, p_attempt_id uuid, p_contract_ids integer[], p_scope_digests bytea[], p_margin_ms bigint, p_budget_ms bigint) RETURNS SETOF effect_broker.claim_row
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    v_row claim_row;
    v_free boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(uuid_hash_extended(p_token, 0));
    SELECT NOT o.dispatch_held
        AND NOT failed_over(o.timeline)
        AND NOT EXISTS (SELECT FROM claim_fences f WHERE f.token = p_token)
        AND EXISTS (
            SELECT FROM contracts c
            WHERE c.contract_id = p_intent.contract_id AND c.contract_id = ANY (p_contract_ids)
                AND (p_budget_ms IS NULL OR c.attempt_ms + p_margin_ms <= p_budget_ms)
        )
    INTO STRICT v_free
    FROM ledger_control o
    WHERE o.singleton;
    v_row.disposition := 'reserved';
    INSERT INTO effect_keys (tenant_id, key_digest, effect_id)
    VALUES (p_intent.tenant_id, sha256(convert_to(p_intent.operation_key, 'UTF8')), p_intent.effect_id)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN NEXT v_row;
        RETURN;
    END IF;
    PERFORM store_intent(p_intent);
    IF v_free THEN
        RETURN NEXT start_attempt(
            p_intent.effect_id, clock_timestamp(), false, NULL, p_token, p_worker, p_attempt_id,
            p_contract_ids, p_scope_digests, p_margin_ms
        );
    ELSE
        RETURN NEXT v_row;
    END IF;
END
$$;
ALTER FUNCTION effect_broker.reserve_leased(p_intent effect_broker.new_intent, p_token uuid, p_worker text, p_attempt_id uuid, p_contract_ids integer[], p_scope_digests bytea[], p_margin_ms bigint, p_budget_ms bigint) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.resolve_defer(p_step effect_broker.deferral, p_decision effect_broker.decision) RETURNS effect_broker.step_row
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
DECLARE
    v_result step_row;
BEGIN
    v_result := ('applied', decided_version(p_step.tenant_id, p_step.effect_id, p_decision.decision_id), false, false);
    IF v_result.version IS NULL THEN
        SELECT * INTO v_result FROM defer(ARRAY[p_step]);
        IF v_result.outcome = 'applied' THEN
            PERFORM store_decision(p_step.effect_id, v_result.version, p_decision);
        END IF;
    END IF;
    RETURN v_result;
END
$$;
ALTER FUNCTION effect_broker.resolve_defer(p_step effect_broker.deferral, p_decision effect_broker.decision) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.resolve_finish(p_step effect_broker.finishing, p_decision effect_broker.decision) RETURNS effect_broker.step_row
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
DECLARE
    v_result step_row;
BEGIN
    v_result := ('applied', decided_version(p_step.tenant_id, p_step.effect_id, p_decision.decision_id), false, false);
    IF v_result.version IS NULL THEN
        SELECT * INTO v_result FROM finish(ARRAY[p_step]);
        IF v_result.outcome = 'applied' THEN
            PERFORM store_decision(p_step.effect_id, v_result.version, p_decision);
        END IF;
    END IF;
    RETURN v_result;
END
$$;
ALTER FUNCTION effect_broker.resolve_finish(p_step effect_broker.finishing, p_decision effect_broker.decision) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.retire_keys(p_kind text, p_keep text[]) RETURNS SETOF text
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
    DELETE FROM ledger_keys k WHERE k.kind = p_kind AND k.key_id <> ALL (p_keep) RETURNING k.key_id
$$;
ALTER FUNCTION effect_broker.retire_keys(p_kind text, p_keep text[]) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.revoke_api_key(p_key_id text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
BEGIN
    UPDATE api_keys SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE key_id = p_key_id;
    RETURN FOUND;
END
$$;
ALTER FUNCTION effect_broker.revoke_api_key(p_key_id text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.rotate_api_key(p_key_id text, p_new_key_id text, p_secret_hash bytea, p_lifetime_ms bigint, p_overlap_ms bigint) RETURNS timestamp with time zone
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
DECLARE
    v_old api_keys;
BEGIN
    UPDATE api_keys k
    SET expires_at = least(k.expires_at, clock_timestamp() + milliseconds(p_overlap_ms))
    WHERE k.key_id = p_key_id AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
    RETURNING * INTO v_old;
    IF FOUND THEN
        INSERT INTO api_keys (key_id, tenant_id, secret_hash, scopes, expires_at)
        VALUES (
            p_new_key_id, v_old.tenant_id, p_secret_hash, v_old.scopes, clock_timestamp() + milliseconds(p_lifetime_ms)
        )
        ON CONFLICT (key_id) DO NOTHING;
    END IF;
    RETURN v_old.expires_at;
END
$$;
ALTER FUNCTION effect_broker.rotate_api_key(p_key_id text, p_new_key_id text, p_secret_hash bytea, p_lifetime_ms bigint, p_overlap_ms bigint) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.sealed_under_other_keys(p_place text, p_data_key_id text, p_after effect_broker.sealed_row, p_limit integer) RETURNS SETOF effect_broker.sealed_row
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
DECLARE
    v_tenant uuid := coalesce(p_after.tenant_id, '00000000-0000-0000-0000-000000000000');
    v_effect uuid := coalesce(p_after.effect_id, '00000000-0000-0000-0000-000000000000');
    v_detail text := coalesce(p_after.detail, '');
BEGIN
    CASE p_place
        WHEN 'arguments' THEN
            RETURN QUERY
            SELECT p_place, i.effect_id, NULL::text, i.tenant_id, i.arguments_ciphertext, i.data_key_id
            FROM effect_intents i
            WHERE (i.tenant_id, i.effect_id) > (v_tenant, v_effect)
                AND i.data_key_id <> p_data_key_id AND i.arguments_ciphertext IS NOT NULL
            ORDER BY i.tenant_id, i.effect_id LIMIT p_limit;
        WHEN 'receipt' THEN
            RETURN QUERY
            SELECT p_place, r.effect_id, NULL::text, r.tenant_id, r.result_ciphertext, r.data_key_id
            FROM effect_receipts r
            WHERE r.effect_id > v_effect AND r.data_key_id <> p_data_key_id AND r.result_ciphertext IS NOT NULL
            ORDER BY r.effect_id LIMIT p_limit;
        WHEN 'ending' THEN
            RETURN QUERY
            SELECT p_place, n.effect_id, n.ordinal::text, tenant_of(n.effect_id), n.result_ciphertext, n.data_key_id
            FROM effect_attempt_endings n
            WHERE (n.effect_id, n.ordinal) > (v_effect, coalesce(p_after.detail, '0')::integer)
                AND n.data_key_id <> p_data_key_id AND n.result_ciphertext IS NOT NULL
            ORDER BY n.effect_id, n.ordinal LIMIT p_limit;
        WHEN 'resolution' THEN
            RETURN QUERY
            SELECT p_place, d.effect_id, d.decision_id, tenant_of(d.effect_id), d.sealed, d.data_key_id::varchar
            FROM effect_resolutions d
            WHERE (d.effect_id, d.decision_id) > (v_effect, v_detail) AND d.data_key_id <> p_data_key_id
            ORDER BY d.effect_id, d.decision_id LIMIT p_limit;
        WHEN 'compensation' THEN
            RETURN QUERY
            SELECT p_place, c.effect_id, NULL::text, c.tenant_id, c.reason_ciphertext, c.data_key_id::varchar
            FROM effect_compensations c
            WHERE c.effect_id > v_effect AND c.data_key_id <> p_data_key_id
            ORDER BY c.effect_id LIMIT p_limit;
        WHEN 'callback' THEN
            RETURN QUERY
            SELECT p_place, c.effect_id, c.callback_id::text, c.tenant_id, c.sealed, c.data_key_id::varchar
            FROM effect_callbacks c
            WHERE (c.effect_id, c.callback_id)
                    > (v_effect, coalesce(p_after.detail, '00000000-0000-0000-0000-000000000000')::uuid)
                AND c.data_key_id <> p_data_key_id
            ORDER BY c.effect_id, c.callback_id LIMIT p_limit;
    END CASE;
END
$$;
ALTER FUNCTION effect_broker.sealed_under_other_keys(p_place text, p_data_key_id text, p_after effect_broker.sealed_row, p_limit integer) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.send_refusal(p_now timestamp with time zone, p_submit_until timestamp with time zone, p_horizon_at timestamp with time zone, p_scope_digest bytea, p_scope_now bytea, p_attempt_ms bigint, p_settlement_ms bigint, p_margin_ms bigint) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT CASE
        WHEN p_scope_digest <> p_scope_now THEN 'scope_changed'
        WHEN p_now > p_submit_until THEN 'submit_deadline'
        WHEN p_now + (p_attempt_ms + p_settlement_ms + p_margin_ms) * interval '1 millisecond' > p_horizon_at
            THEN 'horizon_over'
    END
$$;
ALTER FUNCTION effect_broker.send_refusal(p_now timestamp with time zone, p_submit_until timestamp with time zone, p_horizon_at timestamp with time zone, p_scope_digest bytea, p_scope_now bytea, p_attempt_ms bigint, p_settlement_ms bigint, p_margin_ms bigint) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.set_tenant_disabled(p_tenant_id uuid, p_disabled boolean) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
BEGIN
    UPDATE tenants
    SET disabled_at = CASE WHEN p_disabled THEN coalesce(disabled_at, clock_timestamp()) END
    WHERE tenant_id = p_tenant_id;
    RETURN FOUND;
END
$$;
ALTER FUNCTION effect_broker.set_tenant_disabled(p_tenant_id uuid, p_disabled boolean) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.set_tenant_hmac_key(p_tenant_id uuid, p_hmac_key_id text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'effect_broker', 'pg_temp'
    AS $$
BEGIN
    PERFORM declare_key('hmac', p_hmac_key_id);
    UPDATE tenants SET hmac_key_id = p_hmac_key_id WHERE tenant_id = p_tenant_id;
    RETURN FOUND;
END
$$;
ALTER FUNCTION effect_broker.set_tenant_hmac_key(p_tenant_id uuid, p_hmac_key_id text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.standing_of(p_tenant_id uuid, p_effect_id uuid) RETURNS effect_broker.effects
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    i effect_broker.effect_intents;
    c effect_broker.contracts;
    w effect_broker.effect_work;
    e record;
    v_kind text;
    v_compensated_by uuid;
BEGIN
    SELECT * INTO i FROM effect_broker.effect_intents k WHERE k.tenant_id = p_tenant_id AND k.effect_id = p_effect_id;
    IF NOT FOUND THEN
        RETURN effect_broker.tombstone_of(p_tenant_id, p_effect_id);
    END IF;
    SELECT * INTO STRICT c FROM effect_broker.contracts k WHERE k.contract_id = i.contract_id;
    SELECT v.sequence, v.at, v.metadata INTO STRICT e
    FROM effect_broker.effect_events v
    WHERE v.effect_id = p_effect_id
    ORDER BY v.sequence DESC
    LIMIT 1;
    SELECT * INTO w FROM effect_broker.effect_work k WHERE k.effect_id = p_effect_id AND k.tenant_id = p_tenant_id;
    IF NOT FOUND THEN
        SELECT r.kind INTO v_kind
        FROM effect_broker.effect_receipts r
        WHERE r.effect_id = p_effect_id AND r.tenant_id = p_tenant_id;
        SELECT p.compensated_by INTO v_compensated_by
        FROM effect_broker.effect_compensations p
        WHERE p.effect_id = p_effect_id AND p.tenant_id = p_tenant_id;
    END IF;
    RETURN ROW(
        i.effect_id, i.tenant_id, i.operation_key, c.tool, i.request_hash, i.contract_id, c.name, c.version,
        c.safety::text, i.downstream_key, i.hmac_key_id, i.arguments_ciphertext, i.data_key_id, i.preview,
        i.requested_by, i.trace_id, i.created_at,
        CASE
            WHEN w.effect_id IS NOT NULL THEN w.status::text
            WHEN v_compensated_by IS NOT NULL THEN 'compensated'
            ELSE v_kind
        END,
        e.sequence, e.at, e.metadata, w.effect_id IS NOT NULL, w.lane, v_kind, v_compensated_by,
        w.status::text, w.version, w.attempts, w.unproven, w.proven_through, w.rejections, w.retries, w.redispatches,
        w.probes, w.key_generation, w.proof_committed, nullif(w.due_at, 'infinity'), w.settlement_at, w.horizon_at,
        w.submit_until, w.negative_at, w.unknown_since, w.created_at
    )::effect_broker.effects;
END
$$;
ALTER FUNCTION effect_broker.standing_of(p_tenant_id uuid, p_effect_id uuid) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.start_attempt(p_effect_id uuid, p_now timestamp with time zone, p_remaining boolean, p_oldest_due_at timestamp with time zone, p_token uuid, p_worker text, p_attempt_id uuid, p_contract_ids integer[], p_scope_digests bytea[], p_margin_ms bigint) RETURNS effect_broker.claim_row
    LANGUAGE plpgsql
    AS $$
DECLARE
    w effect_broker.effect_work;
    c effect_broker.contracts;
    i effect_broker.effect_intents;
    v_key varchar;
    v_at timestamptz;
    v_scope effect_broker.sha256_digest;
    v_refusal text;
    v_old effect_broker.effect_status;
    v_attempt_id uuid;
    v_started_at timestamptz;
    v_deadline timestamptz;
    v_metadata text;
BEGIN
    SELECT * INTO STRICT w FROM effect_broker.effect_work e WHERE e.effect_id = p_effect_id;
    SELECT * INTO STRICT i FROM effect_broker.effect_intents e
    WHERE e.tenant_id = w.tenant_id AND e.effect_id = p_effect_id;
    SELECT * INTO STRICT c FROM effect_broker.contracts k WHERE k.contract_id = w.contract_id;
    v_key := i.downstream_key;
    IF w.key_generation > 1 THEN
        SELECT g.downstream_key INTO STRICT v_key FROM effect_broker.effect_key_generations g
        WHERE g.effect_id = w.effect_id AND g.generation = w.key_generation;
    END IF;
    v_scope := p_scope_digests[array_position(p_contract_ids, w.contract_id)];
    v_at := greatest(p_now, w.last_event_at);
    v_deadline := v_at + c.attempt_ms * interval '1 millisecond';
    v_refusal := CASE
        WHEN w.scope_digest <> v_scope THEN 'scope_changed'
        WHEN v_at > w.submit_until THEN 'submit_deadline'
        WHEN v_deadline + (c.settlement_ms + p_margin_ms) * interval '1 millisecond' > w.horizon_at
            THEN 'horizon_over'
    END;
    IF v_refusal IS NULL THEN
        v_old := w.status;
        v_attempt_id := p_attempt_id;
        v_started_at := v_at;
        v_metadata := '{"ordinal":' || w.attempts + 1 || '}';
        w.head := effect_broker.event_digest(
            w.head, w.effect_id, w.version + 1, v_at, 'AttemptStarted', v_old, 'dispatching', p_worker, v_metadata
        );
        UPDATE effect_broker.effect_work e
        SET status = 'dispatching', lane = 2, version = w.version + 1, claim_token = p_token,
            attempts = w.attempts + 1, unproven = w.unproven + 1, last_event_at = v_at, head = w.head,
            negative_at = NULL, due_at = v_at + c.lease_ms * interval '1 millisecond',
            settlement_at = greatest(
                w.settlement_at, v_deadline + c.settlement_ms * interval '1 millisecond'
            ),
            horizon_at = coalesce(w.horizon_at, v_at + c.retention_ms * interval '1 millisecond'),
            scope_digest = v_scope
        WHERE e.effect_id = p_effect_id
        RETURNING * INTO w;
        INSERT INTO effect_broker.effect_attempts (
            effect_id, attempt_id, started_at, send_deadline, ordinal, version, key_generation, worker, scope_digest
        )
        VALUES (
            w.effect_id, v_attempt_id, v_at, v_deadline, w.attempts, w.version, w.key_generation, p_worker, v_scope
        );
        INSERT INTO effect_broker.effect_events (
            effect_id, at, sequence, type, old_status, new_status, actor, metadata, digest
        )
        VALUES (
            w.effect_id, v_at, w.version, 'AttemptStarted', v_old, 'dispatching', p_worker, v_metadata, w.head
        );
    END IF;
    RETURN ROW(
        coalesce(v_refusal, 'claimed'), NULL::text, p_remaining, p_oldest_due_at, v_at,
        i.effect_id, i.tenant_id, i.operation_key, c.tool, i.request_hash, i.contract_id, c.name, c.version,
        c.safety::text, i.downstream_key, i.hmac_key_id, i.arguments_ciphertext, i.data_key_id, i.preview,
        i.requested_by, i.trace_id, i.created_at,
        w.status::text, w.version, w.attempts, w.unproven, w.proven_through, w.rejections, w.retries,
        w.redispatches, w.probes, w.key_generation, w.proof_committed, w.due_at, w.settlement_at, w.horizon_at,
        w.submit_until, w.negative_at, w.unknown_since, w.created_at, w.claim_token, v_key, v_attempt_id,
        CASE WHEN v_attempt_id IS NOT NULL THEN p_worker END::varchar, v_started_at,
        CASE WHEN v_attempt_id IS NOT NULL THEN v_deadline END,
        coalesce(v_scope, w.scope_digest)
    )::effect_broker.claim_row;
END
$$;
ALTER FUNCTION effect_broker.start_attempt(p_effect_id uuid, p_now timestamp with time zone, p_remaining boolean, p_oldest_due_at timestamp with time zone, p_token uuid, p_worker text, p_attempt_id uuid, p_contract_ids integer[], p_scope_digests bytea[], p_margin_ms bigint) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.start_reconciliation(p_row effect_broker.claim_row, p_worker text) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_previous bytea;
    v_head bytea;
BEGIN
    SELECT w.head INTO STRICT v_previous FROM effect_broker.effect_work w WHERE w.effect_id = p_row.effect_id;
    v_head := effect_broker.store_event(
        p_row.effect_id, p_row.version, p_row.ledger_now, 'ReconciliationStarted', 'outcome_unknown', 'reconciling',
        p_worker, '{}', v_previous
    );
    UPDATE effect_broker.effect_work w
    SET status = 'reconciling', lane = 2, version = p_row.version, claim_token = p_row.claim_token,
        last_event_at = p_row.ledger_now, head = v_head, due_at = p_row.due_at
    WHERE w.effect_id = p_row.effect_id AND w.version = p_row.version - 1;
END
$$;
ALTER FUNCTION effect_broker.start_reconciliation(p_row effect_broker.claim_row, p_worker text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.store_decision(p_effect_id uuid, p_version integer, p_decision effect_broker.decision) RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO effect_broker.effect_resolutions (
        effect_id, decision_id, decision, actor, observed_at, decided_at, version, sealed, data_key_id
    )
    VALUES (
        p_effect_id, p_decision.decision_id, p_decision.decision, p_decision.actor, p_decision.observed_at,
        clock_timestamp(), p_version, p_decision.sealed, p_decision.data_key_id
    )
$$;
ALTER FUNCTION effect_broker.store_decision(p_effect_id uuid, p_version integer, p_decision effect_broker.decision) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.store_ending(p_effect_id uuid, p_ending effect_broker.attempt_ending, p_at timestamp with time zone, p_late boolean) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO effect_broker.effect_attempt_endings (
        effect_id, ended_at, ordinal, kind, late, final, from_key_record, bytes_may_have_left, reason, external_id,
        data_key_id, evidence, request_digest, response_digest, result_ciphertext
    )
    VALUES (
        p_effect_id, p_at, p_ending.ordinal, p_ending.kind, p_late, p_ending.final, p_ending.from_key_record,
        p_ending.bytes_may_have_left, p_ending.reason, p_ending.external_id, p_ending.data_key_id,
        p_ending.evidence, p_ending.request_digest, p_ending.response_digest, p_ending.result_ciphertext
    )
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;
ALTER FUNCTION effect_broker.store_ending(p_effect_id uuid, p_ending effect_broker.attempt_ending, p_at timestamp with time zone, p_late boolean) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.store_event(p_effect_id uuid, p_sequence integer, p_at timestamp with time zone, p_type effect_broker.event_type, p_old effect_broker.effect_status, p_new effect_broker.effect_status, p_actor text, p_metadata text, p_previous bytea) RETURNS bytea
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_digest bytea := effect_broker.event_digest(
        p_previous, p_effect_id, p_sequence, p_at, p_type, p_old, p_new, p_actor, p_metadata
    );
BEGIN
    INSERT INTO effect_broker.effect_events (
        effect_id, at, sequence, type, old_status, new_status, actor, metadata, digest
    )
    VALUES (p_effect_id, p_at, p_sequence, p_type, p_old, p_new, p_actor, p_metadata, v_digest);
    RETURN v_digest;
END
$$;
ALTER FUNCTION effect_broker.store_event(p_effect_id uuid, p_sequence integer, p_at timestamp with time zone, p_type effect_broker.event_type, p_old effect_broker.effect_status, p_new effect_broker.effect_status, p_actor text, p_metadata text, p_previous bytea) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.store_intent(p_intent effect_broker.new_intent) RETURNS timestamp with time zone
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_now timestamptz;
    v_submit_ms bigint;
    v_actor text := coalesce(p_intent.requested_by, 'caller');
    v_head bytea;
BEGIN
    SELECT c.submit_ms INTO v_submit_ms
    FROM effect_broker.contracts c, effect_broker.tenants t
    WHERE c.contract_id = p_intent.contract_id AND t.tenant_id = p_intent.tenant_id AND t.disabled_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'EB005',
            MESSAGE = 'The tenant is unknown or disabled, or the contract is not published.';
    END IF;
    v_now := clock_timestamp();
    v_head := effect_broker.event_digest(
        effect_broker.first_head(), p_intent.effect_id, 1, v_now, 'EffectReserved', NULL, 'prepared', v_actor, '{}'
    );
    INSERT INTO effect_broker.effect_intents (
        effect_id, tenant_id, created_at, contract_id, request_hash, operation_key, downstream_key, hmac_key_id,
        data_key_id, requested_by, trace_id, preview, arguments_ciphertext
    )
    VALUES (
        p_intent.effect_id, p_intent.tenant_id, v_now, p_intent.contract_id, p_intent.request_hash,
        p_intent.operation_key, p_intent.downstream_key, p_intent.hmac_key_id, p_intent.data_key_id,
        p_intent.requested_by, p_intent.trace_id, p_intent.preview, p_intent.arguments_ciphertext
    );
    INSERT INTO effect_broker.effect_events (
        effect_id, at, sequence, type, old_status, new_status, actor, metadata, digest
    )
    VALUES (
        p_intent.effect_id, v_now, 1, 'EffectReserved', NULL, 'prepared', v_actor, '{}', v_head
    );
    INSERT INTO effect_broker.effect_work (
        effect_id, tenant_id, created_at, last_event_at, due_at, submit_until, status, lane, contract_id, version, head
    )
    VALUES (
        p_intent.effect_id, p_intent.tenant_id, v_now, v_now, v_now, v_now + effect_broker.milliseconds(v_submit_ms),
        'prepared', 0, p_intent.contract_id, 1, v_head
    );
    RETURN v_now;
END
$$;
ALTER FUNCTION effect_broker.store_intent(p_intent effect_broker.new_intent) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.take_evidence(p_work effect_broker.effect_work, p_ending effect_broker.attempt_ending, p_generation integer, p_actor text, p_metadata text) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_at timestamptz := greatest(clock_timestamp(), p_work.last_event_at);
    v_open integer := CASE WHEN p_work.status = 'dispatching' THEN 1 ELSE 0 END;
    v_committed boolean := p_ending.kind = 'committed';
    v_absent boolean := p_ending.kind IN ('rejected', 'not_executed', 'not_sent')
        AND p_ending.ordinal > p_work.proven_through AND p_work.unproven > v_open;
    v_unproven integer := p_work.unproven;
    v_proven_through integer := p_work.proven_through;
    v_moves boolean;
    v_digest bytea;
BEGIN
    IF v_absent AND p_ending.speaks_for_all AND p_generation = p_work.key_generation THEN
        v_unproven := v_open;
    ELSIF v_absent THEN
        v_unproven := v_unproven - 1;
    END IF;
    IF v_absent AND v_unproven = v_open THEN
        v_proven_through := p_work.attempts - v_open;
    END IF;
    -- An unsafe effect moves by proof alone; parked review and waiting work move by proof of commit.
    v_moves := v_committed OR p_work.proof_committed OR (p_work.status = 'outcome_unknown' AND (
        v_unproven = 0
        OR (SELECT c.safety <> 'unsafe' FROM effect_broker.contracts c WHERE c.contract_id = p_work.contract_id)
    ));
    v_digest := effect_broker.store_event(
        p_work.effect_id, p_work.version + 1, v_at, 'EvidenceRecorded', p_work.status, p_work.status, p_actor,
        p_metadata, p_work.head
    );
    UPDATE effect_broker.effect_work w
    SET version = w.version + 1, last_event_at = v_at, head = v_digest, unproven = v_unproven,
        proven_through = v_proven_through, proof_committed = w.proof_committed OR v_committed,
        lane = effect_broker.lane_of(w.status, w.proof_committed OR v_committed),
        due_at = CASE WHEN v_moves AND w.claim_token IS NULL THEN least(w.due_at, v_at) ELSE w.due_at END
    WHERE w.effect_id = p_work.effect_id AND w.version = p_work.version;
    RETURN p_work.version + 1;
END
$$;
ALTER FUNCTION effect_broker.take_evidence(p_work effect_broker.effect_work, p_ending effect_broker.attempt_ending, p_generation integer, p_actor text, p_metadata text) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.tenant_of(p_effect_id uuid) RETURNS uuid
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(
        (SELECT w.tenant_id FROM effect_broker.effect_work w WHERE w.effect_id = p_effect_id),
        (SELECT r.tenant_id FROM effect_broker.effect_receipts r WHERE r.effect_id = p_effect_id),
        (SELECT t.tenant_id FROM effect_broker.effect_tombstones t WHERE t.effect_id = p_effect_id)
    )
$$;
ALTER FUNCTION effect_broker.tenant_of(p_effect_id uuid) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.tombstone_of(p_tenant_id uuid, p_effect_id uuid) RETURNS effect_broker.effects
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    v_found effect_broker.effects;
BEGIN
    SELECT
        t.effect_id, t.tenant_id, t.operation_key, c.tool, t.request_hash, t.contract_id, c.name, c.version,
        c.safety::text, t.downstream_key, t.hmac_key_id, NULL, '', '', t.requested_by, t.trace_id, t.created_at,
        t.status::text, t.version, t.updated_at, t.last_metadata, false, NULL, t.kind::text
    INTO v_found
    FROM effect_broker.effect_tombstones t
    JOIN effect_broker.contracts c ON c.contract_id = t.contract_id
    WHERE t.tenant_id = p_tenant_id AND t.effect_id = p_effect_id;
    RETURN v_found;
END
$$;
ALTER FUNCTION effect_broker.tombstone_of(p_tenant_id uuid, p_effect_id uuid) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.without_excess(p_picked uuid[], p_unsafe integer[], p_limit integer) RETURNS uuid[]
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(array_agg(n.effect_id ORDER BY n.place), '{}')
    FROM (
        SELECT w.effect_id, p.place, w.contract_id = ANY (p_unsafe) AS unsafe,
            row_number() OVER (PARTITION BY w.contract_id = ANY (p_unsafe) ORDER BY p.place) AS nth
        FROM unnest(p_picked) WITH ORDINALITY AS p (effect_id, place)
        JOIN effect_broker.effect_work w ON w.effect_id = p.effect_id
    ) n
    WHERE NOT n.unsafe OR n.nth <= p_limit
$$;
ALTER FUNCTION effect_broker.without_excess(p_picked uuid[], p_unsafe integer[], p_limit integer) OWNER TO effect_broker_owner;
CREATE FUNCTION effect_broker.write_deferral(p_step effect_broker.deferral, p_at timestamp with time zone, p_head bytea) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    s effect_broker.deferral := p_step;
BEGIN
    UPDATE effect_broker.effect_work w
    SET status = s.new_status, lane = effect_broker.lane_of(s.new_status, w.proof_committed), version = s.version + 1,
        claim_token = NULL, last_event_at = p_at, head = p_head, unproven = s.unproven,
        proven_through = s.proven_through, rejections = s.rejections, retries = s.retries,
        redispatches = s.redispatches, probes = s.probes, key_generation = s.key_generation,
        due_at = CASE
            WHEN s.delay_ms IS NOT NULL THEN p_at + effect_broker.milliseconds(s.delay_ms)
            WHEN w.proof_committed THEN p_at
            ELSE 'infinity'
        END,
        unknown_since = CASE
            WHEN s.unknown OR s.new_status = 'outcome_unknown' THEN coalesce(w.unknown_since, p_at)
        END,
        negative_at = CASE WHEN s.negative THEN coalesce(w.negative_at, p_at) END,
        horizon_at = CASE WHEN NOT s.fresh_horizon THEN w.horizon_at END,
        submit_until = coalesce(p_at + effect_broker.milliseconds(s.deadline_ms), w.submit_until),
        scope_digest = CASE WHEN s.type <> 'ResolvedNotCommitted' THEN w.scope_digest END
    WHERE w.effect_id = s.effect_id AND w.version = s.version;
END
$$;
ALTER FUNCTION effect_broker.write_deferral(p_step effect_broker.deferral, p_at timestamp with time zone, p_head bytea) OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.api_keys (
    key_id text NOT NULL,
    tenant_id uuid NOT NULL,
    secret_hash bytea NOT NULL,
    scopes text[] NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone,
    CONSTRAINT api_keys_key_id_check CHECK (((length(key_id) >= 1) AND (length(key_id) <= 64))),
    CONSTRAINT api_keys_scopes_check CHECK (((scopes <@ ARRAY['submit'::text, 'read'::text, 'operate'::text]) AND (cardinality(scopes) > 0))),
    CONSTRAINT api_keys_secret_hash_check CHECK (((octet_length(secret_hash) >= 32) AND (octet_length(secret_hash) <= 64)))
);
ALTER TABLE effect_broker.api_keys OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.claim_fences (
    token uuid NOT NULL,
    found boolean NOT NULL,
    fenced_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
ALTER TABLE effect_broker.claim_fences OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.contract_routes (
    tool text NOT NULL,
    contract_id integer NOT NULL,
    routed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT contract_routes_tool_check CHECK (((length(tool) >= 1) AND (length(tool) <= 255)))
);
ALTER TABLE effect_broker.contract_routes OWNER TO effect_broker_owner;
ALTER TABLE effect_broker.contracts ALTER COLUMN contract_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME effect_broker.contracts_contract_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE effect_broker.effect_attempt_endings (
    effect_id uuid NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    ordinal integer NOT NULL,
    kind effect_broker.ending_kind NOT NULL,
    late boolean NOT NULL,
    final boolean NOT NULL,
    from_key_record boolean NOT NULL,
    bytes_may_have_left boolean NOT NULL,
    reason character varying(4096) NOT NULL,
    external_id character varying(4096),
    data_key_id character varying(64),
    evidence character varying(65536),
    request_digest effect_broker.sha256_digest,
    response_digest effect_broker.sha256_digest,
    result_ciphertext bytea
)
PARTITION BY RANGE (effect_id);
ALTER TABLE effect_broker.effect_attempt_endings OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.effect_attempt_endings_default (
    effect_id uuid CONSTRAINT effect_attempt_endings_effect_id_not_null NOT NULL,
    ended_at timestamp with time zone CONSTRAINT effect_attempt_endings_ended_at_not_null NOT NULL,
    ordinal integer CONSTRAINT effect_attempt_endings_ordinal_not_null NOT NULL,
    kind effect_broker.ending_kind CONSTRAINT effect_attempt_endings_kind_not_null NOT NULL,
    late boolean CONSTRAINT effect_attempt_endings_late_not_null NOT NULL,
    final boolean CONSTRAINT effect_attempt_endings_final_not_null NOT NULL,
    from_key_record boolean CONSTRAINT effect_attempt_endings_from_key_record_not_null NOT NULL,
    bytes_may_have_left boolean CONSTRAINT effect_attempt_endings_bytes_may_have_left_not_null NOT NULL,
    reason character varying(4096) CONSTRAINT effect_attempt_endings_reason_not_null NOT NULL,
    external_id character varying(4096),
    data_key_id character varying(64),
    evidence character varying(65536),
    request_digest effect_broker.sha256_digest,
    response_digest effect_broker.sha256_digest,
    result_ciphertext bytea
);
ALTER TABLE effect_broker.effect_attempt_endings_default OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.effect_attempts (
    effect_id uuid NOT NULL,
    attempt_id uuid NOT NULL,
    started_at timestamp with time zone NOT NULL,
    send_deadline timestamp with time zone NOT NULL,
    ordinal integer NOT NULL,
    version integer NOT NULL,
    key_generation integer NOT NULL,
    worker character varying(255) NOT NULL,
    scope_digest effect_broker.sha256_digest NOT NULL
)
PARTITION BY RANGE (effect_id);
ALTER TABLE effect_broker.effect_attempts OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.effect_attempts_default (
    effect_id uuid CONSTRAINT effect_attempts_effect_id_not_null NOT NULL,
    attempt_id uuid CONSTRAINT effect_attempts_attempt_id_not_null NOT NULL,
    started_at timestamp with time zone CONSTRAINT effect_attempts_started_at_not_null NOT NULL,
    send_deadline timestamp with time zone CONSTRAINT effect_attempts_send_deadline_not_null NOT NULL,
    ordinal integer CONSTRAINT effect_attempts_ordinal_not_null NOT NULL,
    version integer CONSTRAINT effect_attempts_version_not_null NOT NULL,
    key_generation integer CONSTRAINT effect_attempts_key_generation_not_null NOT NULL,
    worker character varying(255) CONSTRAINT effect_attempts_worker_not_null NOT NULL,
    scope_digest effect_broker.sha256_digest CONSTRAINT effect_attempts_scope_digest_not_null NOT NULL
);
ALTER TABLE effect_broker.effect_attempts_default OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.effect_callbacks (
    effect_id uuid NOT NULL,
    callback_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    due_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    token uuid,
    deliveries integer DEFAULT 0 NOT NULL,
    sealed bytea NOT NULL,
    data_key_id text NOT NULL,
    CONSTRAINT effect_callbacks_data_key_id_check CHECK ((octet_length(data_key_id) <= 64)),
    CONSTRAINT effect_callbacks_sealed_check CHECK ((octet_length(sealed) <= 16384))
);
ALTER TABLE effect_broker.effect_callbacks OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.effect_contradictions (
    effect_id uuid NOT NULL,
    sequence integer NOT NULL,
    tenant_id uuid NOT NULL,
    at timestamp with time zone NOT NULL
);
ALTER TABLE effect_broker.effect_contradictions OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.effect_events_default (
    effect_id uuid CONSTRAINT effect_events_effect_id_not_null NOT NULL,
    at timestamp with time zone CONSTRAINT effect_events_at_not_null NOT NULL,
    sequence integer CONSTRAINT effect_events_sequence_not_null NOT NULL,
    type effect_broker.event_type CONSTRAINT effect_events_type_not_null NOT NULL,
    old_status effect_broker.effect_status,
    new_status effect_broker.effect_status CONSTRAINT effect_events_new_status_not_null NOT NULL,
    actor character varying(1024) CONSTRAINT effect_events_actor_not_null NOT NULL,
    metadata character varying(65536) CONSTRAINT effect_events_metadata_not_null NOT NULL,
    digest bytea CONSTRAINT effect_events_digest_not_null NOT NULL
);
ALTER TABLE effect_broker.effect_events_default OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.effect_intents_default (
    effect_id uuid CONSTRAINT effect_intents_effect_id_not_null NOT NULL,
    tenant_id uuid CONSTRAINT effect_intents_tenant_id_not_null NOT NULL,
    created_at timestamp with time zone CONSTRAINT effect_intents_created_at_not_null NOT NULL,
    contract_id integer CONSTRAINT effect_intents_contract_id_not_null NOT NULL,
    request_hash effect_broker.sha256_digest CONSTRAINT effect_intents_request_hash_not_null NOT NULL,
    operation_key character varying(255) CONSTRAINT effect_intents_operation_key_not_null NOT NULL,
    downstream_key character varying(255) CONSTRAINT effect_intents_downstream_key_not_null NOT NULL,
    hmac_key_id character varying(64) CONSTRAINT effect_intents_hmac_key_id_not_null NOT NULL,
    data_key_id character varying(64) CONSTRAINT effect_intents_data_key_id_not_null NOT NULL,
    requested_by character varying(1024),
    trace_id character varying(256),
    preview character varying(65536) CONSTRAINT effect_intents_preview_not_null NOT NULL,
    arguments_ciphertext bytea
);
ALTER TABLE effect_broker.effect_intents_default OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.effect_key_generations (
    effect_id uuid NOT NULL,
    generation integer NOT NULL,
    minted_at timestamp with time zone NOT NULL,
    downstream_key character varying(255) NOT NULL
);
ALTER TABLE effect_broker.effect_key_generations OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.effect_keys (
    tenant_id uuid NOT NULL,
    key_digest effect_broker.sha256_digest NOT NULL,
    effect_id uuid NOT NULL
);
ALTER TABLE effect_broker.effect_keys OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.effect_receipts_default (
    effect_id uuid CONSTRAINT effect_receipts_effect_id_not_null NOT NULL,
    tenant_id uuid CONSTRAINT effect_receipts_tenant_id_not_null NOT NULL,
    receipt_id uuid CONSTRAINT effect_receipts_receipt_id_not_null NOT NULL,
    created_at timestamp with time zone CONSTRAINT effect_receipts_created_at_not_null NOT NULL,
    target_time timestamp with time zone,
    kind effect_broker.effect_status CONSTRAINT effect_receipts_kind_not_null NOT NULL,
    contract_id integer CONSTRAINT effect_receipts_contract_id_not_null NOT NULL,
    source effect_broker.receipt_source CONSTRAINT effect_receipts_source_not_null NOT NULL,
    reason character varying(4096) CONSTRAINT effect_receipts_reason_not_null NOT NULL,
    external_id character varying(4096),
    data_key_id character varying(64),
    flags effect_broker.receipt_flags CONSTRAINT effect_receipts_flags_not_null NOT NULL,
    evidence_digest effect_broker.sha256_digest,
    downstream_key_digest bytea CONSTRAINT effect_receipts_downstream_key_digest_not_null NOT NULL,
    digest bytea CONSTRAINT effect_receipts_digest_not_null NOT NULL,
    result_ciphertext bytea,
    CONSTRAINT effect_receipts_kind_check CHECK ((kind = ANY (ARRAY['succeeded'::effect_broker.effect_status, 'failed_final'::effect_broker.effect_status])))
);
ALTER TABLE effect_broker.effect_receipts_default OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.effect_resolutions (
    effect_id uuid NOT NULL,
    decision_id text NOT NULL,
    decision text NOT NULL,
    actor text NOT NULL,
    observed_at timestamp with time zone,
    decided_at timestamp with time zone NOT NULL,
    version integer NOT NULL,
    sealed bytea NOT NULL,
    data_key_id text NOT NULL,
    CONSTRAINT effect_resolutions_actor_check CHECK (((octet_length(actor) >= 1) AND (octet_length(actor) <= 1024))),
    CONSTRAINT effect_resolutions_data_key_id_check CHECK ((octet_length(data_key_id) <= 64)),
    CONSTRAINT effect_resolutions_decision_check CHECK ((decision = ANY (ARRAY['committed'::text, 'not_committed'::text, 'failed'::text]))),
    CONSTRAINT effect_resolutions_decision_id_check CHECK (((octet_length(decision_id) >= 1) AND (octet_length(decision_id) <= 255))),
    CONSTRAINT effect_resolutions_sealed_check CHECK ((octet_length(sealed) <= 262144))
);
ALTER TABLE effect_broker.effect_resolutions OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.effect_tombstones (
    effect_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    archived_at timestamp with time zone NOT NULL,
    contract_id integer NOT NULL,
    version integer NOT NULL,
    status effect_broker.effect_status NOT NULL,
    request_hash effect_broker.sha256_digest NOT NULL,
    operation_key character varying(255) NOT NULL,
    downstream_key character varying(255) NOT NULL,
    hmac_key_id character varying(64) NOT NULL,
    requested_by character varying(1024),
    trace_id character varying(256),
    last_metadata character varying(65536) NOT NULL,
    receipt_id uuid NOT NULL,
    kind effect_broker.effect_status NOT NULL,
    source character varying(64) NOT NULL,
    reason character varying(4096) NOT NULL,
    external_id character varying(4096),
    flags text[] NOT NULL,
    target_time timestamp with time zone,
    receipt_created_at timestamp with time zone NOT NULL,
    evidence_digest effect_broker.sha256_digest,
    downstream_key_digest bytea NOT NULL,
    digest bytea NOT NULL,
    head bytea NOT NULL,
    CONSTRAINT effect_tombstones_status_check CHECK ((status = ANY (ARRAY['succeeded'::effect_broker.effect_status, 'failed_final'::effect_broker.effect_status, 'compensated'::effect_broker.effect_status])))
);
ALTER TABLE effect_broker.effect_tombstones OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.ledger_control (
    singleton boolean DEFAULT true NOT NULL,
    dispatch_held boolean DEFAULT false NOT NULL,
    reason text,
    since timestamp with time zone,
    released_by text,
    released_at timestamp with time zone,
    timeline character varying(64),
    CONSTRAINT ledger_control_reason_check CHECK ((octet_length(reason) <= 1024)),
    CONSTRAINT ledger_control_released_by_check CHECK ((octet_length(released_by) <= 1024)),
    CONSTRAINT ledger_control_singleton_check CHECK (singleton)
);
ALTER TABLE effect_broker.ledger_control OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.ledger_keys (
    kind text NOT NULL,
    key_id text NOT NULL,
    since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT ledger_keys_key_id_check CHECK (((length(key_id) >= 1) AND (length(key_id) <= 64))),
    CONSTRAINT ledger_keys_kind_check CHECK ((kind = ANY (ARRAY['data'::text, 'hmac'::text])))
);
ALTER TABLE effect_broker.ledger_keys OWNER TO effect_broker_owner;
CREATE TABLE effect_broker.schema_revision (
    version_num character varying(32) NOT NULL
);
ALTER TABLE effect_broker.schema_revision OWNER TO postgres;
ALTER TABLE ONLY effect_broker.effect_attempt_endings ATTACH PARTITION effect_broker.effect_attempt_endings_default DEFAULT;
ALTER TABLE ONLY effect_broker.effect_attempts ATTACH PARTITION effect_broker.effect_attempts_default DEFAULT;
ALTER TABLE ONLY effect_broker.effect_events ATTACH PARTITION effect_broker.effect_events_default DEFAULT;
ALTER TABLE ONLY effect_broker.effect_intents ATTACH PARTITION effect_broker.effect_intents_default DEFAULT;
ALTER TABLE ONLY effect_broker.effect_receipts ATTACH PARTITION effect_broker.effect_receipts_default DEFAULT;
ALTER TABLE ONLY effect_broker.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (key_id);
ALTER TABLE ONLY effect_broker.claim_fences
    ADD CONSTRAINT claim_fences_pkey PRIMARY KEY (token);
ALTER TABLE ONLY effect_broker.contract_routes
    ADD CONSTRAINT contract_routes_pkey PRIMARY KEY (tool);
ALTER TABLE ONLY effect_broker.contracts
    ADD CONSTRAINT contracts_name_version_key UNIQUE (name, version);
ALTER TABLE ONLY effect_broker.contracts
    ADD CONSTRAINT contracts_pkey PRIMARY KEY (contract_id);
ALTER TABLE ONLY effect_broker.effect_attempt_endings
    ADD CONSTRAINT effect_attempt_endings_pkey PRIMARY KEY (effect_id, ordinal);
ALTER TABLE ONLY effect_broker.effect_attempt_endings_default
    ADD CONSTRAINT effect_attempt_endings_default_pkey PRIMARY KEY (effect_id, ordinal);
ALTER TABLE ONLY effect_broker.effect_attempts
    ADD CONSTRAINT effect_attempts_pkey PRIMARY KEY (effect_id, ordinal);
ALTER TABLE ONLY effect_broker.effect_attempts_default
    ADD CONSTRAINT effect_attempts_default_pkey PRIMARY KEY (effect_id, ordinal);
ALTER TABLE ONLY effect_broker.effect_callbacks
    ADD CONSTRAINT effect_callbacks_pkey PRIMARY KEY (effect_id, callback_id);
ALTER TABLE ONLY effect_broker.effect_compensations
    ADD CONSTRAINT effect_compensations_compensated_by_key UNIQUE (compensated_by);
ALTER TABLE ONLY effect_broker.effect_compensations
    ADD CONSTRAINT effect_compensations_pkey PRIMARY KEY (effect_id);
ALTER TABLE ONLY effect_broker.effect_contradictions
    ADD CONSTRAINT effect_contradictions_pkey PRIMARY KEY (effect_id, sequence);
ALTER TABLE ONLY effect_broker.effect_events
    ADD CONSTRAINT effect_events_pkey PRIMARY KEY (effect_id, sequence);
ALTER TABLE ONLY effect_broker.effect_events_default
    ADD CONSTRAINT effect_events_default_pkey PRIMARY KEY (effect_id, sequence);
ALTER TABLE ONLY effect_broker.effect_intents
    ADD CONSTRAINT effect_intents_pkey PRIMARY KEY (tenant_id, effect_id);
ALTER TABLE ONLY effect_broker.effect_intents_default
    ADD CONSTRAINT effect_intents_default_pkey PRIMARY KEY (tenant_id, effect_id);
ALTER TABLE ONLY effect_broker.effect_key_generations
    ADD CONSTRAINT effect_key_generations_pkey PRIMARY KEY (effect_id, generation);
ALTER TABLE ONLY effect_broker.effect_keys
    ADD CONSTRAINT effect_keys_pkey PRIMARY KEY (tenant_id, key_digest);
ALTER TABLE ONLY effect_broker.effect_receipts
    ADD CONSTRAINT effect_receipts_pkey PRIMARY KEY (effect_id);
ALTER TABLE ONLY effect_broker.effect_receipts_default
    ADD CONSTRAINT effect_receipts_default_pkey PRIMARY KEY (effect_id);
ALTER TABLE ONLY effect_broker.effect_resolutions
    ADD CONSTRAINT effect_resolutions_pkey PRIMARY KEY (effect_id, decision_id);
ALTER TABLE ONLY effect_broker.effect_tombstones
    ADD CONSTRAINT effect_tombstones_pkey PRIMARY KEY (effect_id);
ALTER TABLE ONLY effect_broker.effect_work
    ADD CONSTRAINT effect_work_pkey PRIMARY KEY (effect_id);
ALTER TABLE ONLY effect_broker.ledger_control
    ADD CONSTRAINT ledger_control_pkey PRIMARY KEY (singleton);
ALTER TABLE ONLY effect_broker.ledger_keys
    ADD CONSTRAINT ledger_keys_pkey PRIMARY KEY (kind, key_id);
ALTER TABLE ONLY effect_broker.schema_revision
    ADD CONSTRAINT schema_revision_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY effect_broker.tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (tenant_id);
ALTER TABLE ONLY effect_broker.tenants
    ADD CONSTRAINT tenants_slug_key UNIQUE (slug);
CREATE INDEX api_keys_by_tenant ON effect_broker.api_keys USING btree (tenant_id);
CREATE INDEX claim_fences_by_age ON effect_broker.claim_fences USING btree (fenced_at);
CREATE INDEX contracts_by_tool ON effect_broker.contracts USING btree (tool);
CREATE INDEX effect_callbacks_due ON effect_broker.effect_callbacks USING btree (due_at);
CREATE INDEX effect_compensations_by_tenant ON effect_broker.effect_compensations USING btree (tenant_id, effect_id);
CREATE INDEX effect_contradictions_by_tenant ON effect_broker.effect_contradictions USING btree (tenant_id, effect_id);
CREATE INDEX effect_receipts_failed ON ONLY effect_broker.effect_receipts USING btree (tenant_id, effect_id) WHERE (kind = 'failed_final'::effect_broker.effect_status);
CREATE INDEX effect_receipts_default_tenant_id_effect_id_idx ON effect_broker.effect_receipts_default USING btree (tenant_id, effect_id) WHERE (kind = 'failed_final'::effect_broker.effect_status);
CREATE INDEX effect_work_due ON effect_broker.effect_work USING btree (lane, due_at);
CREATE INDEX effect_work_due_by_tenant ON effect_broker.effect_work USING btree (lane, tenant_id, due_at);
CREATE INDEX effect_work_unknown ON effect_broker.effect_work USING btree (tenant_id, effect_id) WHERE (unknown_since IS NOT NULL);
ALTER INDEX effect_broker.effect_attempt_endings_pkey ATTACH PARTITION effect_broker.effect_attempt_endings_default_pkey;
ALTER INDEX effect_broker.effect_attempts_pkey ATTACH PARTITION effect_broker.effect_attempts_default_pkey;
ALTER INDEX effect_broker.effect_events_pkey ATTACH PARTITION effect_broker.effect_events_default_pkey;
ALTER INDEX effect_broker.effect_intents_pkey ATTACH PARTITION effect_broker.effect_intents_default_pkey;
ALTER INDEX effect_broker.effect_receipts_pkey ATTACH PARTITION effect_broker.effect_receipts_default_pkey;
ALTER INDEX effect_broker.effect_receipts_failed ATTACH PARTITION effect_broker.effect_receipts_default_tenant_id_effect_id_idx;
CREATE TRIGGER failure_contradicts_no_proof BEFORE INSERT ON effect_broker.effect_receipts FOR EACH ROW WHEN ((new.kind = 'failed_final'::effect_broker.effect_status)) EXECUTE FUNCTION effect_broker.deny_failure_against_proof();
CREATE TRIGGER immutable BEFORE DELETE OR UPDATE ON effect_broker.contracts FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER immutable BEFORE UPDATE ON effect_broker.effect_attempt_endings FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change_but_payload('result_ciphertext');
CREATE TRIGGER immutable BEFORE DELETE OR UPDATE ON effect_broker.effect_attempts FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER immutable BEFORE UPDATE ON effect_broker.effect_compensations FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change_but_payload('reason_ciphertext');
CREATE TRIGGER immutable BEFORE DELETE OR UPDATE ON effect_broker.effect_contradictions FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER immutable BEFORE DELETE OR UPDATE ON effect_broker.effect_events FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER immutable BEFORE UPDATE ON effect_broker.effect_intents FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change_but_payload('arguments_ciphertext');
CREATE TRIGGER immutable BEFORE DELETE OR UPDATE ON effect_broker.effect_key_generations FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER immutable BEFORE DELETE OR UPDATE ON effect_broker.effect_keys FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER immutable BEFORE UPDATE ON effect_broker.effect_receipts FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change_but_payload('result_ciphertext');
CREATE TRIGGER immutable BEFORE UPDATE ON effect_broker.effect_resolutions FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change_but_payload('sealed');
CREATE TRIGGER immutable BEFORE DELETE OR UPDATE ON effect_broker.effect_tombstones FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER proof_stands BEFORE UPDATE ON effect_broker.effect_work FOR EACH ROW WHEN (old.proof_committed) EXECUTE FUNCTION effect_broker.deny_against_proof();
CREATE TRIGGER undeletable BEFORE DELETE ON effect_broker.effect_attempt_endings FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER undeletable BEFORE DELETE ON effect_broker.effect_compensations FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER undeletable BEFORE DELETE ON effect_broker.effect_intents FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER undeletable BEFORE DELETE ON effect_broker.effect_receipts FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER undeletable BEFORE DELETE ON effect_broker.effect_resolutions FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.contracts FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.effect_attempt_endings FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.effect_attempt_endings_default FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.effect_attempts FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.effect_attempts_default FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.effect_compensations FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.effect_contradictions FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.effect_events FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.effect_events_default FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.effect_intents FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.effect_intents_default FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.effect_key_generations FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.effect_keys FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.effect_receipts FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.effect_receipts_default FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.effect_resolutions FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.effect_tombstones FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();
ALTER TABLE ONLY effect_broker.api_keys
    ADD CONSTRAINT api_keys_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES effect_broker.tenants(tenant_id);
ALTER TABLE ONLY effect_broker.contract_routes
    ADD CONSTRAINT contract_routes_contract_id_fkey FOREIGN KEY (contract_id) REFERENCES effect_broker.contracts(contract_id);
GRANT USAGE ON SCHEMA effect_broker TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.add_api_key(p_tenant_id uuid, p_key_id text, p_secret_hash bytea, p_scopes text[], p_lifetime_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.add_api_key(p_tenant_id uuid, p_key_id text, p_secret_hash bytea, p_scopes text[], p_lifetime_ms bigint) TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effect_events TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.append_event(p_last effect_broker.effect_events, p_type effect_broker.event_type, p_new effect_broker.effect_status, p_actor text, p_metadata text) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.archive_month(p_month date) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.claim(p_token uuid, p_worker text, p_limit integer, p_contract_ids integer[], p_scope_digests bytea[], p_margin_ms bigint, p_budget_ms bigint, p_unsafe_limit integer, p_attempt_ids uuid[], p_effect_ids uuid[], p_tenants uuid[], p_due_from timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.claim(p_token uuid, p_worker text, p_limit integer, p_contract_ids integer[], p_scope_digests bytea[], p_margin_ms bigint, p_budget_ms bigint, p_unsafe_limit integer, p_attempt_ids uuid[], p_effect_ids uuid[], p_tenants uuid[], p_due_from timestamp with time zone) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.claim_callbacks(p_token uuid, p_limit integer, p_effect_ids uuid[]) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.claim_callbacks(p_token uuid, p_limit integer, p_effect_ids uuid[]) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.claim_reconciliation(p_token uuid, p_worker text, p_limit integer, p_contract_ids integer[], p_margin_ms bigint, p_budget_ms bigint, p_effect_ids uuid[], p_tenants uuid[], p_due_from timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.claim_reconciliation(p_token uuid, p_worker text, p_limit integer, p_contract_ids integer[], p_margin_ms bigint, p_budget_ms bigint, p_effect_ids uuid[], p_tenants uuid[], p_due_from timestamp with time zone) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.claim_rows(p_picked uuid[], p_now timestamp with time zone) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.compensate(p_tenant_id uuid, p_effect_id uuid, p_compensated_by uuid, p_actor text, p_reason_ciphertext bytea, p_data_key_id text, p_expected_version integer, OUT outcome text, OUT version integer) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.compensate(p_tenant_id uuid, p_effect_id uuid, p_compensated_by uuid, p_actor text, p_reason_ciphertext bytea, p_data_key_id text, p_expected_version integer, OUT outcome text, OUT version integer) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.confirm_claim(p_token uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.confirm_claim(p_token uuid) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.contradicts(p_effect_id uuid, p_ending effect_broker.attempt_ending) FROM PUBLIC;
GRANT SELECT ON TABLE effect_broker.tenants TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.create_tenant(p_tenant_id uuid, p_slug text, p_name text, p_hmac_key_id text, OUT stored effect_broker.tenants, OUT created boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.create_tenant(p_tenant_id uuid, p_slug text, p_name text, p_hmac_key_id text, OUT stored effect_broker.tenants, OUT created boolean) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.decided_version(p_tenant_id uuid, p_effect_id uuid, p_decision_id text) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.declare_key(p_kind text, p_key_id text) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.declare_key(p_kind text, p_key_id text) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.defer(p_steps effect_broker.deferral[]) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.defer(p_steps effect_broker.deferral[]) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.deny_against_proof() FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.deny_change() FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.deny_change_but_payload() FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.deny_failure_against_proof() FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.drop_archived_month(p_month date) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.due_tenants(p_lane smallint, p_due_from timestamp with time zone, p_after uuid, p_limit integer) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.due_tenants(p_lane smallint, p_due_from timestamp with time zone, p_after uuid, p_limit integer) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.end_callback(p_effect_id uuid, p_callback_id uuid, p_token uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.end_callback(p_effect_id uuid, p_callback_id uuid, p_token uuid) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.event_digest(p_previous bytea, p_effect_id uuid, p_sequence integer, p_at timestamp with time zone, p_type effect_broker.event_type, p_old effect_broker.effect_status, p_new effect_broker.effect_status, p_actor text, p_metadata text) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.event_digest(p_previous bytea, p_effect_id uuid, p_sequence integer, p_at timestamp with time zone, p_type effect_broker.event_type, p_old effect_broker.effect_status, p_new effect_broker.effect_status, p_actor text, p_metadata text) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.expire_leases(p_limit integer, p_margin_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.expire_leases(p_limit integer, p_margin_ms bigint) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.failed_over(p_timeline text) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.finish(p_steps effect_broker.finishing[]) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.finish(p_steps effect_broker.finishing[]) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.finish_many(p_steps effect_broker.finishing[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.finish_one(s effect_broker.finishing) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.first_head() FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.first_head() TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.first_id_at(p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.first_id_at(p_at timestamp with time zone) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.forget_fences(p_limit integer) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.forget_fences(p_limit integer) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.framed(p_bytes bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.framed(p_bytes bytea) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.framed(p_text text) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.framed(p_text text) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.goes_on(p_status effect_broker.effect_status, p_due_at timestamp with time zone, p_proof_committed boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.hold_dispatch(p_reason text) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.hold_dispatch(p_reason text) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.id_range(p_ids uuid[], OUT first_id uuid, OUT last_id uuid) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.keep_callback(p_tenant_id uuid, p_effect_id uuid, p_callback_id uuid, p_sealed bytea, p_data_key_id text) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.keep_callback(p_tenant_id uuid, p_effect_id uuid, p_callback_id uuid, p_sealed bytea, p_data_key_id text) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.lane_of(p_status effect_broker.effect_status, p_proof_committed boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.lane_of(p_status effect_broker.effect_status, p_proof_committed boolean) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.possible_work(p_status effect_broker.effect_status, p_lane smallint, p_claim_token uuid, p_due_at timestamp with time zone, p_attempts integer, p_unproven integer, p_proven_through integer, p_unknown_since timestamp with time zone, p_settlement_at timestamp with time zone, p_proof_committed boolean) FROM PUBLIC;
GRANT SELECT ON TABLE effect_broker.effect_work TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.lock_claim(p_effect_id uuid, p_tenant_id uuid, p_token uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.lock_claim(p_effect_id uuid, p_tenant_id uuid, p_token uuid) TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.contracts TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effect_compensations TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effect_intents TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effect_receipts TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effects TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.look_up(p_tenant_id uuid, p_effect_id uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.look_up(p_tenant_id uuid, p_effect_id uuid) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.look_up_key(p_tenant_id uuid, p_operation_key text) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.look_up_key(p_tenant_id uuid, p_operation_key text) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.lost_step(p_effect_id uuid, p_tenant_id uuid, p_version integer, p_token uuid, p_type effect_broker.event_type, p_new effect_broker.effect_status, p_actor text, p_metadata text, p_ending effect_broker.attempt_ending) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.make_partitions(p_months_ahead integer) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.make_partitions(p_months_ahead integer) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.milliseconds(p_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.milliseconds(p_ms bigint) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.month_start(p_month date) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.month_start(p_month date) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.note_api_key_use(p_key_id text) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.note_api_key_use(p_key_id text) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.obstacle_row(p_obstacle text) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.overdue(p_limit integer, p_margin_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.overdue(p_limit integer, p_margin_ms bigint) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.partitioned_tables() FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.pick(p_lane smallint, p_limit integer, p_contract_ids integer[], p_tenants uuid[], p_due_from timestamp with time zone, OUT picked uuid[], OUT oldest_due_at timestamp with time zone) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.pick_named(p_lane smallint, p_limit integer, p_contract_ids integer[], p_effect_ids uuid[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.pick_safe(p_limit integer, p_fitting integer[], p_unsafe integer[], p_passed uuid[], p_due_from timestamp with time zone) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.prune_payloads(p_age_ms bigint, p_after uuid, p_limit integer, OUT pruned bigint, OUT last_effect_id uuid) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.publish_contract(p_tool text, p_name text, p_version text, p_document bytea, p_digest bytea, p_safety text, p_attempt_ms bigint, p_probe_ms bigint, p_lease_ms bigint, p_settlement_ms bigint, p_retention_ms bigint, p_submit_ms bigint, OUT contract_id integer, OUT digest bytea, OUT created boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.publish_contract(p_tool text, p_name text, p_version text, p_document bytea, p_digest bytea, p_safety text, p_attempt_ms bigint, p_probe_ms bigint, p_lease_ms bigint, p_settlement_ms bigint, p_retention_ms bigint, p_submit_ms bigint, OUT contract_id integer, OUT digest bytea, OUT created boolean) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.receipt_digest(p_receipt_id uuid, p_effect_id uuid, p_tenant_id uuid, p_contract_id integer, p_created_at timestamp with time zone, p_target_time timestamp with time zone, p_kind effect_broker.effect_status, p_source text, p_reason text, p_external_id text, p_flags text[], p_evidence_digest bytea, p_downstream_key_digest bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.receipt_digest(p_receipt_id uuid, p_effect_id uuid, p_tenant_id uuid, p_contract_id integer, p_created_at timestamp with time zone, p_target_time timestamp with time zone, p_kind effect_broker.effect_status, p_source text, p_reason text, p_external_id text, p_flags text[], p_evidence_digest bytea, p_downstream_key_digest bytea) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.record_ending(p_result effect_broker.step_row, p_work effect_broker.effect_work, p_live boolean, p_effect_id uuid, p_ending effect_broker.attempt_ending, p_actor text) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.release_dispatch(p_actor text) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.release_dispatch(p_actor text) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.renew(p_token uuid, p_effect_ids uuid[], p_lease_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.renew(p_token uuid, p_effect_ids uuid[], p_lease_ms bigint) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.reseal(p_old effect_broker.sealed_row[], p_ciphertexts bytea[], p_data_key_id text) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.reserve(p_intents effect_broker.new_intent[]) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.reserve(p_intents effect_broker.new_intent[]) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.reserve_leased(p_intent effect_broker.new_intent, p_token uuid, p_worker text, p_attempt_id uuid, p_contract_ids integer[], p_scope_digests bytea[], p_margin_ms bigint, p_budget_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.reserve_leased(p_intent effect_broker.new_intent, p_token uuid, p_worker text, p_attempt_id uuid, p_contract_ids integer[], p_scope_digests bytea[], p_margin_ms bigint, p_budget_ms bigint) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.resolve_defer(p_step effect_broker.deferral, p_decision effect_broker.decision) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.resolve_defer(p_step effect_broker.deferral, p_decision effect_broker.decision) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.resolve_finish(p_step effect_broker.finishing, p_decision effect_broker.decision) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.resolve_finish(p_step effect_broker.finishing, p_decision effect_broker.decision) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.retire_keys(p_kind text, p_keep text[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.revoke_api_key(p_key_id text) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.revoke_api_key(p_key_id text) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.rotate_api_key(p_key_id text, p_new_key_id text, p_secret_hash bytea, p_lifetime_ms bigint, p_overlap_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.rotate_api_key(p_key_id text, p_new_key_id text, p_secret_hash bytea, p_lifetime_ms bigint, p_overlap_ms bigint) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.sealed_under_other_keys(p_place text, p_data_key_id text, p_after effect_broker.sealed_row, p_limit integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.send_refusal(p_now timestamp with time zone, p_submit_until timestamp with time zone, p_horizon_at timestamp with time zone, p_scope_digest bytea, p_scope_now bytea, p_attempt_ms bigint, p_settlement_ms bigint, p_margin_ms bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.set_tenant_disabled(p_tenant_id uuid, p_disabled boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.set_tenant_disabled(p_tenant_id uuid, p_disabled boolean) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.set_tenant_hmac_key(p_tenant_id uuid, p_hmac_key_id text) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.set_tenant_hmac_key(p_tenant_id uuid, p_hmac_key_id text) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.standing_of(p_tenant_id uuid, p_effect_id uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.standing_of(p_tenant_id uuid, p_effect_id uuid) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.start_attempt(p_effect_id uuid, p_now timestamp with time zone, p_remaining boolean, p_oldest_due_at timestamp with time zone, p_token uuid, p_worker text, p_attempt_id uuid, p_contract_ids integer[], p_scope_digests bytea[], p_margin_ms bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.start_reconciliation(p_row effect_broker.claim_row, p_worker text) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.store_decision(p_effect_id uuid, p_version integer, p_decision effect_broker.decision) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.store_ending(p_effect_id uuid, p_ending effect_broker.attempt_ending, p_at timestamp with time zone, p_late boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.store_event(p_effect_id uuid, p_sequence integer, p_at timestamp with time zone, p_type effect_broker.event_type, p_old effect_broker.effect_status, p_new effect_broker.effect_status, p_actor text, p_metadata text, p_previous bytea) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.store_intent(p_intent effect_broker.new_intent) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.take_evidence(p_work effect_broker.effect_work, p_ending effect_broker.attempt_ending, p_generation integer, p_actor text, p_metadata text) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.tenant_of(p_effect_id uuid) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.tombstone_of(p_tenant_id uuid, p_effect_id uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION effect_broker.tombstone_of(p_tenant_id uuid, p_effect_id uuid) TO effect_broker_app;
REVOKE ALL ON FUNCTION effect_broker.without_excess(p_picked uuid[], p_unsafe integer[], p_limit integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION effect_broker.write_deferral(p_step effect_broker.deferral, p_at timestamp with time zone, p_head bytea) FROM PUBLIC;
GRANT SELECT ON TABLE effect_broker.api_keys TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.claim_fences TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.contract_routes TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effect_attempt_endings TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effect_attempt_endings_default TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effect_attempts TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effect_attempts_default TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effect_callbacks TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effect_contradictions TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effect_events_default TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effect_intents_default TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effect_key_generations TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effect_keys TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effect_receipts_default TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effect_resolutions TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.effect_tombstones TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.ledger_control TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.ledger_keys TO effect_broker_app;
GRANT SELECT ON TABLE effect_broker.schema_revision TO effect_broker_app;
