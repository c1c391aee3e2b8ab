-- Two roles that cannot log in: the owner of everything, and what the application's login is a member of. The
-- application runs the steps and reads; it can neither change an immutable row nor run DDL. Roles belong to the whole
-- server, so that they may stand already.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'effect_broker_app') THEN
        CREATE ROLE effect_broker_app NOLOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END
$$;

GRANT USAGE ON SCHEMA effect_broker TO effect_broker_app;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA effect_broker FROM PUBLIC;
