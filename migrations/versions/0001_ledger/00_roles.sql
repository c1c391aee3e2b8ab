-- Two roles. The owner of everything cannot log in; its rights work inside the steps only. The application may run the
-- steps and read: it can neither change an immutable row nor run DDL. It has no password until an operator gives it one
-- (or another way in). Roles belong to the whole server, so that they may stand already.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'effect_broker_owner') THEN
        CREATE ROLE effect_broker_owner NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'effect_broker_app') THEN
        CREATE ROLE effect_broker_app LOGIN;
        -- Settings stand here because proxies refuse start-up options and SET pins their connections.
        ALTER ROLE effect_broker_app SET statement_timeout = '15s';
        ALTER ROLE effect_broker_app SET idle_in_transaction_session_timeout = '5s';
        ALTER ROLE effect_broker_app SET synchronous_commit = 'on';
        ALTER ROLE effect_broker_app SET default_transaction_isolation = 'read committed';
        ALTER ROLE effect_broker_app SET TimeZone = 'UTC';
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL; -- another database of this server is being migrated at the same time
END
$$;

DO $$
BEGIN
    IF NOT pg_has_role(current_user, 'effect_broker_owner', 'SET') THEN
        EXECUTE 'GRANT effect_broker_owner TO ' || quote_ident(current_user) || ' WITH INHERIT TRUE, SET TRUE';
    END IF;
END
$$;

ALTER SCHEMA effect_broker OWNER TO effect_broker_owner;

-- Where detached months wait for whoever copies them away; nothing reads them there.
CREATE SCHEMA effect_broker_archive AUTHORIZATION effect_broker_owner;

SET LOCAL ROLE effect_broker_owner;
