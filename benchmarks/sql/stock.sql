SELECT count(*)
FROM effect_broker.reserve(ARRAY(
    SELECT ROW(
        (overlay(overlay(
            lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
                || replace(gen_random_uuid()::text, '-', '')
            PLACING '7' FROM 13 FOR 1) PLACING 'a' FROM 17 FOR 1))::varchar(32)::uuid,
        %(tenant_id)s::uuid, 'stock:' || gen_random_uuid(), sha256(uuid_send(gen_random_uuid())), %(contract_id)s::integer,
        left(md5(n::text) || md5(n::text), 43), 'h1', 'k1', 'key:bench', NULL, '', sha256(int4send(n))
    )::effect_broker.new_intent
    FROM generate_series(1, %(count)s::integer) n
))
