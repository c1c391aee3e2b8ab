-- Callers that wait for an effect by a task token: answered once it is settled, or once only a person can move it.

-- Whether the broker goes on with a live effect by itself.
CREATE FUNCTION effect_broker.goes_on(
    p_status effect_broker.effect_status, p_due_at timestamptz, p_proof_committed boolean
) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_proof_committed
        OR NOT (p_status = 'manual_review' OR (p_status = 'outcome_unknown' AND p_due_at = 'infinity'))
$$;

-- The same token again is the same callback. Returns whether it can be answered now.
CREATE FUNCTION effect_broker.keep_callback(
    p_tenant_id uuid, p_effect_id uuid, p_callback_id uuid, p_sealed bytea, p_data_key_id text
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
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

-- Take callbacks that can be answered: of the named effects, or all that are due. Whoever took one and did not end it
-- has a lease; then the next one answers it again. One that cannot be answered yet is looked at later.
CREATE FUNCTION effect_broker.claim_callbacks(p_token uuid, p_limit integer, p_effect_ids uuid[])
RETURNS TABLE (
    effect_id uuid, callback_id uuid, tenant_id uuid, sealed bytea, data_key_id text, deliveries integer
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
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

-- Forget a callback that was answered, or that nobody waits for any more.
CREATE FUNCTION effect_broker.end_callback(p_effect_id uuid, p_callback_id uuid, p_token uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
AS $$
BEGIN
    DELETE FROM effect_callbacks c
    WHERE c.effect_id = p_effect_id AND c.callback_id = p_callback_id AND c.token = p_token;
    RETURN FOUND;
END
$$;
