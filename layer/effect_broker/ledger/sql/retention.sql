-- name: make_partitions
-- Attached beside running work; what stands already is left alone.
SELECT make_partitions AS partition FROM effect_broker.make_partitions(%(months_ahead)s::integer);

-- name: archive_month
-- Refused while an effect of the month is live.
SELECT effect_broker.archive_month(%(month)s::date) AS archived;

-- name: drop_archived_month
-- Refused while an effect of the month has no tombstone.
SELECT effect_broker.drop_archived_month(%(month)s::date);

-- name: months
-- What stands attached, and what waits archived.
SELECT to_date(right(c.relname, 7), 'YYYY_MM') AS month, n.nspname = 'effect_broker_archive' AS archived
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('effect_broker', 'effect_broker_archive') AND c.relkind = 'r'
    AND c.relname ~ '^effect_intents_[0-9]{4}_[0-9]{2}$'
ORDER BY 1;

-- name: prune_payloads
-- Some at a time, along the receipts: the caller goes on behind the last one.
SELECT p.pruned, p.last_effect_id
FROM effect_broker.prune_payloads(%(age_ms)s::bigint, %(after)s::uuid, %(limit)s::integer) p;

-- name: forget_fences
-- A fence settles its commit within moments.
SELECT effect_broker.forget_fences(%(limit)s::integer) AS forgotten;

-- name: sealed_under_other_keys
-- What a rotation has still to seal anew, along the primary key of each place.
SELECT s.* FROM effect_broker.sealed_under_other_keys(
    %(place)s::text, %(data_key_id)s::text, %(after)s::effect_broker.sealed_row, %(limit)s::integer
) s;

-- name: reseal
-- Compare-and-swap on the ciphertext that was read.
SELECT effect_broker.reseal(
    %(old)s::effect_broker.sealed_row, %(ciphertext)s::bytea, %(data_key_id)s::text
) AS resealed;

-- name: keys_in_use
-- A key may be dropped once nothing stands under it.
SELECT 'data' AS kind, u.data_key_id AS key_id FROM (
    SELECT data_key_id FROM effect_broker.effect_intents WHERE arguments_ciphertext IS NOT NULL
    UNION SELECT data_key_id FROM effect_broker.effect_receipts WHERE result_ciphertext IS NOT NULL
    UNION SELECT data_key_id FROM effect_broker.effect_attempt_endings WHERE result_ciphertext IS NOT NULL
    UNION SELECT data_key_id FROM effect_broker.effect_resolutions
    UNION SELECT data_key_id FROM effect_broker.effect_callbacks
    UNION SELECT data_key_id FROM effect_broker.effect_compensations
) u
UNION ALL
SELECT 'hmac', t.hmac_key_id FROM (
    SELECT hmac_key_id FROM effect_broker.tenants
    UNION
    SELECT i.hmac_key_id FROM effect_broker.effect_work w
    JOIN effect_broker.effect_intents i ON i.tenant_id = w.tenant_id AND i.effect_id = w.effect_id
) t
ORDER BY 1, 2;
