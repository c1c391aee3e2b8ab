"""Fork: what an effect's recorded answers lead to from some point on; live work only by
an explicit act under a key of its own.

No adapter is reachable from here: a simulated fork reads the ledger and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from effect_broker.broker.inspecting import Inspector
from effect_broker.broker.replaying import folded_at
from effect_broker.broker.submit import Submitter
from effect_broker.domain.errors import (
    DecisionRefused,
    InvalidOperationKey,
    ReceiptNotFound,
)
from effect_broker.domain.event import EffectEvent
from effect_broker.domain.intent import EffectRequest, Reservation
from effect_broker.domain.replay import Folded


@dataclass(frozen=True, slots=True)
class SimulatedFork:
    """An effect's state at a point, what was recorded after it, and where that ended.

    `receipt` is the recorded one, or None where nothing was settled.
    """

    effect_id: UUID
    start: Folded
    recorded: Sequence[EffectEvent]
    end: Folded
    receipt: Mapping[str, Any] | None


class Forker:
    """Simulates forks, and reserves live ones."""

    def __init__(self, inspector: Inspector, submitter: Submitter) -> None:
        self._inspector = inspector
        self._submitter = submitter

    async def simulate(
        self, tenant_id: UUID, effect_id: UUID, at_sequence: int
    ) -> SimulatedFork:
        """Go on from a point of the history with the answers that were recorded after it.

        Raises:
            EffectNotFound: no such effect for this tenant, or no such event in it.
        """
        events = await self._inspector.events(tenant_id, effect_id)
        start = folded_at(events, at_sequence)
        return SimulatedFork(
            effect_id=effect_id,
            start=start,
            recorded=events[at_sequence:],
            end=folded_at(events, None),
            receipt=await self._receipt(tenant_id, effect_id),
        )

    async def go_live(
        self, tenant_id: UUID, effect_id: UUID, operation_key: str, *, actor: str
    ) -> Reservation:
        """Reserve the effect's payload anew, as another effect under another key.

        It may happen again at the target: that is what the caller asks for. The tool's
        contract of today is pinned.

        Raises:
            EffectNotFound: no such effect for this tenant.
            InvalidOperationKey: the key is the effect's own, or no key at all.
            DecisionRefused: the payload is gone, pruned with its retention.
            PayloadDrift: the new key stands for another payload.
        """
        stored = await self._inspector.request(tenant_id, effect_id)
        if stored is None:
            raise DecisionRefused("The effect's payload was pruned; it cannot be forked.")
        if operation_key == stored.operation_key:
            raise InvalidOperationKey(
                "Live work needs an operation_key of its own; this one stands for the"
                " effect that was forked."
            )
        request = EffectRequest(operation_key, stored.tool, stored.arguments, actor)
        return await self._submitter.submit(tenant_id, request)

    async def _receipt(
        self, tenant_id: UUID, effect_id: UUID
    ) -> Mapping[str, Any] | None:
        try:
            return await self._inspector.receipt(tenant_id, effect_id)
        except ReceiptNotFound:
            return None
