-- name: keys_without_effect
-- Every key stands for an intent or a tombstone.
SELECT k.effect_id FROM effect_broker.effect_keys k
WHERE NOT EXISTS (
    SELECT FROM effect_broker.effect_intents i WHERE i.tenant_id = k.tenant_id AND i.effect_id = k.effect_id
) AND NOT EXISTS (
    SELECT FROM effect_broker.effect_tombstones t WHERE t.tenant_id = k.tenant_id AND t.effect_id = k.effect_id
)
LIMIT 10;

-- name: intents_without_key
-- Every intent is reached by its key.
SELECT i.effect_id FROM effect_broker.effect_intents i
WHERE NOT EXISTS (
    SELECT FROM effect_broker.effect_keys k
    WHERE k.tenant_id = i.tenant_id AND k.key_digest = sha256(convert_to(i.operation_key, 'UTF8'))
        AND k.effect_id = i.effect_id
)
LIMIT 10;

-- name: neither_live_nor_ended
-- Every effect has a work row or a terminal row, and never both.
SELECT i.effect_id FROM effect_broker.effect_intents i
WHERE EXISTS (SELECT FROM effect_broker.effect_work w WHERE w.effect_id = i.effect_id)
    = EXISTS (SELECT FROM effect_broker.effect_receipts r WHERE r.effect_id = i.effect_id)
LIMIT 10;

-- name: rows_without_intent
-- Nothing hangs in the air.
SELECT o.effect_id FROM (
    SELECT effect_id FROM effect_broker.effect_work
    UNION ALL SELECT effect_id FROM effect_broker.effect_receipts
    UNION ALL SELECT effect_id FROM effect_broker.effect_attempts
    UNION ALL SELECT effect_id FROM effect_broker.effect_events WHERE sequence = 1
) o
WHERE NOT EXISTS (SELECT FROM effect_broker.effect_intents i WHERE i.effect_id = o.effect_id)
LIMIT 10;

-- name: endings_without_attempt
-- An ending belongs to an attempt.
SELECT n.effect_id FROM effect_broker.effect_attempt_endings n
WHERE NOT EXISTS (
    SELECT FROM effect_broker.effect_attempts a WHERE a.effect_id = n.effect_id AND a.ordinal = n.ordinal
)
LIMIT 10;

-- name: unknown_tenant_or_contract
-- No foreign key stands on the hot path; here is what it would have said.
SELECT i.effect_id FROM effect_broker.effect_intents i
WHERE NOT EXISTS (SELECT FROM effect_broker.tenants t WHERE t.tenant_id = i.tenant_id)
    OR NOT EXISTS (SELECT FROM effect_broker.contracts c WHERE c.contract_id = i.contract_id)
LIMIT 10;

-- name: stray_heads
-- A live effect stands at the version, the digest and the count of attempts of its history.
SELECT w.effect_id FROM effect_broker.effect_work w
WHERE NOT EXISTS (
    SELECT FROM effect_broker.effect_events v
    WHERE v.effect_id = w.effect_id AND v.sequence = w.version AND v.digest = w.head AND v.new_status = w.status
) OR w.attempts <> (
    SELECT count(*) FROM effect_broker.effect_attempts a WHERE a.effect_id = w.effect_id
)
LIMIT 10;

-- name: wrong_lanes
-- The lane follows from the status.
SELECT w.effect_id FROM effect_broker.effect_work w
WHERE w.lane <> effect_broker.lane_of(w.status, w.proof_committed)
LIMIT 10;

-- name: broken_receipts
-- Every receipt bears its digest.
SELECT r.effect_id FROM effect_broker.effect_receipts r
WHERE r.digest <> effect_broker.receipt_digest(
    r.receipt_id, r.effect_id, r.tenant_id, r.contract_id, r.created_at, r.target_time, r.kind, r.source, r.reason,
    r.external_id, r.flags, r.evidence_digest, r.downstream_key_digest
)
LIMIT 10;

-- name: broken_chains
-- Every event covers the one before.
SELECT DISTINCT v.effect_id FROM (
    SELECT e.*, coalesce(lag(e.digest) OVER w, effect_broker.first_head()) AS before, row_number() OVER w AS place
    FROM effect_broker.effect_events e
    WINDOW w AS (PARTITION BY e.effect_id ORDER BY e.sequence)
) v
WHERE v.sequence <> v.place OR v.digest <> effect_broker.event_digest(
    v.before, v.effect_id, v.sequence, v.at, v.type, v.old_status, v.new_status, v.actor, v.metadata
)
LIMIT 10;
