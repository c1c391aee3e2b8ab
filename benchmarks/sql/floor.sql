-- What nobody can do without: one durable row before the call to the target, two more steps around it.
-- `three` has no index on the rows of its second and third step.
CREATE SCHEMA floor;

CREATE TABLE floor.reserved (operation_key text NOT NULL UNIQUE, payload bytea NOT NULL);
CREATE TABLE floor.started (effect_id uuid NOT NULL, at timestamptz NOT NULL, worker text NOT NULL);
CREATE TABLE floor.finished (effect_id uuid NOT NULL, at timestamptz NOT NULL, answer text NOT NULL);
