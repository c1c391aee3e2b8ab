"""What an operator decides about an effect, by the same reading as over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from effect_broker.ports import Tenant
from effect_broker.surfaces import requests, serving
from effect_broker.surfaces.answers import EffectAnswer, ForkAnswer, SubmitAnswer
from effect_broker.surfaces.cli.given import whoami
from effect_broker.surfaces.telling import effect_answer
from effect_broker.wiring.core import Core


async def resolved(
    core: Core, owner: Tenant, effect_id: UUID, stated: Mapping[str, Any]
) -> EffectAnswer:
    """Record a finding and tell the effect."""
    found = requests.finding(stated, actor=whoami())
    await core.broker.resolve(owner.tenant_id, effect_id, found)
    return effect_answer(await core.broker.get(owner.tenant_id, effect_id))


async def compensated(
    core: Core, owner: Tenant, effect_id: UUID, by: str, reason: str
) -> EffectAnswer:
    """Link the effect that undid it, and tell the effect."""
    await core.broker.compensate(
        owner.tenant_id,
        effect_id,
        requests.effect_id(by),
        actor=whoami(),
        reason=reason,
    )
    return effect_answer(await core.broker.get(owner.tenant_id, effect_id))


async def simulated(
    core: Core, owner: Tenant, effect_id: UUID, at_sequence: int
) -> ForkAnswer:
    """Tell where the recorded answers lead to from a point of the history."""
    return await serving.fork(core.broker, owner.tenant_id, effect_id, at_sequence)


async def forked_live(
    core: Core, owner: Tenant, effect_id: UUID, operation_key: str
) -> SubmitAnswer:
    """Reserve the payload anew, and tell the effect that was made."""
    return await serving.fork_live(
        core.broker, owner.tenant_id, effect_id, operation_key, actor=whoami()
    )
