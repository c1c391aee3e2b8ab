"""The harness's own arithmetic: rounds that take turns, medians, verdicts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

INDICATIVE: Final = "indicative"
HOLDS: Final = "holds"
MISSED: Final = "missed"
MISSING: Final = "missing"
FAILED: Final = "failed"

Side = Callable[[], Awaitable[float]]
"""One repetition of one side: what it took, in seconds for each operation."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is promised of one quantity; lower is better, unless it is to be `exact`.

    `unit` is "x" for a ratio to the floor. `full_only` marks a quantity whose size is the
    point: the quick form prints it and draws no conclusion.
    """

    name: str
    what: str
    limit: float
    unit: str = "x"
    exact: bool = False
    full_only: bool = False

    def met_by(self, value: float) -> bool:
        """Say whether a measured value keeps the promise."""
        return value == self.limit if self.exact else value <= self.limit


@dataclass(frozen=True, slots=True)
class Measured:
    """A quantity with the numbers behind it."""

    value: float | None
    details: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; where there is no `value`, `why_not` says why.

    `failed`: it could have been measured, and broke.
    """

    target: Target
    value: float | None
    quick: bool
    seconds: float
    details: Mapping[str, float] = field(default_factory=dict)
    why_not: str = ""
    failed: bool = False

    @property
    def holds(self) -> bool:
        """Whether the target was measured and met; what is missing never holds."""
        return self.value is not None and self.target.met_by(self.value)

    @property
    def verdict(self) -> str:
        """Return one word for the table."""
        if self.value is None:
            return FAILED if self.failed else MISSING
        if self.quick and self.target.full_only:
            return INDICATIVE
        return HOLDS if self.holds else MISSED

    def as_json(self) -> dict[str, Any]:
        """Return the row as `.local/bench.json` holds it."""
        return {
            "name": self.target.name,
            "what": self.target.what,
            "ratio": self.value,
            "target": self.target.limit,
            "unit": self.target.unit,
            "holds": self.holds,
            "verdict": self.verdict,
            "why_not": self.why_not or None,
            "seconds": round(self.seconds, 1),
            "details": dict(self.details),
        }


async def interleave(
    sides: Sequence[Side], rounds: int, *, told: Callable[[int], None] = lambda _: None
) -> list[list[float]]:
    """Run every side once a round and return each side's times; the first round is lost.

    Each round goes through the sides in the opposite order of the last, so that a drift
    of the machine within a round falls on both. The lost round pays for plans and caches.
    """
    times: list[list[float]] = [[] for _ in sides]
    for number in range(rounds + 1):
        order = range(len(sides)) if number % 2 == 0 else reversed(range(len(sides)))
        for side in order:
            taken = await sides[side]()
            if number > 0:
                times[side].append(taken)
        told(number)
    return times


def ratio(ours: Sequence[float], floor: Sequence[float]) -> float:
    """Return the median of the rounds' own ratios.

    Both sides of a round ran within a moment, so that what slows the machine for longer
    leaves their ratio alone.

    Raises:
        ValueError: the sides did not run equally often, or never.
    """
    return median(a / b for a, b in zip(ours, floor, strict=True))


def against(ours: Sequence[float], floor: Sequence[float]) -> Measured:
    """Return the ratio with both medians, in milliseconds for one operation."""
    ratios = sorted(a / b for a, b in zip(ours, floor, strict=True))
    return Measured(
        ratio(ours, floor),
        {
            "ours_ms": median(ours) * 1000,
            "floor_ms": median(floor) * 1000,
            "lowest_round": ratios[0],
            "highest_round": ratios[-1],
        },
    )


def exit_code(rows: Sequence[Row], *, quick: bool) -> int:
    """Return 1 where a row broke, or the full form could not measure one, else 0.

    A target that is missed is a finding, printed as one; noise on a small machine must
    not break a build.
    """
    broken = any(row.failed for row in rows)
    return 1 if broken or (not quick and any(row.value is None for row in rows)) else 0
