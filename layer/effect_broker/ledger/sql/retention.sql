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
-- What stands attached, and what waits archived; the statistics know about how many effects, the work how many are live.
WITH standing AS (
    SELECT to_date(right(c.relname, 7), 'YYYY_MM') AS month, n.nspname = 'effect_broker_archive' AS archived,
        nullif(c.reltuples, -1)::bigint AS effects, c.relnamespace, right(c.relname, 8) AS suffix
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname IN ('effect_broker', 'effect_broker_archive') AND c.relkind = 'r'
        AND c.relname ~ '^effect_intents_[0-9]{4}_[0-9]{2}$'
)
SELECT s.month, s.archived, s.effects, b.bytes, w.live,
    s.month + interval '1 month' <= clock_timestamp() AT TIME ZONE 'UTC' AS over
FROM standing s
CROSS JOIN LATERAL (
    SELECT sum(pg_total_relation_size(t.oid))::bigint AS bytes
    FROM pg_class t
    WHERE t.relnamespace = s.relnamespace AND t.relkind = 'r' AND right(t.relname, 8) = s.suffix
) b
CROSS JOIN LATERAL (
    SELECT count(*) AS live FROM (
        SELECT FROM effect_broker.effect_work w
        WHERE w.effect_id >= effect_broker.month_start(s.month)
            AND w.effect_id < effect_broker.month_start((s.month + interval '1 month')::date)
        LIMIT %(live_max)s::integer
    ) l
) w
ORDER BY 1;

-- name: strays
-- Effects of months that had no partition when they came: they are correct, and cannot be archived.
SELECT count(*) AS strays FROM (
    SELECT FROM effect_broker.effect_intents_default LIMIT %(limit)s::integer
) s;

-- name: prunable
-- What prune_payloads would forget, along the same rows.
WITH ended AS MATERIALIZED (
    SELECT r.effect_id, r.tenant_id, r.created_at, octet_length(r.result_ciphertext) AS bytes
    FROM effect_broker.effect_receipts r
    WHERE r.effect_id > coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000')
        AND r.effect_id < effect_broker.first_id_at(
            clock_timestamp() - effect_broker.milliseconds(%(age_ms)s::bigint) + interval '1 day'
        )
    ORDER BY r.effect_id
    LIMIT %(limit)s::integer
)
SELECT count(i.effect_id) AS effects, coalesce(sum(octet_length(i.arguments_ciphertext) + coalesce(e.bytes, 0)), 0)::bigint AS bytes,
    (SELECT max(n.effect_id::text)::uuid FROM ended n) AS last_effect_id
FROM ended e
JOIN effect_broker.effect_intents i ON i.tenant_id = e.tenant_id AND i.effect_id = e.effect_id
WHERE i.arguments_ciphertext IS NOT NULL
    AND e.created_at < clock_timestamp() - effect_broker.milliseconds(%(age_ms)s::bigint);

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
    %(old)s::effect_broker.sealed_row[], %(ciphertexts)s::bytea[], %(data_key_id)s::text
) AS resealed;

-- name: sealed_by_key
-- What a rotation has left, over everything that is not archived.
SELECT u.data_key_id AS key_id, u.place, count(*) AS sealed FROM (
    SELECT 'arguments' AS place, data_key_id FROM effect_broker.effect_intents WHERE arguments_ciphertext IS NOT NULL
    UNION ALL
    SELECT 'receipt', data_key_id FROM effect_broker.effect_receipts WHERE result_ciphertext IS NOT NULL
    UNION ALL
    SELECT 'ending', data_key_id FROM effect_broker.effect_attempt_endings WHERE result_ciphertext IS NOT NULL
    UNION ALL
    SELECT 'resolution', data_key_id FROM effect_broker.effect_resolutions
    UNION ALL
    SELECT 'compensation', data_key_id FROM effect_broker.effect_compensations
    UNION ALL
    SELECT 'callback', data_key_id FROM effect_broker.effect_callbacks
) u
GROUP BY 1, 2
ORDER BY 1, 2;

-- name: hmac_keys_in_use
-- What new effects of each tenant derive from, and what a live effect might derive another generation from.
SELECT t.hmac_key_id AS key_id FROM effect_broker.tenants t
UNION
SELECT i.hmac_key_id FROM effect_broker.effect_work w
JOIN effect_broker.effect_intents i ON i.tenant_id = w.tenant_id AND i.effect_id = w.effect_id;
