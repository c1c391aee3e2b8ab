"""Against Stripe's own test mode, where a key is given and `-m live` asks for it."""

from __future__ import annotations

import os
from dataclasses import replace
from uuid import uuid4

import pytest

from effect_broker.adapters.stripe import API_BASE, StripeAdapters
from effect_broker.clock import SystemClock
from effect_broker.domain.outcome import Ambiguous, Committed
from tests.conformance.stripe_target import stripe_contract
from tests.integration.adapters.given import ATTEMPT, GivenSecrets, effect

VARIABLE = "EFFECT_BROKER_TEST_STRIPE_KEY"
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} is not set"),
]


async def test_same_key_is_one_payment_and_another_payload_is_refused() -> None:
    secrets = GivenSecrets(**{"stripe/key": os.environ[VARIABLE]})
    adapters = StripeAdapters(secrets, SystemClock())
    contract = stripe_contract(API_BASE)
    scope = await adapters.scope_digest(contract)
    adapter = await adapters.adapter(contract, scope_digest=scope, deadline=None)
    record = replace(effect(contract), downstream_key=str(uuid4()))
    first = await adapter.dispatch(record, attempt_id=ATTEMPT)
    again = await adapter.dispatch(record, attempt_id=ATTEMPT)
    assert isinstance(first, Committed)
    assert isinstance(again, Committed)
    assert first.external_id == again.external_id
    drifted = effect(
        contract, {"amount": 101, "currency": "eur"}, key=record.downstream_key
    )
    refused = await adapter.dispatch(drifted, attempt_id=ATTEMPT)
    assert isinstance(refused, Ambiguous)
    assert refused.contract_violated
    await adapters.aclose()
