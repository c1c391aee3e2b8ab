"""A stand-in for Stripe's API: what its documents say of keys, and books of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from effect_broker.conformance import CannedAnswer, Fault, HttpTargetUnderTest
from effect_broker.domain.contract import EffectContract
from tests.conformance.booked_target import BookedTarget, Kept
from tests.conformance.targets import times

API_KEY = "sk_test_of_this_test"


def error(kind: str, code: str | None = None) -> dict[str, Any]:
    told: dict[str, Any] = {"type": kind, "message": "as the stand-in says"}
    return {"error": told if code is None else told | {"code": code}}


class StripeStandIn(BookedTarget):
    """Keeps the first answer under a key, errors too, and refuses another payload."""

    def answer(
        self, method: str, target: str, fields: dict[str, str], body: bytes
    ) -> tuple[int, Any]:
        if fields.get("authorization") != f"Bearer {API_KEY}":
            return 401, error("invalid_request_error")
        if method != "POST" or not urlsplit(target).path.startswith("/v1/"):
            return 404, error("invalid_request_error")
        key = fields.get("idempotency-key", "")
        kept = self._kept.get(key)
        if kept is not None:
            if kept.body != body:
                return 400, error("idempotency_error")
            return kept.status, kept.document
        status, document = self._make(key, body)
        self._kept[key] = Kept(body, status, document)
        return status, document

    def _make(self, key: str, body: bytes) -> tuple[int, Any]:
        amount = parse_qs(body.decode())["amount"][0]
        made = {"id": f"pi_{len(self.charges) + 1}", "amount": int(amount)}
        self.charges.append({**made, "reference": key, "object": "payment_intent"})
        if self.hide_next:
            self.hide_next -= 1
            return 500, error("api_error")
        return 200, {**made, "object": "payment_intent"}


class StripeTarget(HttpTargetUnderTest):
    """The `stripe` adapter before the stand-in."""

    arguments: Mapping[str, Any] = {"amount": 100, "currency": "eur"}
    other_arguments: Mapping[str, Any] = {"amount": 999, "currency": "eur"}
    secrets: Mapping[str, str] = {"stripe/key": API_KEY}
    in_progress = CannedAnswer(
        409,
        b'{"error":{"type":"invalid_request_error","code":"idempotency_key_in_use"}}',
    )
    forgets_keys = True

    def __init__(self) -> None:
        super().__init__()
        self.target = StripeStandIn()

    def contract_at(self, base_url: str) -> EffectContract:
        return stripe_contract(base_url)

    async def reset(self) -> tuple[str, int]:
        return await self.target.start()

    async def close(self) -> None:
        await self.target.stop()

    async def effects(self) -> int:
        return len(self.target.charges)

    async def forget_keys(self) -> None:
        self.target.forget_keys()

    def plan(self, *faults: Fault) -> None:
        for fault in faults:
            if fault is Fault.HIDE_COMMIT:
                self.target.hide_next += 1
        super().plan(
            *(Fault.NONE if fault is Fault.HIDE_COMMIT else fault for fault in faults)
        )


def stripe_contract(base_url: str, **changes: Any) -> EffectContract:
    terms = {
        "api_key": {"secret": "stripe/key"},
        "operation": "payment_intents.create",
        "api_base": base_url,
    }
    document: dict[str, Any] = {
        "tool": "stripe.pay",
        "name": "stripe-pay",
        "version": "1",
        "safety": "idempotent",
        "adapter": "stripe",
        "key_records": "all_answers",
        "arguments": {"type": "object"},
        "stripe": terms | changes.pop("stripe", {}),
        **times("idempotent"),
    }
    return EffectContract.model_validate(document | changes)
