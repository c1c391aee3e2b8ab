-- What operators write, once each.

CREATE TYPE effect_broker.decision AS (
    decision_id text,
    decision text,
    actor text,
    observed_at timestamptz,
    sealed bytea,
    data_key_id text
);

-- The version that an earlier writing of this decision made. The work row is locked first, so that two writings of one
-- decision follow each other.
CREATE FUNCTION effect_broker.decided_version(p_tenant_id uuid, p_effect_id uuid, p_decision_id text) RETURNS integer
LANGUAGE plpgsql AS $$
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

CREATE FUNCTION effect_broker.store_decision(
    p_effect_id uuid, p_version integer, p_decision effect_broker.decision
) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO effect_broker.effect_resolutions (
        effect_id, decision_id, decision, actor, observed_at, decided_at, version, sealed, data_key_id
    )
    VALUES (
        p_effect_id, p_decision.decision_id, p_decision.decision, p_decision.actor, p_decision.observed_at,
        clock_timestamp(), p_version, p_decision.sealed, p_decision.data_key_id
    )
$$;

CREATE FUNCTION effect_broker.resolve_finish(
    p_step effect_broker.finishing, p_decision effect_broker.decision
) RETURNS effect_broker.step_row
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
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

CREATE FUNCTION effect_broker.resolve_defer(
    p_step effect_broker.deferral, p_decision effect_broker.decision
) RETURNS effect_broker.step_row
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
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

-- Link a succeeded effect to the succeeded effect that compensates it; the same link again is the same. Whatever
-- compensates stands as succeeded, not as compensated: so no chain of links can close. One link of a tenant at a time.
-- Who names the version that the link is meant for links no other.
CREATE FUNCTION effect_broker.compensate(
    p_tenant_id uuid, p_effect_id uuid, p_compensated_by uuid, p_actor text, p_reason_ciphertext bytea,
    p_data_key_id text, p_expected_version integer, OUT outcome text, OUT version integer
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
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
