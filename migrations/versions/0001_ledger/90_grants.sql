-- The application's rights: the steps, and reading.
RESET ROLE;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA effect_broker FROM PUBLIC;
GRANT USAGE ON SCHEMA effect_broker TO effect_broker_app;
GRANT SELECT ON ALL TABLES IN SCHEMA effect_broker TO effect_broker_app;

DO $$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY[
        'reserve', 'reserve_leased', 'claim', 'confirm_claim', 'claim_reconciliation', 'due_tenants', 'finish', 'defer', 'renew',
        'expire_leases', 'overdue', 'hold_dispatch', 'release_dispatch', 'resolve_finish', 'resolve_defer',
        'compensate', 'standing_of', 'tombstone_of', 'look_up', 'look_up_key', 'make_partitions', 'forget_fences', 'month_start', 'first_id_at', 'milliseconds', 'event_digest', 'receipt_digest', 'first_head', 'lane_of',
        'create_tenant', 'set_tenant_disabled', 'add_api_key', 'rotate_api_key', 'revoke_api_key', 'note_api_key_use', 'publish_contract', 'declare_key', 'set_tenant_hmac_key',
        'keep_callback', 'claim_callbacks', 'end_callback'
    ] LOOP
        EXECUTE 'GRANT EXECUTE ON FUNCTION effect_broker.' || quote_ident(v_function) || ' TO effect_broker_app';
    END LOOP;
END
$$;

-- Two overloads, one name: a digest's parts, computed as the caller.
GRANT EXECUTE ON FUNCTION effect_broker.framed(text), effect_broker.framed(bytea) TO effect_broker_app;
