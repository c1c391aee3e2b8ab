"""Reads all that one effect's drawing shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from effect_broker.broker.replaying import folded_at
from effect_broker.ports import Tenant
from effect_broker.surfaces import serving
from effect_broker.surfaces.answers import EffectDetail, StateAnswer
from effect_broker.surfaces.telling import state_answer
from effect_broker.wiring.core import Core


@dataclass(frozen=True, slots=True)
class Inspected:
    """An effect with its tenant, and how it stood where a point was asked for."""

    tenant: str
    effect: EffectDetail
    state: StateAnswer | None

    def document(self) -> dict[str, Any]:
        """Return it as JSON values; a history ends at the point that was asked for."""
        told = self.effect.model_dump(mode="json")
        if self.state is None:
            return {"tenant": self.tenant, **told}
        last = self.state.sequence
        history = [event for event in told["history"] if event["sequence"] <= last]
        state = self.state.model_dump(mode="json")
        return {"tenant": self.tenant, **told, "history": history, "state": state}


async def inspected(
    core: Core, owner: Tenant, effect_id: UUID, at_sequence: int | None
) -> Inspected:
    """Read an effect, and fold its history up to a point if one is named.

    Raises:
        EffectNotFound: the effect had no such event.
    """
    effect = await serving.detail(core.broker, owner.tenant_id, effect_id)
    state = None
    if at_sequence is not None:
        events = await core.broker.events(owner.tenant_id, effect_id)
        state = state_answer(folded_at(events, at_sequence))
    return Inspected(owner.slug, effect, state)
