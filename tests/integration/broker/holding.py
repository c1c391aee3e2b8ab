"""Adapters that stop a worker before or after its request, as a pause or a slow
network would.
"""

from __future__ import annotations

import asyncio
from uuid import UUID

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import Outcome, ProbeResult
from effect_broker.ports import AdapterSource, Deadline, TargetAdapter


class HoldingAdapters:
    """Wraps a source: each dispatch reports `reached` and waits for `go` at one point."""

    def __init__(self, inner: AdapterSource, *, after_answer: bool) -> None:
        self.inner = inner
        self.after_answer = after_answer
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    async def scope_digest(self, contract: EffectContract) -> bytes:
        return await self.inner.scope_digest(contract)

    async def adapter(
        self,
        contract: EffectContract,
        *,
        scope_digest: bytes,
        deadline: Deadline | None,
    ) -> TargetAdapter:
        inner = await self.inner.adapter(
            contract, scope_digest=scope_digest, deadline=deadline
        )
        return _Holding(inner, self)

    async def hold(self) -> None:
        self.reached.set()
        await self.go.wait()


class _Holding:
    def __init__(self, inner: TargetAdapter, holding: HoldingAdapters) -> None:
        self._inner = inner
        self._holding = holding

    @property
    def contract(self) -> EffectContract:
        return self._inner.contract

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        if not self._holding.after_answer:
            await self._holding.hold()
            return await self._inner.dispatch(effect, attempt_id=attempt_id)
        outcome = await self._inner.dispatch(effect, attempt_id=attempt_id)
        await self._holding.hold()
        return outcome

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        await self._holding.hold()
        return await self._inner.probe(effect)


class RaisingAdapters:
    """Wraps a source: the request is made, and then the adapter raises."""

    def __init__(self, inner: AdapterSource, error: Exception) -> None:
        self.inner = inner
        self.error = error

    async def scope_digest(self, contract: EffectContract) -> bytes:
        return await self.inner.scope_digest(contract)

    async def adapter(
        self,
        contract: EffectContract,
        *,
        scope_digest: bytes,
        deadline: Deadline | None,
    ) -> TargetAdapter:
        inner = await self.inner.adapter(
            contract, scope_digest=scope_digest, deadline=deadline
        )
        return _Raising(inner, self.error)


class _Raising:
    def __init__(self, inner: TargetAdapter, error: Exception) -> None:
        self._inner = inner
        self._error = error

    @property
    def contract(self) -> EffectContract:
        return self._inner.contract

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        await self._inner.dispatch(effect, attempt_id=attempt_id)
        raise self._error

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        return await self._inner.probe(effect)
