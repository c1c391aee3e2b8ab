"""What HTTP and direct invocation share: call the broker, tell the answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from effect_broker.broker.facade import WAIT_MAX, EffectBroker
from effect_broker.broker.inspecting import EffectView
from effect_broker.domain.intent import EffectRequest, Reservation
from effect_broker.domain.status import TERMINAL
from effect_broker.surfaces.answers import (
    EffectAnswer,
    EffectDetail,
    ForkAnswer,
    SubmitAnswer,
)
from effect_broker.surfaces.telling import (
    created_answer,
    effect_answer,
    effect_detail,
    fork_answer,
    replay_answer,
    waited_answer,
)

NO_WAIT: Final = timedelta(0)
WAIT_SECONDS_MAX: Final = int(WAIT_MAX.total_seconds())
"""The longest that an answer is held back."""


async def submit(
    broker: EffectBroker,
    tenant_id: UUID,
    request: EffectRequest,
    *,
    patience: timedelta = NO_WAIT,
) -> SubmitAnswer:
    """Reserve an effect and tell it, or tell the one that its operation key stands for.

    With patience, the answer waits until the effect is terminal, or the patience is over.
    """
    reservation = await broker.submit(tenant_id, request)
    return await _told(broker, tenant_id, reservation, patience)


async def fork(
    broker: EffectBroker, tenant_id: UUID, effect_id: UUID, at_sequence: int
) -> ForkAnswer:
    """Tell where the recorded answers lead to from a point; sends and writes nothing."""
    return fork_answer(await broker.fork(tenant_id, effect_id, at_sequence))


async def fork_live(
    broker: EffectBroker,
    tenant_id: UUID,
    effect_id: UUID,
    operation_key: str,
    *,
    actor: str,
) -> SubmitAnswer:
    """Reserve an effect's payload anew under another key, and tell what was made."""
    reservation = await broker.fork_live(tenant_id, effect_id, operation_key, actor=actor)
    return await _told(broker, tenant_id, reservation, NO_WAIT)


async def detail(
    broker: EffectBroker,
    tenant_id: UUID,
    effect_id: UUID,
    *,
    patience: timedelta = NO_WAIT,
) -> EffectDetail:
    """Tell an effect with its history and attempts, once terminal or out of patience."""
    view = await _view(broker, tenant_id, effect_id, patience)
    events = await broker.events(tenant_id, effect_id)
    attempts = await broker.attempts(tenant_id, effect_id)
    return effect_detail(view, events, attempts)


async def reconcile(
    broker: EffectBroker, tenant_id: UUID, effect_id: UUID, *, actor: str
) -> EffectAnswer:
    """Ask for reconciliation and tell the effect; never forces a retry."""
    return effect_answer(await broker.reconcile(tenant_id, effect_id, actor=actor))


async def _told(
    broker: EffectBroker, tenant_id: UUID, reservation: Reservation, patience: timedelta
) -> SubmitAnswer:
    effect_id = reservation.effect.effect_id
    if reservation.created and not patience:
        return created_answer(reservation.effect)
    view = await _view(broker, tenant_id, effect_id, patience)
    receipt = await _receipt(broker, tenant_id, view)
    tell = waited_answer if reservation.created else replay_answer
    return tell(view, receipt)


async def _view(
    broker: EffectBroker, tenant_id: UUID, effect_id: UUID, patience: timedelta
) -> EffectView:
    if patience:
        return await broker.wait(tenant_id, effect_id, patience)
    return await broker.get(tenant_id, effect_id)


async def _receipt(
    broker: EffectBroker, tenant_id: UUID, view: EffectView
) -> Mapping[str, Any] | None:
    if view.snapshot.status not in TERMINAL:
        return None
    return await broker.replay_receipt(tenant_id, view.snapshot.intent.effect_id)
