"""Hints after the commit: whoever is due again is nudged for when it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from effect_broker.domain.status import SENDABLE, EffectStatus
from effect_broker.ports import Nudger, Step, StepResult, StepStatus


async def nudge(nudger: Nudger, results: Sequence[tuple[Step, StepResult]]) -> None:
    """Hint at every effect that a recorded step made due; parked and settled ones need
    none.
    """
    sends: dict[timedelta, list[UUID]] = defaultdict(list)
    looks: dict[timedelta, list[UUID]] = defaultdict(list)
    for step, result in results:
        delay = step.transition.delay
        if result.late_recorded:
            looks[timedelta(0)].append(step.effect_id)
        elif result.status is not StepStatus.APPLIED or delay is None:
            continue
        elif step.transition.new in SENDABLE:
            sends[delay].append(step.effect_id)
        elif step.transition.new is EffectStatus.OUTCOME_UNKNOWN:
            looks[delay].append(step.effect_id)
    for delay, effect_ids in sends.items():
        await nudger.dispatch(effect_ids, delay=delay)
    for delay, effect_ids in looks.items():
        await nudger.reconcile(effect_ids, delay=delay)
