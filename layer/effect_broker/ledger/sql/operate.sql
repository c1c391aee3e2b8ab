-- name: resolve_finish
-- The work row is locked before the decision is looked for: two writings of one decision follow each other.
SELECT r.* FROM effect_broker.resolve_finish(
    %(step)s::effect_broker.finishing, %(decision)s::effect_broker.decision
) r;

-- name: resolve_defer
-- As above, for a decision that keeps the effect live.
SELECT r.* FROM effect_broker.resolve_defer(
    %(step)s::effect_broker.deferral, %(decision)s::effect_broker.decision
) r;

-- name: resolution
-- Decisions carry no tenant: the intent's row is the fence.
SELECT r.decision_id, r.decision, r.actor, r.observed_at, r.sealed, r.data_key_id, r.version
FROM effect_broker.effect_intents i
JOIN effect_broker.effect_resolutions r ON r.effect_id = i.effect_id
WHERE i.tenant_id = %(tenant_id)s::uuid AND i.effect_id = %(effect_id)s::uuid
    AND r.decision_id = %(decision_id)s::text;

-- name: compensate
-- One link of a tenant at a time: a chain of links cannot close behind the checks.
SELECT c.outcome, c.version FROM effect_broker.compensate(
    %(tenant_id)s::uuid, %(effect_id)s::uuid, %(compensated_by)s::uuid, %(actor)s::text, %(sealed)s::bytea,
    %(data_key_id)s::text, %(expected_version)s::integer
) c;

-- name: hold_dispatch
-- The first hold's reason stands.
SELECT effect_broker.hold_dispatch(%(reason)s::text);

-- name: release_dispatch
-- Only an operator releases.
SELECT release_dispatch AS released FROM effect_broker.release_dispatch(%(actor)s::text);

-- name: dispatch_hold
-- One row.
SELECT c.reason, c.since FROM effect_broker.ledger_control c WHERE c.dispatch_held;

-- name: revision
-- What readiness compares with the revision of this release.
SELECT version_num FROM effect_broker.schema_revision;
