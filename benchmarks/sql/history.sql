-- One month of finished effects, each with everything a real one leaves: a key, an intent, an attempt with its ending,
-- three events and a receipt. The rows are made before the partitions are attached, so that nothing is logged but the keys.
-- What a claim or a reservation never reads (digests, ciphertexts) is of the right size and otherwise made up.
CREATE OR REPLACE FUNCTION pg_temp.past_id(p_kind integer, p_number bigint, p_at timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE AS $$
    SELECT overlay(
        overlay(lpad(to_hex((extract(epoch FROM p_at) * 1000)::bigint), 12, '0') || md5(p_kind || ':' || p_number)
            PLACING '7' FROM 13 FOR 1) PLACING 'a' FROM 17 FOR 1
    )::varchar(32)::uuid
$$;

CREATE TEMPORARY TABLE past ON COMMIT DROP AS
SELECT n, at, pg_temp.past_id(1, n, at) AS effect_id, sha256(int8send(n)) AS digest
FROM (
    SELECT n, %(since)s::timestamptz + (n - %(first)s)::float8 / %(count)s * interval '27 days' AS at
    FROM generate_series(%(first)s::bigint, %(first)s::bigint + %(count)s - 1) n
) numbered;

INSERT INTO effect_broker.effect_keys (tenant_id, key_digest, effect_id)
SELECT %(tenant_id)s, p.digest, p.effect_id
FROM past p;

INSERT INTO {intents} (
    effect_id, tenant_id, created_at, contract_id, request_hash, operation_key, downstream_key, hmac_key_id, data_key_id,
    requested_by, preview, arguments_ciphertext
)
SELECT p.effect_id, %(tenant_id)s, p.at, %(contract_id)s, p.digest, 'past:' || p.n, left(p.digest::text, 43), 'h1', 'k1',
    'key:bench', '', p.digest
FROM past p;

INSERT INTO {attempts} (
    effect_id, attempt_id, started_at, send_deadline, ordinal, version, key_generation, worker, scope_digest
)
SELECT p.effect_id, p.effect_id, p.at, p.at + interval '10 seconds', 1, 2, 1, 'dispatcher-0123456789ab', p.digest
FROM past p;

INSERT INTO {endings} (
    effect_id, ended_at, ordinal, kind, late, final, from_key_record, bytes_may_have_left, reason, external_id, data_key_id,
    evidence, result_ciphertext
)
SELECT p.effect_id, p.at, 1, 'committed', false, false, false, true, 'committed', 'ch_' || p.n, 'k1',
    '', p.digest
FROM past p;

INSERT INTO {events} (effect_id, at, sequence, type, old_status, new_status, actor, metadata, digest)
SELECT p.effect_id, p.at, e.sequence, e.type, e.old_status, e.new_status, 'dispatcher', '', p.digest
FROM past p
CROSS JOIN (VALUES
    (1, 'EffectReserved'::effect_broker.event_type, NULL::effect_broker.effect_status,
        'prepared'::effect_broker.effect_status),
    (2, 'AttemptStarted', 'prepared', 'dispatching'),
    (3, 'ReceiptRecorded', 'dispatching', 'succeeded')
) e (sequence, type, old_status, new_status);

INSERT INTO {receipts} (
    effect_id, tenant_id, receipt_id, created_at, kind, contract_id, source, reason, external_id, data_key_id, flags,
    downstream_key_digest, digest, result_ciphertext
)
SELECT p.effect_id, %(tenant_id)s, p.effect_id, p.at, 'succeeded', %(contract_id)s, 'attempt', 'committed', 'ch_' || p.n,
    'k1', ARRAY[]::text[], p.digest, p.digest, p.digest
FROM past p;
