"""Adapters with failpoints around what the target did and said."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from effect_broker.adapters.source import Adapters
from effect_broker.adapters.wire.gate import SendGate
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import Committed, Outcome, ProbeResult
from effect_broker.failpoints import Failpoint, Failpoints
from effect_broker.ports import Deadline, LocalMutating, TargetAdapter


class FailpointAdapters(Adapters):
    """The same registry of kinds; its adapters reach failpoints around each call.

    The one before the socket write stands in the gate of this whole process.
    """

    def __init__(self, inner: Adapters, failpoints: Failpoints) -> None:
        super().__init__({})
        self._inner = inner
        self._failpoints = failpoints
        SendGate.before_first_write = lambda: failpoints.reach(
            Failpoint.BEFORE_SOCKET_WRITE
        )

    async def scope_digest(self, contract: EffectContract) -> bytes:
        """Digest the target that the contract's credentials resolve to now."""
        return await self._inner.scope_digest(contract)

    async def adapter(
        self,
        contract: EffectContract,
        *,
        scope_digest: bytes,
        deadline: Deadline | None,
    ) -> TargetAdapter:
        """Build the contract's adapter, between failpoints."""
        adapter = await self._inner.adapter(
            contract, scope_digest=scope_digest, deadline=deadline
        )
        if isinstance(adapter, LocalMutating):
            return adapter  # the ledger runs it: the failpoint is the gate's
        return _FailpointAdapter(adapter, self._failpoints)

    async def aclose(self) -> None:
        """Close what the kinds keep open."""
        await self._inner.aclose()


@dataclass(frozen=True, slots=True)
class _FailpointAdapter:
    inner: TargetAdapter
    failpoints: Failpoints

    @property
    def contract(self) -> EffectContract:
        return self.inner.contract

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        outcome = await self.inner.dispatch(effect, attempt_id=attempt_id)
        if isinstance(outcome, Committed):
            self.failpoints.reach(Failpoint.AFTER_TARGET_COMMIT)
        return outcome

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        self.failpoints.reach(Failpoint.IN_PROBE)
        result = await self.inner.probe(effect)
        self.failpoints.reach(Failpoint.BETWEEN_PROBE_AND_TRANSITION)
        return result
