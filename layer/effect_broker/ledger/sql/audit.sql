-- name: audited
-- Every effect of a contract's versions that was first sent in a window, with the keys that its attempts may have carried.
-- An effect is sent after it was made, so that the ids bound what is read from below and above.
SELECT e.effect_id, t.slug AS tenant, e.operation_key, e.shown_status,
    coalesce(e.unknown_since IS NOT NULL OR e.unproven > 0, false) AS unknown,
    array_cat(
        ARRAY[e.downstream_key],
        (SELECT array_agg(g.downstream_key) FROM effect_broker.effect_key_generations g WHERE g.effect_id = e.effect_id)
    ) AS downstream_keys,
    r.external_id, a.first_started_at,
    greatest(
        e.settlement_at, a.last_deadline + %(settlement_ms)s::bigint * interval '1 millisecond'
    ) AS last_settled_at
FROM effect_broker.contracts c
JOIN effect_broker.effects e ON e.contract_id = c.contract_id
JOIN effect_broker.tenants t ON t.tenant_id = e.tenant_id
LEFT JOIN effect_broker.effect_receipts r ON r.effect_id = e.effect_id
CROSS JOIN LATERAL (
    SELECT min(s.started_at) AS first_started_at, max(s.send_deadline) AS last_deadline
    FROM effect_broker.effect_attempts s
    WHERE s.effect_id = e.effect_id
) a
WHERE c.name = %(name)s::text
    AND a.first_started_at BETWEEN %(sent_after)s::timestamptz AND %(sent_before)s::timestamptz
ORDER BY e.effect_id;
