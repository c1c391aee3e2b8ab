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

-- What stands under an operation key. A new row carries no intent back: the caller has it.
CREATE TYPE effect_broker.reserved_row AS (
    created boolean,
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
    shown_status text,
    shown_version integer,
    updated_at timestamptz
);

-- The settings of this step and of every other: a plan that is made once and kept, along indexes only. With a LIMIT from a
-- parameter the planner would plan anew at each call (0.4 ms), left alone it would keep a bad plan (13 ms), and what it
-- thinks a forbidden scan costs would start the compiler. They are the function's own: no session state is left.

-- Reserve intents, in their order, which callers keep sorted by key: two batches then wait for each other in one order.
-- `created` where the effect is the caller's own, also when the call is repeated after an unknown commit. A replay or a
-- conflict writes nothing.
CREATE FUNCTION effect_broker.reserve(p_intents effect_broker.new_intent[]) RETURNS SETOF effect_broker.reserved_row
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
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

-- Intent, first event and work row of an intent whose key was won. The tenant is checked here, not by a foreign key.
CREATE FUNCTION effect_broker.store_intent(p_intent effect_broker.new_intent) RETURNS timestamptz
LANGUAGE plpgsql AS $$
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
