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

-- An effect as it stands: compensation over terminal row over work row; the last event says since when and why.
CREATE VIEW effect_broker.effects AS
SELECT
    i.effect_id, i.tenant_id, i.operation_key, c.tool, i.request_hash, i.contract_id,
    c.name AS contract_name, c.version AS contract_version, c.safety::text AS safety,
    i.downstream_key, i.hmac_key_id, i.arguments_ciphertext, i.data_key_id, i.preview, i.requested_by, i.trace_id,
    i.created_at AS intent_created_at,
    CASE
        WHEN w.effect_id IS NOT NULL THEN w.status::text
        WHEN p.effect_id IS NOT NULL THEN 'compensated'
        ELSE r.kind::text
    END AS shown_status,
    e.sequence AS shown_version, e.at AS updated_at, e.metadata AS last_metadata,
    w.effect_id IS NOT NULL AS live, w.lane, r.kind::text AS receipt_kind, p.compensated_by,
    w.status::text AS status, w.version, w.attempts, w.unproven, w.proven_through, w.rejections, w.retries,
    w.redispatches, w.probes, w.key_generation, w.proof_committed, nullif(w.due_at, 'infinity') AS due_at,
    w.settlement_at, w.horizon_at, w.submit_until, w.negative_at, w.unknown_since, w.created_at
FROM effect_broker.effect_intents i
JOIN effect_broker.contracts c ON c.contract_id = i.contract_id
LEFT JOIN effect_broker.effect_work w ON w.effect_id = i.effect_id AND w.tenant_id = i.tenant_id
LEFT JOIN effect_broker.effect_receipts r ON r.effect_id = i.effect_id AND r.tenant_id = i.tenant_id
LEFT JOIN effect_broker.effect_compensations p ON p.effect_id = i.effect_id AND p.tenant_id = i.tenant_id
CROSS JOIN LATERAL (
    SELECT v.sequence, v.at, v.metadata
    FROM effect_broker.effect_events v
    WHERE v.effect_id = i.effect_id
    ORDER BY v.sequence DESC
    LIMIT 1
) e;

-- What stands under each operation key. `created` where it is the caller's own effect, also when the call is repeated
-- after an unknown commit. A new row carries no intent back: the caller has it.
CREATE FUNCTION effect_broker.reserve(p_intents effect_broker.new_intent[])
RETURNS TABLE (
    place bigint, created boolean, ledger_now timestamptz, stands effect_broker.effects
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_pending effect_broker.new_intent[] := p_intents;
    v_new uuid[];
    v_created bigint := 0;
    v_stored bigint;
    v_now timestamptz := clock_timestamp();
BEGIN
    LOOP
        -- Sorted, so that two batches with the same keys wait in one order. A conflict waits for the other transaction
        -- to end and then writes nothing.
        WITH won AS (
            INSERT INTO effect_keys (tenant_id, key_digest, effect_id, request_hash, operation_key)
            SELECT n.tenant_id, sha256(convert_to(n.operation_key, 'UTF8')) AS key_digest, n.effect_id, n.request_hash,
                n.operation_key
            FROM unnest(v_pending) n
            ORDER BY 1, 2
            ON CONFLICT DO NOTHING
            RETURNING effect_keys.effect_id
        )
        SELECT array_agg(won.effect_id) INTO v_new FROM won;
        IF v_new IS NOT NULL THEN
            v_now := clock_timestamp();
            PERFORM store_new_intents(v_pending, v_new, v_now);
            v_created := v_created + cardinality(v_new);
            IF v_created = cardinality(p_intents) THEN
                RETURN QUERY
                SELECT n.place, true, v_now, NULL::effect_broker.effects
                FROM generate_series(1::bigint, v_created) AS n (place);
                RETURN;
            END IF;
        END IF;
        -- A new statement has a new snapshot: it sees the winner, unless the winner rolled back; then the key is free.
        SELECT array_agg(n) INTO v_pending
        FROM unnest(v_pending) n
        WHERE NOT EXISTS (
            SELECT FROM effect_keys k
            WHERE k.tenant_id = n.tenant_id AND k.key_digest = sha256(convert_to(n.operation_key, 'UTF8'))
        );
        EXIT WHEN v_pending IS NULL;
    END LOOP;
    RETURN QUERY
    SELECT n.place, e.effect_id = n.effect_id, v_now, e
    FROM unnest(p_intents) WITH ORDINALITY AS n (
        effect_id, tenant_id, operation_key, request_hash, contract_id, downstream_key, hmac_key_id, data_key_id,
        requested_by, trace_id, preview, arguments_ciphertext, place
    )
    JOIN effect_keys k
        ON k.tenant_id = n.tenant_id AND k.key_digest = sha256(convert_to(n.operation_key, 'UTF8'))
    JOIN effects e ON e.tenant_id = k.tenant_id AND e.effect_id = k.effect_id;
    GET DIAGNOSTICS v_stored = ROW_COUNT;
    IF v_stored <> cardinality(p_intents) THEN
        RAISE EXCEPTION USING ERRCODE = 'EB004', MESSAGE = 'A reserved key has no effect behind it.';
    END IF;
END
$$;

-- Intent, work row and first event of the intents whose keys were won. The tenant is checked here, not by a foreign key.
CREATE FUNCTION effect_broker.store_new_intents(
    p_intents effect_broker.new_intent[], p_won uuid[], p_now timestamptz
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_stored bigint;
BEGIN
    WITH fresh AS MATERIALIZED (
        SELECT n.*, coalesce(n.requested_by, 'caller') AS actor,
            effect_broker.event_digest(
                effect_broker.first_head(), n.effect_id, 1, p_now, 'EffectReserved', NULL, 'prepared',
                coalesce(n.requested_by, 'caller'), '{}'
            ) AS head
        FROM unnest(p_intents) n
        WHERE n.effect_id = ANY (p_won)
    ), intent AS (
        INSERT INTO effect_broker.effect_intents (
            effect_id, tenant_id, created_at, contract_id, request_hash, operation_key, downstream_key, hmac_key_id,
            data_key_id, requested_by, trace_id, preview, arguments_ciphertext
        )
        SELECT n.effect_id, n.tenant_id, p_now, n.contract_id, n.request_hash, n.operation_key, n.downstream_key,
            n.hmac_key_id, n.data_key_id, n.requested_by, n.trace_id, n.preview, n.arguments_ciphertext
        FROM fresh n
    ), event AS (
        INSERT INTO effect_broker.effect_events (
            effect_id, at, sequence, type, old_status, new_status, actor, metadata, previous_digest, digest
        )
        SELECT n.effect_id, p_now, 1, 'EffectReserved', NULL, 'prepared', n.actor, '{}', effect_broker.first_head(),
            n.head
        FROM fresh n
    )
    INSERT INTO effect_broker.effect_work (
        effect_id, tenant_id, created_at, last_event_at, due_at, submit_until, status, contract_id, version, head
    )
    SELECT n.effect_id, n.tenant_id, p_now, p_now, p_now, p_now + effect_broker.milliseconds(c.submit_ms), 'prepared',
        n.contract_id, 1, n.head
    FROM fresh n
    JOIN effect_broker.contracts c ON c.contract_id = n.contract_id
    JOIN effect_broker.tenants t ON t.tenant_id = n.tenant_id AND t.disabled_at IS NULL;
    GET DIAGNOSTICS v_stored = ROW_COUNT;
    IF v_stored <> cardinality(p_won) THEN
        RAISE EXCEPTION USING ERRCODE = 'EB005',
            MESSAGE = 'The tenant is unknown or disabled, or the contract is not published.';
    END IF;
END
$$;
