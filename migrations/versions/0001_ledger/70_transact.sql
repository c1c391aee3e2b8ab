-- The row of a standing claim, locked until the caller's transaction ends; none where the claim is lost. A transactional
-- mutation asks for it first: whoever would settle the effect meanwhile waits or passes by, so that a mutation and the
-- loss of its claim exclude each other. After a lost COMMIT the same question waits for the old transaction's end.
CREATE FUNCTION effect_broker.lock_claim(p_effect_id uuid, p_tenant_id uuid, p_token uuid)
RETURNS SETOF effect_broker.effect_work
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
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

GRANT EXECUTE ON FUNCTION effect_broker.lock_claim(uuid, uuid, uuid) TO effect_broker_app;
