-- Digests over encodings in which every field has a fixed width or carries its length: no two events share one.

CREATE FUNCTION effect_broker.framed(p_text text) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_text IS NULL THEN '\xffffffff'::bytea
                ELSE int4send(octet_length(p_text)) || convert_to(p_text, 'UTF8') END
$$;

CREATE FUNCTION effect_broker.framed(p_bytes bytea) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_bytes IS NULL THEN '\xffffffff'::bytea
                ELSE int4send(octet_length(p_bytes)) || p_bytes END
$$;

CREATE FUNCTION effect_broker.first_head() RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT '\x0000000000000000000000000000000000000000000000000000000000000000'::bytea
$$;

CREATE FUNCTION effect_broker.event_digest(
    p_previous bytea, p_effect_id uuid, p_sequence integer, p_at timestamptz, p_type effect_broker.event_type,
    p_old effect_broker.effect_status, p_new effect_broker.effect_status, p_actor text, p_metadata text
) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sha256(
        p_previous || uuid_send(p_effect_id) || int4send(p_sequence) || timestamptz_send(p_at)
        || effect_broker.framed(p_type::text) || effect_broker.framed(p_old::text)
        || effect_broker.framed(p_new::text) || effect_broker.framed(p_actor) || effect_broker.framed(p_metadata)
    )
$$;

-- The sealed result stays outside: it authenticates itself, may be sealed anew under another key, and may be pruned.
CREATE FUNCTION effect_broker.receipt_digest(
    p_receipt_id uuid, p_effect_id uuid, p_tenant_id uuid, p_contract_id integer, p_created_at timestamptz,
    p_target_time timestamptz, p_kind effect_broker.effect_status, p_source text, p_reason text, p_external_id text,
    p_flags text[], p_evidence_digest bytea, p_downstream_key_digest bytea
) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sha256(
        uuid_send(p_receipt_id) || uuid_send(p_effect_id) || uuid_send(p_tenant_id) || int4send(p_contract_id)
        || timestamptz_send(p_created_at)
        || effect_broker.framed(timestamptz_send(p_target_time)) || effect_broker.framed(p_kind::text)
        || effect_broker.framed(p_source) || effect_broker.framed(p_reason) || effect_broker.framed(p_external_id)
        || effect_broker.framed(array_to_string(p_flags, chr(10))) || effect_broker.framed(p_evidence_digest)
        || effect_broker.framed(p_downstream_key_digest)
    )
$$;

-- The first and the last of some ids: asked for between them, a partitioned table opens their months only.
CREATE FUNCTION effect_broker.id_range(p_ids uuid[], OUT first_id uuid, OUT last_id uuid)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    SELECT (array_agg(i ORDER BY i))[1], (array_agg(i ORDER BY i DESC))[1] INTO first_id, last_id
    FROM unnest(p_ids) i;
END
$$;

CREATE FUNCTION effect_broker.milliseconds(p_ms bigint) RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_ms * interval '1 millisecond'
$$;
