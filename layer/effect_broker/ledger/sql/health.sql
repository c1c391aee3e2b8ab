-- name: server
-- What the connection really reaches, and what its role brings along: a pooler may set its own.
SELECT current_setting('server_version_num')::integer AS version, pg_is_in_recovery() AS recovering,
    current_user::text AS role, r.rolsuper AS superuser,
    coalesce(pg_has_role((SELECT o.oid FROM pg_roles o WHERE o.rolname = 'effect_broker_owner'), 'MEMBER'), false) AS owner,
    current_setting('fsync') = 'on' AS fsync,
    current_setting('full_page_writes') = 'on' AS full_page_writes,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('statement_timeout') <> '0' AS statements_end,
    current_setting('idle_in_transaction_session_timeout') <> '0' AS idle_transactions_end,
    current_setting('default_transaction_isolation') AS isolation
FROM pg_roles r
WHERE r.rolname = current_user;

-- name: clock
-- The clock that decides, beside the latest event of live work: it never lies in the future.
SELECT clock_timestamp() AS now, max(w.last_event_at) AS last_event_at
FROM effect_broker.effect_work w;

-- name: backend
-- Another number on the same connection means that a pooler stands between.
SELECT pg_backend_pid() AS pid;

-- name: recent_operation_keys
-- The newest of one tenant, along the primary key.
SELECT i.effect_id, i.operation_key
FROM effect_broker.effect_intents i
WHERE i.tenant_id = %(tenant_id)s::uuid
ORDER BY i.effect_id DESC
LIMIT %(limit)s::integer;
