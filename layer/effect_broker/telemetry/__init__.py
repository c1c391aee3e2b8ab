"""What the broker says about itself: named instruments, whoever collects them.

Labels are fixed by name and never hold a tenant, an argument, a result or a key; no
switch lets one pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PREFIX: Final = "effect_broker_"


class Kind(StrEnum):
    """How an instrument is fed."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Instrument:
    """One metric: how it is fed, the labels it may carry, what it says."""

    kind: Kind
    labels: tuple[str, ...]
    says: str


NAMES: Final[Mapping[str, Instrument]] = {
    "effects_total": Instrument(
        Kind.COUNTER,
        ("event", "tool"),
        "Effects submitted, deduplicated, conflicted, succeeded, failed, unknown.",
    ),
    "unknown_effects": Instrument(
        Kind.GAUGE, ("contract", "tool"), "Effects whose outcome is unproved."
    ),
    "unknown_oldest_age_seconds": Instrument(
        Kind.GAUGE, ("contract", "tool"), "Age of the oldest unproved effect."
    ),
    "attempts_total": Instrument(
        Kind.COUNTER, ("tool", "outcome"), "Attempts by what they proved."
    ),
    "reconciliations_total": Instrument(
        Kind.COUNTER, ("tool", "result"), "Reconciliations by what they led to."
    ),
    "retention_left_seconds": Instrument(
        Kind.HISTOGRAM, (), "What was left of the key's horizon at each redispatch."
    ),
    "lease_expirations_total": Instrument(
        Kind.COUNTER, (), "Leases that ended before their holder had recorded an outcome."
    ),
    "fenced_writes_total": Instrument(
        Kind.COUNTER, (), "Writes refused because their claim was lost."
    ),
    "late_outcomes_total": Instrument(
        Kind.COUNTER,
        (),
        "Answers that came after their claim was lost, kept as evidence.",
    ),
    "sends_prevented_total": Instrument(
        Kind.COUNTER, ("reason",), "Sends that a deadline, a horizon or a scope forbade."
    ),
    "reserve_seconds": Instrument(Kind.HISTOGRAM, (), "Time to reserve an intent."),
    "dispatch_seconds": Instrument(Kind.HISTOGRAM, (), "Time of one attempt."),
    "reconcile_seconds": Instrument(Kind.HISTOGRAM, (), "Time of one reconciliation."),
}
"""Every instrument of the broker, without its prefix; never a tenant label."""


def instrument(name: str, kind: Kind, labels: Mapping[str, str]) -> Instrument:
    """Return the instrument of this name.

    Raises:
        ValueError: a defect: no such instrument, another kind, or an undeclared label.
    """
    found = NAMES.get(name)
    if found is None or found.kind is not kind or not labels.keys() <= set(found.labels):
        raise ValueError(f"No {kind} {name!r} with labels {sorted(labels)}.")
    return found


class NullMeter:
    """Checks names and labels, and forgets."""

    def count(self, name: str, value: float = 1, **labels: str) -> None:
        """Accept a counter."""
        instrument(name, Kind.COUNTER, labels)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Accept an observation."""
        instrument(name, Kind.HISTOGRAM, labels)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Accept a gauge."""
        instrument(name, Kind.GAUGE, labels)
