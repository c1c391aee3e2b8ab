-- name: lock_claim
-- First in the transaction of a mutation, and what waits for its end after a lost COMMIT.
SELECT w.effect_id, w.tenant_id, w.status::text AS status, w.version, w.attempts, w.unproven, w.proven_through,
    w.rejections, w.retries, w.redispatches, w.probes, w.key_generation, w.proof_committed,
    nullif(w.due_at, 'infinity') AS due_at, w.settlement_at, w.horizon_at, w.submit_until, w.negative_at,
    w.unknown_since, w.created_at, greatest(clock_timestamp(), w.last_event_at) AS ledger_now,
    pg_current_xact_id()::text AS transaction_id
FROM effect_broker.lock_claim(%(effect_id)s::uuid, %(tenant_id)s::uuid, %(token)s::uuid) w;

-- name: transaction_id
-- Whether the mutation left its transaction as it was.
SELECT pg_current_xact_id()::text AS transaction_id;

-- name: own_receipt
-- Read only after the row's lock was waited for: then the old transaction has ended, one way or the other.
SELECT r.receipt_id
FROM effect_broker.effect_receipts r
WHERE r.effect_id = %(effect_id)s::uuid AND r.tenant_id = %(tenant_id)s::uuid
    AND r.receipt_id = %(receipt_id)s::uuid;
