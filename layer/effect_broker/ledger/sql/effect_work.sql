-- name: reserve
-- The function waits for whoever holds a key, and then says what stands; intents come sorted by key.
SELECT * FROM effect_broker.reserve(%(intents)s::effect_broker.new_intent[]);

-- name: reserve_leased
-- Reservation and first claim in one commit; the token settles it when the commit's outcome is unknown.
SELECT * FROM effect_broker.reserve_leased(
    %(intent)s::effect_broker.new_intent, %(token)s::uuid, %(worker)s::text, %(attempt_id)s::uuid,
    %(contract_ids)s::integer[], %(scope_digests)s::bytea[], %(margin_ms)s::bigint, %(budget_ms)s::bigint
);

-- name: claim
-- Rows locked by others are passed over; the attempt rows are committed when this returns.
SELECT * FROM effect_broker.claim(
    %(token)s::uuid, %(worker)s::text, %(limit)s::integer, %(contract_ids)s::integer[],
    %(scope_digests)s::bytea[], %(margin_ms)s::bigint, %(budget_ms)s::bigint, %(unsafe_limit)s::integer,
    %(attempt_ids)s::uuid[], %(effect_ids)s::uuid[], %(tenants)s::uuid[], %(due_from)s::timestamptz
);

-- name: confirm_claim
-- A write either way: it waits for the lost connection's commit, or makes it fail.
SELECT * FROM effect_broker.confirm_claim(%(token)s::uuid);

-- name: claim_reconciliation
-- Like a claim, in the lane of unknown outcomes and standing proofs.
SELECT * FROM effect_broker.claim_reconciliation(
    %(token)s::uuid, %(worker)s::text, %(limit)s::integer, %(contract_ids)s::integer[], %(margin_ms)s::bigint,
    %(budget_ms)s::bigint, %(effect_ids)s::uuid[], %(tenants)s::uuid[], %(due_from)s::timestamptz
);

-- name: due_tenants
-- Whom the next claims serve in turn; read now and then, not with each claim.
SELECT due_tenants FROM effect_broker.due_tenants(
    %(lane)s::smallint, %(due_from)s::timestamptz, %(after)s::uuid, %(limit)s::integer
);

-- name: finish
-- Steps come sorted by effect, so that two batches wait for each other in one order.
SELECT * FROM effect_broker.finish(%(steps)s::effect_broker.finishing[]);

-- name: defer
-- Steps come sorted by effect, as for finish.
SELECT * FROM effect_broker.defer(%(steps)s::effect_broker.deferral[]);

-- name: renew
-- The token alone decides; the clock is read when the lock is held.
SELECT renew FROM effect_broker.renew(%(token)s::uuid, %(effect_ids)s::uuid[], %(lease_ms)s::bigint);

-- name: expire_leases
-- Bounded, and past whatever is locked: the next sweep finds the rest.
SELECT * FROM effect_broker.expire_leases(%(limit)s::integer, %(margin_ms)s::bigint);

-- name: overdue
-- Reads only: what becomes of an overdue effect is decided outside.
SELECT * FROM effect_broker.overdue(%(limit)s::integer, %(margin_ms)s::bigint);

-- name: work
-- The state to decide on again after a stale step.
SELECT w.effect_id, w.tenant_id, w.status::text AS status, w.version, w.attempts, w.unproven, w.proven_through,
    w.rejections, w.retries, w.redispatches, w.probes, w.key_generation, w.proof_committed,
    nullif(w.due_at, 'infinity') AS due_at, w.settlement_at, w.horizon_at, w.submit_until, w.negative_at,
    w.unknown_since, w.created_at, greatest(clock_timestamp(), w.last_event_at) AS ledger_now
FROM effect_broker.effect_work w
WHERE w.tenant_id = %(tenant_id)s::uuid AND w.effect_id = %(effect_id)s::uuid;
