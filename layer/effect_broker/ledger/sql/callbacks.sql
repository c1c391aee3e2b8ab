-- name: keep_callback
-- Kept once for each token, whether its effect is live or settled.
SELECT keep_callback AS answerable FROM effect_broker.keep_callback(
    %(tenant_id)s::uuid, %(effect_id)s::uuid, %(callback_id)s::uuid, %(sealed)s::bytea, %(data_key_id)s::text
);

-- name: claim_callbacks
-- Rows held by others are passed over; what is taken has a lease.
SELECT * FROM effect_broker.claim_callbacks(
    %(token)s::uuid, %(limit)s::integer, %(effect_ids)s::uuid[]
);

-- name: end_callback
-- Only whoever took it ends it.
SELECT end_callback AS ended FROM effect_broker.end_callback(
    %(effect_id)s::uuid, %(callback_id)s::uuid, %(token)s::uuid
);
