-- name: introduction
-- Read by each starting process: the few keys that rows may stand under, and whether the role is the owner's.
SELECT k.kind, k.key_id,
    coalesce(pg_has_role((SELECT o.oid FROM pg_roles o WHERE o.rolname = 'effect_broker_owner'), 'MEMBER'), false) AS owner
FROM (VALUES (1)) one
LEFT JOIN effect_broker.ledger_keys k ON true
ORDER BY 1, 2;

-- name: declare
-- Before the first value is sealed under a key.
SELECT effect_broker.declare_key(%(kind)s::text, %(key_id)s::text);

-- name: retire
-- Nothing stands under any other key than those to keep.
SELECT retire_keys AS key_id FROM effect_broker.retire_keys(%(kind)s::text, %(keep)s::text[]);
