"""A target in memory that does as it is told: for `dev`, for demonstrations, for tests.

What each request of an effect does is scripted: by the contract's `simulated.script`, by
a `simulate` argument (one act or a list), or by the test; after the script every request
commits. Keys, replays and drift follow the contract, so that what it claims is so.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from effect_broker.adapters.http_target import digest_of
from effect_broker.adapters.simulated_target import Act, SimulatedTarget, shown
from effect_broker.adapters.wire.gate import SendForbidden, SendGate, unsent
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import ContractInvalid
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import (
    Ambiguous,
    NotSent,
    Outcome,
    ProbeResult,
    ProbeStatus,
)
from effect_broker.ports import Clock, Deadline, TargetAdapter


class SimulatedAdapters:
    """Builds adapters onto one target; `script` overrides what contracts say."""

    def __init__(
        self,
        clock: Clock,
        *,
        target: SimulatedTarget | None = None,
        script: Callable[[EffectRecord], Sequence[str]] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self.target = target or SimulatedTarget(clock)
        self._script = script
        self._sleep = sleep
        self._seen: Counter[UUID] = Counter()

    async def scope_digest(self, contract: EffectContract) -> bytes:
        """Digest the target's account."""
        return digest_of("simulated", contract.name, self.target.account)

    async def adapter(
        self,
        contract: EffectContract,
        *,
        scope_digest: bytes,
        deadline: Deadline | None,
    ) -> TargetAdapter:
        """Make an adapter for one attempt or probe.

        Raises:
            ContractInvalid: the contract's script holds no act.
        """
        if contract.simulated is not None:
            _acts(contract, contract.simulated.script)
        gate = SendGate(
            self._clock,
            deadline,
            scope=await self.scope_digest(contract),
            expected_scope=scope_digest,
        )
        return _SimulatedAdapter(contract, self, gate)

    async def send(
        self, effect: EffectRecord, attempt_id: UUID, gate: SendGate
    ) -> Outcome:
        """Play one request, latency included."""
        terms = effect.contract.simulated
        turn = self._seen[effect.effect_id]
        self._seen[effect.effect_id] += 1
        acts = _acts(effect.contract, self._scripted(effect))
        act = acts[turn] if turn < len(acts) else Act.COMMIT
        if act is Act.NOT_SENT:
            return NotSent("scripted")
        try:
            gate.permit()
        except SendForbidden as refused:
            return unsent(refused.reason)
        left = gate.seconds_left()
        try:
            async with asyncio.timeout(None if left == float("inf") else left):
                if terms is not None and terms.latency:
                    await self._sleep(terms.latency.total_seconds())
                return self.target.receive(effect, attempt_id, act)
        except TimeoutError:
            return Ambiguous("timed_out")

    def _scripted(self, effect: EffectRecord) -> Sequence[str]:
        if self._script is not None:
            return self._script(effect)
        asked = effect.request.arguments.get("simulate")
        if isinstance(asked, str):
            return (asked,)
        if isinstance(asked, list | tuple):
            return [str(act) for act in asked]
        terms = effect.contract.simulated
        return terms.script if terms is not None else ()


class _SimulatedAdapter:
    def __init__(
        self, contract: EffectContract, adapters: SimulatedAdapters, gate: SendGate
    ) -> None:
        self._contract = contract
        self._adapters = adapters
        self._gate = gate

    @property
    def contract(self) -> EffectContract:
        return self._contract

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        return await self._adapters.send(effect, attempt_id, self._gate)

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        reason = self._gate.refusal()
        if self._contract.probe is None or reason is not None:
            return ProbeResult(
                ProbeStatus.UNKNOWN, evidence={"failure": reason or "no_lookup"}
            )
        found = self._adapters.target.look_up(effect)
        if found is None:
            return ProbeResult(ProbeStatus.NOT_COMMITTED)
        return ProbeResult(ProbeStatus.COMMITTED, found.id, shown(found))


def _acts(contract: EffectContract, script: Sequence[str]) -> Sequence[Act]:
    try:
        return [Act(name) for name in script]
    except ValueError:
        raise ContractInvalid(
            f"{contract.name} {contract.version}: a simulated act is one of"
            f" {', '.join(Act)}."
        ) from None
