-- name: find
-- A function, so that the server keeps the plan; it resolves the key first.
SELECT e.*, clock_timestamp() AS ledger_now
FROM effect_broker.look_up_key(%(tenant_id)s::uuid, %(operation_key)s::text) e;

-- name: get
-- One snapshot of intent, work row, terminal row and last event, or the tombstone.
SELECT e.*, greatest(clock_timestamp(), e.updated_at) AS ledger_now
FROM effect_broker.look_up(%(tenant_id)s::uuid, %(effect_id)s::uuid) e;

-- name: attempts
-- Attempts carry no tenant: the intent's row is the fence. The result of the attempt that made the receipt stands there.
SELECT a.effect_id, a.ordinal, a.attempt_id, a.worker, a.version, a.started_at, a.send_deadline, a.key_generation,
    a.scope_digest, n.ended_at, coalesce(n.late, false) AS late, n.kind::text AS kind, n.reason, n.final,
    n.from_key_record, n.bytes_may_have_left, n.external_id, coalesce(n.result_ciphertext, r.result_ciphertext)
        AS result_ciphertext,
    coalesce(n.data_key_id, r.data_key_id) AS data_key_id, n.evidence,
    n.request_digest, n.response_digest
FROM effect_broker.effect_intents i
JOIN effect_broker.effect_attempts a ON a.effect_id = i.effect_id
LEFT JOIN effect_broker.effect_attempt_endings n ON n.effect_id = a.effect_id AND n.ordinal = a.ordinal
LEFT JOIN effect_broker.effect_receipts r ON r.effect_id = a.effect_id AND r.kind = 'succeeded'
    AND n.kind = 'committed' AND NOT n.late
WHERE i.tenant_id = %(tenant_id)s::uuid AND i.effect_id = %(effect_id)s::uuid
ORDER BY a.ordinal;

-- name: events
-- Events carry no tenant: the intent's row is the fence.
SELECT v.effect_id, v.sequence, v.type::text AS type, v.old_status::text AS old_status,
    v.new_status::text AS new_status, v.actor, v.at, v.metadata, v.digest,
    coalesce(lag(v.digest) OVER (ORDER BY v.sequence), '\x0000000000000000000000000000000000000000000000000000000000000000')
        AS previous_digest
FROM effect_broker.effect_intents i
JOIN effect_broker.effect_events v ON v.effect_id = i.effect_id
WHERE i.tenant_id = %(tenant_id)s::uuid AND i.effect_id = %(effect_id)s::uuid
ORDER BY v.sequence;

-- name: receipt
-- The contract's name and version come from its immutable row; an archived effect's receipt stands in its tombstone.
SELECT r.receipt_id, r.effect_id, r.tenant_id, r.kind::text AS kind, r.source, r.reason, r.external_id,
    r.result_ciphertext, r.data_key_id, r.evidence_digest, r.target_time, r.flags, c.name AS contract_name,
    c.version AS contract_version, r.downstream_key_digest, r.digest, r.created_at
FROM effect_broker.effect_receipts r
JOIN effect_broker.contracts c ON c.contract_id = r.contract_id
WHERE r.tenant_id = %(tenant_id)s::uuid AND r.effect_id = %(effect_id)s::uuid
UNION ALL
SELECT t.receipt_id, t.effect_id, t.tenant_id, t.kind::text, t.source, t.reason, t.external_id, NULL, NULL,
    t.evidence_digest, t.target_time, t.flags, c.name, c.version, t.downstream_key_digest, t.digest,
    t.receipt_created_at
FROM effect_broker.effect_tombstones t
JOIN effect_broker.contracts c ON c.contract_id = t.contract_id
WHERE t.tenant_id = %(tenant_id)s::uuid AND t.effect_id = %(effect_id)s::uuid;

-- name: broken_events
-- The database's own recomputation of the chain; the other one is in Python.
SELECT v.sequence
FROM (
    SELECT e.*, coalesce(lag(e.digest) OVER w, effect_broker.first_head()) AS before, lag(e.new_status) OVER w AS was,
        row_number() OVER w AS place
    FROM effect_broker.effect_intents i
    JOIN effect_broker.effect_events e ON e.effect_id = i.effect_id
    WHERE i.tenant_id = %(tenant_id)s::uuid AND i.effect_id = %(effect_id)s::uuid
    WINDOW w AS (ORDER BY e.sequence)
) v
WHERE v.sequence <> v.place OR v.old_status IS DISTINCT FROM v.was
    OR v.digest <> effect_broker.event_digest(
        v.before, v.effect_id, v.sequence, v.at, v.type, v.old_status, v.new_status, v.actor, v.metadata
    )
ORDER BY v.sequence
LIMIT 1;

-- name: heads
-- What the chain must end in: the live effect's head, and what its receipt was signed over.
SELECT w.head, r.contract_id
FROM effect_broker.effect_intents i
LEFT JOIN effect_broker.effect_work w ON w.effect_id = i.effect_id
LEFT JOIN effect_broker.effect_receipts r ON r.effect_id = i.effect_id AND r.tenant_id = i.tenant_id
WHERE i.tenant_id = %(tenant_id)s::uuid AND i.effect_id = %(effect_id)s::uuid;
