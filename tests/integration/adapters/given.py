"""Contracts, effects and clocks that the tests of adapters start from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import SecretNotFound
from effect_broker.domain.intent import EffectRecord, EffectRequest
from effect_broker.domain.status import EffectStatus
from effect_broker.ports import Deadline

TENANT = UUID("00000000-0000-4000-8000-00000000000a")
OTHER_TENANT = UUID("00000000-0000-4000-8000-00000000000b")
EFFECT = UUID("00000000-0000-4000-8000-0000000000e1")
ATTEMPT = UUID("00000000-0000-4000-8000-0000000000a1")
KEY = "k" * 43
ARGUMENTS = {"amount": 100, "currency": "eur"}
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)

MEANING: Mapping[str, str] = {
    "2xx": "committed",
    "400": "rejected_final",
    "402": "rejected",
    "429": "not_executed",
    "409/in_use": "in_progress",
    "409/key_reused": "key_conflict",
    "code": "/error/code",
}


class ManualClock:
    """Three clocks that a test moves; the wall clock starts at `MOMENT`."""

    def __init__(self) -> None:
        self.monotonic_now = 100.0
        self.boottime_now = 200.0
        self.wall_now = MOMENT.timestamp()

    def monotonic(self) -> float:
        return self.monotonic_now

    def boottime(self) -> float:
        return self.boottime_now

    def wall(self) -> float:
        return self.wall_now

    def advance(self, seconds: float) -> None:
        self.monotonic_now += seconds
        self.boottime_now += seconds
        self.wall_now += seconds

    def deadline_in(self, seconds: float) -> Deadline:
        return Deadline(
            self.monotonic_now + seconds,
            self.boottime_now + seconds,
            self.wall_now + seconds,
        )


class GivenSecrets:
    """Secrets that a test rotates."""

    def __init__(self, **values: str) -> None:
        self.values = dict(values)
        self.asked: list[str] = []

    async def secret(self, name: str) -> str:
        self.asked.append(name)
        if name not in self.values:
            raise SecretNotFound(f"The secret {name} is not set.")
        return self.values[name]


def contract(url: str = "https://payments.example", **changes: Any) -> EffectContract:
    """Make an idempotent contract of a target at `url`; `http` is merged in."""
    http: dict[str, Any] = {
        "url": f"{url}/v1/charges",
        "key_header": "Idempotency-Key",
        "external_id": "/id",
        "allow_private": True,
        "meaning": dict(MEANING),
    }
    if changes.get("safety") == "unsafe":
        http["key_header"] = None
    http |= changes.pop("http", {})
    document: dict[str, Any] = {
        "tool": "payments.charge",
        "name": "payments-charge",
        "version": "1",
        "safety": "idempotent",
        "adapter": "http",
        "attempt_timeout": "10s",
        "settlement_bound": "30s",
        "key_retention": "24h",
        "arguments": {"type": "object"},
        "http": http,
    }
    return EffectContract.model_validate(document | changes)


def effect(
    of: EffectContract,
    arguments: Mapping[str, Any] = ARGUMENTS,
    *,
    tenant_id: UUID = TENANT,
    key: str = KEY,
) -> EffectRecord:
    return EffectRecord(
        effect_id=EFFECT,
        tenant_id=tenant_id,
        request=EffectRequest("order:1:charge:v1", of.tool, dict(arguments)),
        request_hash=b"h" * 32,
        downstream_key=key,
        contract=of,
        status=EffectStatus.DISPATCHING,
        version=2,
        created_at=MOMENT,
        updated_at=MOMENT,
    )
