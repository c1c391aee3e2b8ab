"""Replay: a fold over stored events. No adapter is reachable from here."""

from __future__ import annotations

from collections.abc import Sequence

from effect_broker.domain.errors import EffectNotFound
from effect_broker.domain.event import EffectEvent
from effect_broker.domain.replay import Difference, Folded, difference, fold


def folded_at(events: Sequence[EffectEvent], sequence: int | None) -> Folded:
    """Return the effect as it stood after `sequence`, or after its last event.

    Raises:
        EffectNotFound: the effect had no such event.
    """
    last = sequence if sequence is not None else len(events)
    if not 1 <= last <= len(events):
        raise EffectNotFound(f"The effect has no event {last}.")
    return fold(events[:last])


def compared(events: Sequence[EffectEvent], first: int, second: int) -> Difference:
    """Return what changed between two points of an effect's history."""
    return difference(folded_at(events, first), folded_at(events, second))
