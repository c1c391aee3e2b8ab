-- Operators' writes to the registry, as functions: the application holds no right on the tables but to read them.

-- Before anything stands under a key: readers of ledger_keys then know of every key that something may stand under.
CREATE FUNCTION effect_broker.declare_key(p_kind text, p_key_id text) RETURNS void
LANGUAGE sql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
AS $$
    INSERT INTO ledger_keys (kind, key_id) VALUES (p_kind, p_key_id) ON CONFLICT DO NOTHING
$$;

CREATE FUNCTION effect_broker.create_tenant(
    p_tenant_id uuid, p_slug text, p_name text, p_hmac_key_id text, OUT stored effect_broker.tenants, OUT created boolean
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
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

-- New effects derive their downstream keys from it; those that are reserved keep theirs, and the key that made it.
CREATE FUNCTION effect_broker.set_tenant_hmac_key(p_tenant_id uuid, p_hmac_key_id text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
AS $$
BEGIN
    PERFORM declare_key('hmac', p_hmac_key_id);
    UPDATE tenants SET hmac_key_id = p_hmac_key_id WHERE tenant_id = p_tenant_id;
    RETURN FOUND;
END
$$;

CREATE FUNCTION effect_broker.set_tenant_disabled(p_tenant_id uuid, p_disabled boolean) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
AS $$
BEGIN
    UPDATE tenants
    SET disabled_at = CASE WHEN p_disabled THEN coalesce(disabled_at, clock_timestamp()) END
    WHERE tenant_id = p_tenant_id;
    RETURN FOUND;
END
$$;

CREATE FUNCTION effect_broker.add_api_key(
    p_tenant_id uuid, p_key_id text, p_secret_hash bytea, p_scopes text[], p_lifetime_ms bigint
) RETURNS void
LANGUAGE sql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
AS $$
    INSERT INTO api_keys (key_id, tenant_id, secret_hash, scopes, expires_at)
    VALUES (p_key_id, p_tenant_id, p_secret_hash, p_scopes, clock_timestamp() + milliseconds(p_lifetime_ms))
$$;

-- Another key takes a live key's place; for the overlap both open, or shorter where the old one ends before. NULL: there
-- is no such live key. The same writing again changes nothing.
CREATE FUNCTION effect_broker.rotate_api_key(
    p_key_id text, p_new_key_id text, p_secret_hash bytea, p_lifetime_ms bigint, p_overlap_ms bigint
) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
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

-- The first revocation stands: its instant is evidence.
CREATE FUNCTION effect_broker.revoke_api_key(p_key_id text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
AS $$
BEGIN
    UPDATE api_keys SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE key_id = p_key_id;
    RETURN FOUND;
END
$$;

-- A use within the hour of the last one that was noted writes nothing.
CREATE FUNCTION effect_broker.note_api_key_use(p_key_id text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
AS $$
BEGIN
    UPDATE api_keys k SET last_used_at = clock_timestamp()
    WHERE k.key_id = p_key_id
        AND (k.last_used_at IS NULL OR k.last_used_at < clock_timestamp() - interval '1 hour');
    RETURN FOUND;
END
$$;

-- Add a contract version or return the equal one, and route its tool to it. One with another digest changes nothing:
-- the caller sees it and refuses.
CREATE FUNCTION effect_broker.publish_contract(
    p_tool text, p_name text, p_version text, p_document bytea, p_digest bytea, p_safety text, p_attempt_ms bigint,
    p_probe_ms bigint, p_lease_ms bigint, p_settlement_ms bigint, p_retention_ms bigint, p_submit_ms bigint,
    OUT contract_id integer, OUT digest bytea, OUT created boolean
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = effect_broker, pg_temp
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
