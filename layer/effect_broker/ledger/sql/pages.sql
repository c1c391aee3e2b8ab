-- name: page
-- Along the primary key of the intents, newest first; what is filtered beside it is looked up for each row.
SELECT e.*, greatest(clock_timestamp(), e.updated_at) AS ledger_now
FROM effect_broker.effects e
WHERE e.tenant_id = %(tenant_id)s::uuid
    AND (%(after)s::uuid IS NULL OR e.effect_id < %(after)s::uuid)
    AND (%(status)s::text IS NULL OR e.shown_status = %(status)s::text)
    AND (%(tool)s::text IS NULL OR e.tool = %(tool)s::text)
    AND (%(prefix)s::text IS NULL OR starts_with(e.operation_key, %(prefix)s::text))
    AND (%(older_than_ms)s::bigint IS NULL
        OR e.intent_created_at <= clock_timestamp() - %(older_than_ms)s::bigint * interval '1 millisecond')
ORDER BY e.effect_id DESC
LIMIT %(limit)s::integer;

-- name: page_live
-- A live status lets the planner start from the few rows of its lane.
SELECT e.*, greatest(clock_timestamp(), e.updated_at) AS ledger_now
FROM effect_broker.effects e
WHERE e.tenant_id = %(tenant_id)s::uuid
    AND e.lane = ANY (%(lanes)s::smallint[]) AND e.status = %(status)s::text
    AND (%(after)s::uuid IS NULL OR e.effect_id < %(after)s::uuid)
    AND (%(tool)s::text IS NULL OR e.tool = %(tool)s::text)
    AND (%(prefix)s::text IS NULL OR starts_with(e.operation_key, %(prefix)s::text))
    AND (%(older_than_ms)s::bigint IS NULL
        OR e.intent_created_at <= clock_timestamp() - %(older_than_ms)s::bigint * interval '1 millisecond')
ORDER BY e.effect_id DESC
LIMIT %(limit)s::integer;

-- name: page_failed
-- Failures are few: an index of their own finds them.
SELECT e.*, greatest(clock_timestamp(), e.updated_at) AS ledger_now
FROM effect_broker.effects e
WHERE e.tenant_id = %(tenant_id)s::uuid
    AND e.effect_id IN (
        SELECT r.effect_id FROM effect_broker.effect_receipts r
        WHERE r.tenant_id = %(tenant_id)s::uuid AND r.kind = 'failed_final'
            AND (%(after)s::uuid IS NULL OR r.effect_id < %(after)s::uuid)
    )
    AND (%(tool)s::text IS NULL OR e.tool = %(tool)s::text)
    AND (%(prefix)s::text IS NULL OR starts_with(e.operation_key, %(prefix)s::text))
    AND (%(older_than_ms)s::bigint IS NULL
        OR e.intent_created_at <= clock_timestamp() - %(older_than_ms)s::bigint * interval '1 millisecond')
ORDER BY e.effect_id DESC
LIMIT %(limit)s::integer;

-- name: page_unknown
-- Every effect with an unproved attempt that lapsed, also where nobody has swept its lease yet; the age counts from then.
SELECT e.*, greatest(clock_timestamp(), e.updated_at) AS ledger_now
FROM (
    SELECT w.effect_id, w.unknown_since AS since
    FROM effect_broker.effect_work w
    WHERE w.tenant_id = %(tenant_id)s::uuid AND w.unknown_since IS NOT NULL
    UNION ALL
    SELECT w.effect_id, w.due_at AS since
    FROM effect_broker.effect_work w
    WHERE w.lane = 2 AND w.tenant_id = %(tenant_id)s::uuid AND w.due_at < clock_timestamp()
        AND w.unknown_since IS NULL
) u
JOIN effect_broker.effects e ON e.tenant_id = %(tenant_id)s::uuid AND e.effect_id = u.effect_id
WHERE (%(after)s::uuid IS NULL OR u.effect_id < %(after)s::uuid)
    AND (%(status)s::text IS NULL OR e.shown_status = %(status)s::text)
    AND (%(tool)s::text IS NULL OR e.tool = %(tool)s::text)
    AND (%(prefix)s::text IS NULL OR starts_with(e.operation_key, %(prefix)s::text))
    AND (%(older_than_ms)s::bigint IS NULL
        OR u.since <= clock_timestamp() - %(older_than_ms)s::bigint * interval '1 millisecond')
ORDER BY u.effect_id DESC
LIMIT %(limit)s::integer;

-- name: page_contradicted
-- Terminal effects against which late evidence speaks: few, found by an index of their own.
SELECT e.*, greatest(clock_timestamp(), e.updated_at) AS ledger_now
FROM effect_broker.effects e
WHERE e.tenant_id = %(tenant_id)s::uuid
    AND e.effect_id IN (
        SELECT c.effect_id FROM effect_broker.effect_contradictions c
        WHERE c.tenant_id = %(tenant_id)s::uuid AND (%(after)s::uuid IS NULL OR c.effect_id < %(after)s::uuid)
    )
    AND (%(status)s::text IS NULL OR e.shown_status = %(status)s::text)
    AND (%(tool)s::text IS NULL OR e.tool = %(tool)s::text)
    AND (%(prefix)s::text IS NULL OR starts_with(e.operation_key, %(prefix)s::text))
    AND (%(older_than_ms)s::bigint IS NULL
        OR e.intent_created_at <= clock_timestamp() - %(older_than_ms)s::bigint * interval '1 millisecond')
ORDER BY e.effect_id DESC
LIMIT %(limit)s::integer;

-- name: unknown_summary
-- For every tenant together: what operators' gauges show.
SELECT c.name AS contract, c.tool, count(*)::integer AS effects,
    extract(epoch FROM max(clock_timestamp() - u.since))::float8 AS oldest_age_seconds
FROM (
    SELECT w.contract_id, w.unknown_since AS since
    FROM effect_broker.effect_work w
    WHERE w.unknown_since IS NOT NULL
    UNION ALL
    SELECT w.contract_id, w.due_at AS since
    FROM effect_broker.effect_work w
    WHERE w.lane = 2 AND w.due_at < clock_timestamp() AND w.unknown_since IS NULL
) u
JOIN effect_broker.contracts c ON c.contract_id = u.contract_id
GROUP BY c.name, c.tool
ORDER BY c.name, c.tool;
