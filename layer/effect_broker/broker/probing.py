"""One authoritative question to a target, at the scope its attempts were sent to, and
never a mutation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from effect_broker.broker.effects import effect_record
from effect_broker.broker.keeping import kept_probe
from effect_broker.broker.payload import open_arguments
from effect_broker.domain.attempt import Attempt
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import EffectBrokerError
from effect_broker.domain.outcome import ProbeResult, ProbeStatus
from effect_broker.ports import AdapterSource, Cipher, Claim, Clock, Deadline


@dataclass(frozen=True, slots=True)
class Probed:
    """What the target said; `violated` names why it could not be asked at all."""

    result: ProbeResult
    violated: str | None = None


@dataclass(frozen=True, slots=True)
class Probing:
    """Asks targets; whatever goes wrong on the way is an unknown answer."""

    adapters: AdapterSource
    cipher: Cipher
    clock: Clock

    async def probe(
        self,
        claim: Claim,
        contract: EffectContract,
        attempts: Sequence[Attempt],
        deadline: Deadline,
    ) -> Probed:
        """Ask the target about the effect until `deadline`.

        A target whose scope is no longer that of every attempt is not asked: it would
        answer for another account, and its "absent" would be a lie.
        """
        try:
            scope = await self.adapters.scope_digest(contract)
            if any(attempt.scope_digest != scope for attempt in attempts):
                return Probed(_unknown("target_scope_changed"), "target_scope_changed")
            effect = effect_record(
                claim.intent,
                contract,
                open_arguments(self.cipher, claim.intent),
                claim.downstream_key,
                claim.work,
                claim.now,
            )
            adapter = await self.adapters.adapter(
                contract, scope_digest=scope, deadline=None
            )
        except EffectBrokerError as error:
            return Probed(_unknown(error.code))
        task = asyncio.create_task(adapter.probe(effect))
        return Probed(await self._answer(task, deadline))

    async def _answer(
        self, task: asyncio.Task[ProbeResult], deadline: Deadline
    ) -> ProbeResult:
        """Wait for the probe's answer, and never leave it running behind."""
        left = max(0.0, deadline.monotonic - self.clock.monotonic())
        try:
            await asyncio.wait([task], timeout=left)
        finally:
            task.cancel()
            await asyncio.wait([task])
        if task.cancelled():
            return _unknown("probe_timed_out")
        if (error := task.exception()) is not None:
            return _unknown(f"probe_raised:{type(error).__name__}")
        return kept_probe(task.result())


def _unknown(reason: str) -> ProbeResult:
    return ProbeResult(ProbeStatus.UNKNOWN, evidence={"reason": reason})
