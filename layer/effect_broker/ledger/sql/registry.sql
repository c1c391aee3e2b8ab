-- name: tenant
-- By slug or by id; whichever is not asked for is NULL.
SELECT t.tenant_id, t.slug, t.name, t.hmac_key_id, t.disabled_at IS NOT NULL AS disabled
FROM effect_broker.tenants t
WHERE t.slug = %(slug)s::text OR t.tenant_id = %(tenant_id)s::uuid;

-- name: tenants
-- Few rows, read by operators.
SELECT t.tenant_id, t.slug, t.name, t.hmac_key_id, t.disabled_at IS NOT NULL AS disabled
FROM effect_broker.tenants t
ORDER BY t.slug;

-- name: create_tenant
-- The slug decides: a second creation returns the first.
SELECT (r.stored).tenant_id, (r.stored).slug, (r.stored).name, (r.stored).hmac_key_id,
    (r.stored).disabled_at IS NOT NULL AS disabled, r.created
FROM effect_broker.create_tenant(
    %(tenant_id)s::uuid, %(slug)s::text, %(name)s::text, %(hmac_key_id)s::text
) r;

-- name: set_disabled
-- Disabling stops new reservations and keys; what runs goes on to its end.
SELECT set_tenant_disabled AS found
FROM effect_broker.set_tenant_disabled(%(tenant_id)s::uuid, %(disabled)s::boolean);

-- name: set_hmac_key
-- The key is declared in the same commit: from then on no keyring may lack it.
SELECT set_tenant_hmac_key AS found
FROM effect_broker.set_tenant_hmac_key(%(tenant_id)s::uuid, %(hmac_key_id)s::text);

-- name: add_key
-- Only the hash of the secret ever arrives here.
SELECT effect_broker.add_api_key(
    %(tenant_id)s::uuid, %(key_id)s::text, %(secret_hash)s::bytea, %(scopes)s::text[], %(lifetime_ms)s::bigint
);

-- name: rotate_key
-- The new key and the old one's end are one commit; NULL where the old one is not alive.
SELECT rotate_api_key AS old_key_ends_at FROM effect_broker.rotate_api_key(
    %(key_id)s::text, %(new_key_id)s::text, %(secret_hash)s::bytea, %(lifetime_ms)s::bigint, %(overlap_ms)s::bigint
);

-- name: keys
-- Whose keys there are, dead ones too; their hashes are not read.
SELECT k.key_id, t.slug, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.last_used_at,
    CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked' WHEN k.expires_at <= clock_timestamp() THEN 'expired'
        WHEN t.disabled_at IS NOT NULL THEN 'tenant_disabled' ELSE 'live' END AS state
FROM effect_broker.api_keys k
JOIN effect_broker.tenants t ON t.tenant_id = k.tenant_id
WHERE %(tenant_id)s::uuid IS NULL OR k.tenant_id = %(tenant_id)s::uuid
ORDER BY t.slug, k.created_at, k.key_id;

-- name: key
-- A dead key and a disabled tenant are absent: no caller can forget to ask.
SELECT k.key_id, k.tenant_id, t.slug, k.scopes, k.secret_hash
FROM effect_broker.api_keys k
JOIN effect_broker.tenants t ON t.tenant_id = k.tenant_id
WHERE k.key_id = %(key_id)s::text AND k.revoked_at IS NULL AND t.disabled_at IS NULL
    AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp());

-- name: note_key_use
-- Once an hour for each key, whoever asks.
SELECT note_api_key_use AS noted FROM effect_broker.note_api_key_use(%(key_id)s::text);

-- name: revoke_key
-- The first revocation stands.
SELECT revoke_api_key AS found FROM effect_broker.revoke_api_key(%(key_id)s::text);

-- name: publish
-- The row's own digest comes back: another one than the caller's is a conflict.
SELECT * FROM effect_broker.publish_contract(
    %(tool)s::text, %(name)s::text, %(version)s::text, %(document)s::bytea, %(digest)s::bytea, %(safety)s::text,
    %(attempt_ms)s::bigint, %(probe_ms)s::bigint, %(lease_ms)s::bigint, %(settlement_ms)s::bigint, %(retention_ms)s::bigint,
    %(submit_ms)s::bigint
);

-- name: contracts
-- Few rows; a process reads them at start and when it meets an unknown id.
SELECT c.contract_id, c.document, c.digest, r.contract_id IS NOT NULL AS active
FROM effect_broker.contracts c
LEFT JOIN effect_broker.contract_routes r ON r.tool = c.tool AND r.contract_id = c.contract_id
ORDER BY c.contract_id;
