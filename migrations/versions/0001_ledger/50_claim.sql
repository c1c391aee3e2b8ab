-- Work taken, or refused, with all that its holder needs; `disposition` is claimed, held, fenced or a refusal.
CREATE TYPE effect_broker.claim_row AS (
    disposition text,
    detail text,
    remaining boolean,
    oldest_due_at timestamptz,
    ledger_now timestamptz,
    effect_id uuid,
    tenant_id uuid,
    operation_key varchar,
    tool text,
    request_hash effect_broker.sha256_digest,
    contract_id integer,
    contract_name text,
    contract_version text,
    safety text,
    downstream_key varchar,
    hmac_key_id varchar,
    arguments_ciphertext bytea,
    data_key_id varchar,
    preview varchar,
    requested_by varchar,
    trace_id varchar,
    intent_created_at timestamptz,
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
    due_at timestamptz,
    settlement_at timestamptz,
    horizon_at timestamptz,
    submit_until timestamptz,
    negative_at timestamptz,
    unknown_since timestamptz,
    created_at timestamptz,
    claim_token uuid,
    current_key varchar,
    attempt_id uuid,
    worker varchar,
    started_at timestamptz,
    send_deadline timestamptz,
    scope_digest effect_broker.sha256_digest
);

-- Why a due effect may not be sent at p_now; NULL where it may. The margin only ever forbids more.
CREATE FUNCTION effect_broker.send_refusal(
    p_now timestamptz, p_submit_until timestamptz, p_horizon_at timestamptz, p_scope_digest bytea,
    p_scope_now bytea, p_attempt_ms bigint, p_settlement_ms bigint, p_margin_ms bigint
) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN p_scope_digest <> p_scope_now THEN 'scope_changed'
        WHEN p_now > p_submit_until THEN 'submit_deadline'
        WHEN p_now + (p_attempt_ms + p_settlement_ms + p_margin_ms) * interval '1 millisecond' > p_horizon_at
            THEN 'horizon_over'
    END
$$;

-- The tenants with due work, a few at a time after a tenant: one bounded look for each, so that neither a tenant with a
-- million due effects nor a million dead index entries hides another.
CREATE FUNCTION effect_broker.due_tenants(
    p_lane smallint, p_due_from timestamptz, p_after uuid, p_limit integer
) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = effect_broker, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
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

-- Due rows of a lane, locked. Each of p_tenants gets a share before the rest goes by age. SKIP LOCKED never waits, and a
-- LIMIT beneath the lock, not above it, keeps the count. oldest_due_at is the oldest work of all, whoever's turn it is: the
-- next claim may begin there, and would pass by a tenant's older work if it began at what was picked.
CREATE FUNCTION effect_broker.pick(
    p_lane smallint, p_limit integer, p_contract_ids integer[], p_tenants uuid[], p_due_from timestamptz,
    OUT picked uuid[], OUT oldest_due_at timestamptz
)
LANGUAGE plpgsql AS $$
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

-- Named rows of a lane that are due, locked one by one by primary key: what a nudge asks for.
CREATE FUNCTION effect_broker.pick_named(
    p_lane smallint, p_limit integer, p_contract_ids integer[], p_effect_ids uuid[]
) RETURNS uuid[]
LANGUAGE plpgsql AS $$
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

-- Work rows with all that their holder needs, in the order given, as they stand.
CREATE FUNCTION effect_broker.claim_rows(p_picked uuid[], p_now timestamptz) RETURNS SETOF effect_broker.claim_row
LANGUAGE sql STABLE ROWS 10 AS $$
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

-- Start the attempt of a picked effect if it may be sent: new status, counters, attempt row and event. What may not be sent
-- comes back as it stands. p_now was read when every lock was held. Simple statements: the server keeps their plans and
-- expressions, where one large statement would be set up anew by each call.
CREATE FUNCTION effect_broker.start_attempt(
    p_effect_id uuid, p_now timestamptz, p_remaining boolean, p_oldest_due_at timestamptz, p_token uuid, p_worker text,
    p_attempt_id uuid, p_contract_ids integer[], p_scope_digests bytea[], p_margin_ms bigint
) RETURNS effect_broker.claim_row
LANGUAGE plpgsql AS $$
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

