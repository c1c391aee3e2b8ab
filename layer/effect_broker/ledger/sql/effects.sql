-- name: find
-- The primary key of the keys answers without a write.
SELECT e.*, clock_timestamp() AS ledger_now
FROM effect_broker.effect_keys k
JOIN effect_broker.effects e ON e.tenant_id = k.tenant_id AND e.effect_id = k.effect_id
WHERE k.tenant_id = %(tenant_id)s::uuid AND k.key_digest = sha256(convert_to(%(operation_key)s::text, 'UTF8'));

-- name: get
-- One snapshot of intent, work row, terminal row and last event.
SELECT e.*, greatest(clock_timestamp(), e.updated_at) AS ledger_now
FROM effect_broker.effects e
WHERE e.tenant_id = %(tenant_id)s::uuid AND e.effect_id = %(effect_id)s::uuid;

-- name: attempts
-- Attempts carry no tenant: the intent's row is the fence.
SELECT a.effect_id, a.ordinal, a.attempt_id, a.worker, a.version, a.started_at, a.send_deadline, a.key_generation,
    a.scope_digest, n.ended_at, coalesce(n.late, false) AS late, n.kind::text AS kind, n.reason, n.final,
    n.from_key_record, n.bytes_may_have_left, n.external_id, n.result_ciphertext, n.data_key_id, n.evidence,
    n.request_digest, n.response_digest
FROM effect_broker.effect_intents i
JOIN effect_broker.effect_attempts a ON a.effect_id = i.effect_id
LEFT JOIN effect_broker.effect_attempt_endings n ON n.effect_id = a.effect_id AND n.ordinal = a.ordinal
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
-- The contract's name and version come from its immutable row.
SELECT r.receipt_id, r.effect_id, r.tenant_id, r.kind::text AS kind, r.source, r.reason, r.external_id,
    r.result_ciphertext, r.data_key_id, r.evidence_digest, r.target_time, r.flags, c.name AS contract_name,
    c.version AS contract_version, r.downstream_key_digest, r.digest, r.created_at
FROM effect_broker.effect_receipts r
JOIN effect_broker.contracts c ON c.contract_id = r.contract_id
WHERE r.tenant_id = %(tenant_id)s::uuid AND r.effect_id = %(effect_id)s::uuid;
