"""Folding stored events back into the state they made; pure, and blind to every
adapter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from effect_broker.domain.event import EffectEvent
from effect_broker.domain.status import EffectStatus, EventType, check_transition


@dataclass(frozen=True, slots=True)
class Folded:
    """An effect's state after some prefix of its history."""

    sequence: int
    status: EffectStatus
    attempts: int
    updated_at: datetime
    last_event: EventType
    reason: str


Difference = Mapping[str, tuple[Any, Any]]
"""Field name → (before, after), for the fields that differ."""


def fold(events: Sequence[EffectEvent]) -> Folded:
    """Return the state that a gapless prefix of a history made.

    Raises:
        IllegalTransition: the history has an arrow that the table lacks.
        ValueError: no events, or a gap in their sequence.
    """
    state: Folded | None = None
    for expected, event in enumerate(events, start=1):
        if event.sequence != expected:
            raise ValueError(f"event {expected} is missing from the history")
        check_transition(state.status if state else None, event.type, event.new_status)
        state = _apply(state, event)
    if state is None:
        raise ValueError("a history has at least one event")
    return state


def difference(before: Folded, after: Folded) -> Difference:
    """Return the fields in which two points of a history differ."""
    return {
        field.name: (getattr(before, field.name), getattr(after, field.name))
        for field in fields(Folded)
        if getattr(before, field.name) != getattr(after, field.name)
    }


def _apply(state: Folded | None, event: EffectEvent) -> Folded:
    first = state or Folded(0, event.new_status, 0, event.at, event.type, "")
    started = event.type is EventType.ATTEMPT_STARTED
    return replace(
        first,
        sequence=event.sequence,
        status=event.new_status,
        attempts=first.attempts + started,
        updated_at=event.at,
        last_event=event.type,
        reason=str(event.metadata.get("reason", "")),
    )