-- Whether the log runs on another timeline than the one that is watched. Where none is watched the log is not asked: not
-- every engine answers.
CREATE FUNCTION effect_broker.failed_over(p_timeline text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF p_timeline IS NULL THEN
        RETURN false;
    END IF;
    RETURN p_timeline <> left(pg_walfile_name(pg_current_wal_lsn()), 8);
END
$$;

-- The one row that says why nothing may be claimed. A failover that may have lost commits holds dispatch for everybody.
CREATE FUNCTION effect_broker.obstacle_row(p_obstacle text) RETURNS effect_broker.claim_row
LANGUAGE plpgsql AS $$
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

-- Take due effects, or named ones that are due. The token's lock comes first: it makes a settling connection wait for a
-- commit still in flight. Then whatever stands in the way is looked at (a fence, an operator's hold, a failover that may
-- have lost commits), and which contracts' attempts fit into the budget.
CREATE FUNCTION effect_broker.claim(
    p_token uuid, p_worker text, p_limit integer, p_contract_ids integer[], p_scope_digests bytea[],
    p_margin_ms bigint, p_budget_ms bigint, p_unsafe_limit integer, p_attempt_ids uuid[],
    p_effect_ids uuid[], p_tenants uuid[], p_due_from timestamptz
) RETURNS SETOF effect_broker.claim_row
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
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

-- Reserve an intent and start its first attempt in one commit, for a caller that dispatches it itself. Where the key is
-- taken, or nothing may be sent now, the row says `reserved`: what stands is read by a plain reservation.
CREATE FUNCTION effect_broker.reserve_leased(
    p_intent effect_broker.new_intent, p_token uuid, p_worker text, p_attempt_id uuid, p_contract_ids integer[],
    p_scope_digests bytea[], p_margin_ms bigint, p_budget_ms bigint
) RETURNS SETOF effect_broker.claim_row
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
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

-- Picked rows with no more than p_limit unsafe ones among them, in their order.
CREATE FUNCTION effect_broker.without_excess(p_picked uuid[], p_unsafe integer[], p_limit integer) RETURNS uuid[]
LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(n.effect_id ORDER BY n.place), '{}')
    FROM (
        SELECT w.effect_id, p.place, w.contract_id = ANY (p_unsafe) AS unsafe,
            row_number() OVER (PARTITION BY w.contract_id = ANY (p_unsafe) ORDER BY p.place) AS nth
        FROM unnest(p_picked) WITH ORDINALITY AS p (effect_id, place)
        JOIN effect_broker.effect_work w ON w.effect_id = p.effect_id
    ) n
    WHERE NOT n.unsafe OR n.nth <= p_limit
$$;

-- Fill the places that unsafe effects left free; rows locked already are passed over.
CREATE FUNCTION effect_broker.pick_safe(
    p_limit integer, p_fitting integer[], p_unsafe integer[], p_passed uuid[], p_due_from timestamptz
) RETURNS uuid[]
LANGUAGE plpgsql AS $$
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

-- Settle a claim whose commit is unknown, by a write either way. The lock waits for a commit still in flight; a claim
-- that is absent then can only find the fence.
CREATE FUNCTION effect_broker.confirm_claim(p_token uuid) RETURNS SETOF effect_broker.claim_row
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
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

-- Take due unknown effects for reconciliation. Unclaimed ones with proof of commit come back as they are, without a
-- token: whoever holds their version settles them.
CREATE FUNCTION effect_broker.claim_reconciliation(
    p_token uuid, p_worker text, p_limit integer, p_contract_ids integer[], p_margin_ms bigint, p_budget_ms bigint,
    p_effect_ids uuid[], p_tenants uuid[], p_due_from timestamptz
) RETURNS SETOF effect_broker.claim_row
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
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

CREATE FUNCTION effect_broker.start_reconciliation(p_row effect_broker.claim_row, p_worker text) RETURNS void
LANGUAGE plpgsql AS $$
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

-- Extend leases still held under the token. The row is locked before the clock is read: after a long wait the new lease
-- still lies ahead. No event, no version: a renewal says nothing about the world, and moves no send deadline.
CREATE FUNCTION effect_broker.renew(p_token uuid, p_effect_ids uuid[], p_lease_ms bigint) RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
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

-- A lapsed lease is an unknown outcome, never permission to run again. No ending is written: the sender may still know.
CREATE FUNCTION effect_broker.expire_leases(p_limit integer, p_margin_ms bigint)
RETURNS TABLE (tenant_id uuid, effect_id uuid, status text, safety text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
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

-- Unclaimed effects past their submit deadline, whoever could dispatch them. They have been due the longest, so the
-- look ends after a bounded number of due rows.
CREATE FUNCTION effect_broker.overdue(p_limit integer, p_margin_ms bigint) RETURNS SETOF effect_broker.claim_row
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = effect_broker, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
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

-- Stop every dispatch claim.
CREATE FUNCTION effect_broker.hold_dispatch(p_reason text) RETURNS void
LANGUAGE sql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
AS $$
    UPDATE ledger_control
    SET dispatch_held = true, reason = p_reason, since = clock_timestamp()
    WHERE NOT dispatch_held
$$;

-- Let dispatch go on, and take the timeline as it is now for the one to watch.
CREATE FUNCTION effect_broker.release_dispatch(p_actor text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
AS $$
BEGIN
    UPDATE ledger_control
    SET dispatch_held = false, released_by = p_actor, released_at = clock_timestamp(),
        timeline = CASE WHEN timeline IS NOT NULL THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END
    WHERE dispatch_held;
    RETURN FOUND;
END
$$;

-- Where the engine tells its timeline (Aurora's storage does not lose commits in a failover, and may not), watch it.
DO $$
BEGIN
    UPDATE effect_broker.ledger_control SET timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8);
EXCEPTION WHEN OTHERS THEN
    NULL;
END
$$;
