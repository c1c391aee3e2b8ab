"""Adapters as a user would bring them, named by contracts in the tests."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from effect_broker.adapters.custom import AdapterContext
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import Committed, Outcome, ProbeResult, ProbeStatus
from effect_broker.ports import SecretSource


class TwoStep:
    """Creates and captures at a target that ties each key to one path."""

    def __init__(self, contract: EffectContract, context: AdapterContext) -> None:
        self.contract = contract
        self._context = context
        self._paths: dict[str, str] = contract.options.setdefault("paths", {})

    @classmethod
    async def scope(cls, contract: EffectContract, secrets: SecretSource) -> list[str]:
        return ["https://own.example", await secrets.secret("account")]

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        for path in ("create", "capture"):
            key = self._context.sub_key(effect, path)
            self._context.permit()
            assert self._paths.setdefault(key, path) == path
        return Committed("own_1")

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        return ProbeResult(ProbeStatus.UNKNOWN)


class Careless:
    """Looks at no gate and takes its time."""

    calls: list[UUID]

    def __init__(self, contract: EffectContract, context: AdapterContext) -> None:
        self.contract = contract

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        type(self).calls.append(attempt_id)
        await asyncio.Event().wait()
        raise AssertionError

    async def probe(self, effect: EffectRecord) -> Any:
        raise AssertionError


class LateSecondStep(TwoStep):
    """Its second permission comes after the deadline."""

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        self._context.permit()
        clock: Any = self._context.clock
        clock.advance(100.0)
        self._context.permit()
        raise AssertionError
