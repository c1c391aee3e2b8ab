"""Notices when the ledger's clock steps: what it permits after that may be too early.

Every wait that permits a send is read off the ledger's clock (design rule 17). A failover
may bring another clock; a step forward would end settlement bounds before their time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from effect_broker.ports import Deadline


@dataclass(frozen=True, slots=True)
class _Reading:
    ledger: float
    before: Deadline
    after: Deadline


class ClockWatch:
    """Compares how far the ledger's clock moved with how far this host's clocks did.

    The host's clocks bracket each call; a frozen process may find some of them standing
    still, so the ledger's clock has stepped only if it moved further than every one of
    them, or less than any, by more than `step_max` beyond the calls' own durations.
    """

    def __init__(self, step_max: timedelta) -> None:
        self._step_max = step_max.total_seconds()
        self._last: _Reading | None = None

    def step(
        self, ledger_now: datetime, before: Deadline, after: Deadline
    ) -> timedelta | None:
        """Return by how much the ledger's clock stepped since the last call, if it did.

        `before` and `after` are readings of the host's clocks around the call that
        answered with `ledger_now`.
        """
        reading = _Reading(ledger_now.timestamp(), before, after)
        last, self._last = self._last, reading
        if last is None:
            return None
        moved = reading.ledger - last.ledger
        longest = max(_spans(last.before, reading.after))
        shortest = min(_spans(last.after, reading.before))
        if moved > longest + self._step_max:
            return timedelta(seconds=moved - longest)
        if moved < shortest - self._step_max:
            return timedelta(seconds=moved - shortest)
        return None


def _spans(first: Deadline, second: Deadline) -> tuple[float, float, float]:
    return (
        second.monotonic - first.monotonic,
        second.boottime - first.boottime,
        second.wall - first.wall,
    )
