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

-- An archived effect: enough to answer a replay, a conflict and a question for its receipt.
CREATE TABLE effect_broker.effect_tombstones (
    effect_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    archived_at timestamptz NOT NULL,
    contract_id integer NOT NULL,
    version integer NOT NULL,
    status effect_broker.effect_status NOT NULL CHECK (status IN ('succeeded', 'failed_final', 'compensated')),
    request_hash effect_broker.sha256_digest NOT NULL,
    operation_key varchar(255) NOT NULL,
    downstream_key varchar(255) NOT NULL,
    hmac_key_id varchar(64) NOT NULL,
    requested_by varchar(1024),
    trace_id varchar(256),
    last_metadata varchar(65536) NOT NULL,
    receipt_id uuid NOT NULL,
    kind effect_broker.effect_status NOT NULL,
    source varchar(64) NOT NULL,
    reason varchar(4096) NOT NULL,
    external_id varchar(4096),
    flags text[] NOT NULL,
    target_time timestamptz,
    receipt_created_at timestamptz NOT NULL,
    evidence_digest effect_broker.sha256_digest,
    downstream_key_digest bytea NOT NULL,
    digest bytea NOT NULL,
    head bytea NOT NULL,
    PRIMARY KEY (effect_id)
);

CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON effect_broker.effect_tombstones
    FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change();
CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.effect_tombstones
    FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change();

-- One effect, or its tombstone, or nulls. Simple statements by the id itself: the server keeps their plans, and the months
-- that cannot hold it are left out before anything is opened. Being stable it sees one snapshot, whoever writes meanwhile.
CREATE FUNCTION effect_broker.standing_of(p_tenant_id uuid, p_effect_id uuid) RETURNS effect_broker.effects
LANGUAGE plpgsql STABLE AS $$
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

CREATE FUNCTION effect_broker.tombstone_of(p_tenant_id uuid, p_effect_id uuid) RETURNS effect_broker.effects
LANGUAGE plpgsql STABLE AS $$
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

-- The same by id or by key, with plans that the server keeps: planning takes longer than looking.
CREATE FUNCTION effect_broker.look_up(p_tenant_id uuid, p_effect_id uuid) RETURNS SETOF effect_broker.effects
LANGUAGE plpgsql STABLE ROWS 1
SET search_path = effect_broker, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_found effects := standing_of(p_tenant_id, p_effect_id);
BEGIN
    IF v_found.effect_id IS NOT NULL THEN
        RETURN NEXT v_found;
    END IF;
END
$$;

CREATE FUNCTION effect_broker.look_up_key(p_tenant_id uuid, p_operation_key text) RETURNS SETOF effect_broker.effects
LANGUAGE plpgsql STABLE ROWS 1
SET search_path = effect_broker, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
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
