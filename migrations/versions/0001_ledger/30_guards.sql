-- Refusals that no path around the steps can pass, each with its own SQLSTATE:
-- EB001 an immutable row; EB002 proof of commit stands; EB003 an arrow against the stored proof.

CREATE FUNCTION effect_broker.deny_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'EB001',
        MESSAGE = 'Rows of ' || TG_TABLE_NAME || ' are immutable; corrections are new rows.';
END
$$;

-- A payload may be sealed anew or pruned by the owner's maintenance functions; every other column stays as it was written.
CREATE FUNCTION effect_broker.deny_change_but_payload() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    v_row record := NEW;
BEGIN
    CASE TG_ARGV[0]
        WHEN 'arguments_ciphertext' THEN
            v_row.arguments_ciphertext := OLD.arguments_ciphertext;
            IF NEW.arguments_ciphertext IS NULL THEN
                v_row.preview := OLD.preview;
            END IF;
        WHEN 'result_ciphertext' THEN
            v_row.result_ciphertext := OLD.result_ciphertext;
        WHEN 'sealed' THEN
            v_row.sealed := OLD.sealed;
        WHEN 'reason_ciphertext' THEN
            v_row.reason_ciphertext := OLD.reason_ciphertext;
    END CASE;
    v_row.data_key_id := OLD.data_key_id;
    IF TG_OP = 'UPDATE' AND v_row IS NOT DISTINCT FROM OLD THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'EB001',
        MESSAGE = 'Rows of ' || TG_TABLE_NAME || ' are immutable; corrections are new rows.';
END
$$;

CREATE TRIGGER immutable BEFORE UPDATE ON effect_broker.effect_intents
    FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change_but_payload('arguments_ciphertext');
CREATE TRIGGER immutable BEFORE UPDATE ON effect_broker.effect_attempt_endings
    FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change_but_payload('result_ciphertext');
CREATE TRIGGER immutable BEFORE UPDATE ON effect_broker.effect_receipts
    FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change_but_payload('result_ciphertext');

CREATE TRIGGER immutable BEFORE UPDATE ON effect_broker.effect_resolutions
    FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change_but_payload('sealed');
CREATE TRIGGER immutable BEFORE UPDATE ON effect_broker.effect_compensations
    FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change_but_payload('reason_ciphertext');

DO $$
DECLARE
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY ARRAY[
        'effect_keys', 'effect_attempts', 'effect_key_generations', 'effect_events', 'effect_contradictions',
        'contracts'
    ] LOOP
        EXECUTE 'CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON effect_broker.' || quote_ident(v_table)
            || ' FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change()';
    END LOOP;
    FOREACH v_table IN ARRAY ARRAY[
        'effect_intents', 'effect_attempt_endings', 'effect_receipts', 'effect_compensations', 'effect_resolutions'
    ] LOOP
        EXECUTE 'CREATE TRIGGER undeletable BEFORE DELETE ON effect_broker.' || quote_ident(v_table)
            || ' FOR EACH ROW EXECUTE FUNCTION effect_broker.deny_change()';
    END LOOP;
    FOREACH v_table IN ARRAY ARRAY[
        'effect_keys', 'effect_intents', 'effect_attempts', 'effect_attempt_endings', 'effect_key_generations',
        'effect_events', 'effect_receipts', 'effect_compensations', 'effect_resolutions', 'effect_contradictions',
        'contracts'
    ] LOOP
        EXECUTE 'CREATE TRIGGER untruncatable BEFORE TRUNCATE ON effect_broker.' || quote_ident(v_table)
            || ' FOR EACH STATEMENT EXECUTE FUNCTION effect_broker.deny_change()';
    END LOOP;
END
$$;

-- Design rule 10: proof of commit is never taken back, and blocks every arrow that could send again.
CREATE FUNCTION effect_broker.deny_against_proof() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT NEW.proof_committed
        OR (NEW.status <> OLD.status AND NEW.status IN ('prepared', 'retryable', 'dispatching'))
    THEN
        RAISE EXCEPTION USING ERRCODE = 'EB002',
            MESSAGE = 'Proof of commit stands for effect ' || OLD.effect_id || '.';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER proof_stands BEFORE UPDATE ON effect_broker.effect_work
    FOR EACH ROW WHEN (OLD.proof_committed)
    EXECUTE FUNCTION effect_broker.deny_against_proof();

CREATE FUNCTION effect_broker.deny_failure_against_proof() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM effect_broker.effect_attempt_endings e
        WHERE e.effect_id = NEW.effect_id AND e.kind = 'committed'
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'EB003',
            MESSAGE = 'An attempt of effect ' || NEW.effect_id || ' is proven committed; it cannot have failed.';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER failure_contradicts_no_proof BEFORE INSERT ON effect_broker.effect_receipts
    FOR EACH ROW WHEN (NEW.kind = 'failed_final')
    EXECUTE FUNCTION effect_broker.deny_failure_against_proof();
