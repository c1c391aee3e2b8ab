-- What old effects leave behind: payloads are pruned, months are archived and dropped; identity never goes.

-- The lowest id that can be made at an instant.
CREATE FUNCTION effect_broker.first_id_at(p_at timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM p_at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

CREATE FUNCTION effect_broker.month_start(p_month date) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT effect_broker.first_id_at(date_trunc('month', p_month::timestamp) AT TIME ZONE 'UTC')
$$;

CREATE FUNCTION effect_broker.partitioned_tables() RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY['effect_intents', 'effect_attempts', 'effect_attempt_endings', 'effect_events', 'effect_receipts']
$$;

-- Make this month's partitions and the next ones. A month that effects of the default partition lie in already is left
-- there: it stays correct, it only cannot be dropped.
CREATE FUNCTION effect_broker.make_partitions(p_months_ahead integer) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
SET lock_timeout = '3s'
AS $$
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
$$;

DO $$
DECLARE
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY effect_broker.partitioned_tables() LOOP
        EXECUTE 'CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.' || quote_ident(v_table || '_default')
            || ' FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change()';
    END LOOP;
END
$$;

-- Leave a tombstone of every effect of a month and detach its partitions. Refused while one of them is live or has an
-- unanswered callback: its history is still needed. Returns how many effects were archived.
CREATE FUNCTION effect_broker.archive_month(p_month date) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
SET lock_timeout = '3s'
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

-- Drop a month that was archived; every effect in it must have its tombstone.
CREATE FUNCTION effect_broker.drop_archived_month(p_month date) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
SET lock_timeout = '3s'
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

-- Forget the payloads of effects that ended long ago, some at a time: arguments, preview, results. What a replay or a
-- conflict compares stays. Returns how many were pruned and where to go on; NULL at the end.
CREATE FUNCTION effect_broker.prune_payloads(
    p_age_ms bigint, p_after uuid, p_limit integer, OUT pruned bigint, OUT last_effect_id uuid
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
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

-- Fences settle a commit within moments; a day keeps them well past every connection.
CREATE FUNCTION effect_broker.forget_fences(p_limit integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
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

CREATE TYPE effect_broker.sealed_row AS (
    place text,
    effect_id uuid,
    detail text,
    tenant_id uuid,
    ciphertext bytea,
    data_key_id varchar
);

-- Whose an effect is: live, ended and archived ones each have a row that says so.
CREATE FUNCTION effect_broker.tenant_of(p_effect_id uuid) RETURNS uuid
LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT w.tenant_id FROM effect_broker.effect_work w WHERE w.effect_id = p_effect_id),
        (SELECT r.tenant_id FROM effect_broker.effect_receipts r WHERE r.effect_id = p_effect_id),
        (SELECT t.tenant_id FROM effect_broker.effect_tombstones t WHERE t.effect_id = p_effect_id)
    )
$$;

-- Sealed values of one kind under any key but the named one, some at a time, along the primary key behind p_after.
CREATE FUNCTION effect_broker.sealed_under_other_keys(
    p_place text, p_data_key_id text, p_after effect_broker.sealed_row, p_limit integer
) RETURNS SETOF effect_broker.sealed_row
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = effect_broker, pg_temp
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

-- Put values sealed anew in the places of those that were read; returns how many. One that changed meanwhile, was pruned
-- or is gone is passed over.
CREATE FUNCTION effect_broker.reseal(
    p_old effect_broker.sealed_row[], p_ciphertexts bytea[], p_data_key_id text
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
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

-- Forget keys of a kind but those to keep: the caller has looked, and nothing stands under them. Returns the forgotten.
CREATE FUNCTION effect_broker.retire_keys(p_kind text, p_keep text[]) RETURNS SETOF text
LANGUAGE sql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
AS $$
    DELETE FROM ledger_keys k WHERE k.kind = p_kind AND k.key_id <> ALL (p_keep) RETURNING k.key_id
$$;
