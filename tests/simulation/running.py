"""Runs seeds, and makes of a failing one a short story that repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulation.contracts import BY_TOOL, KINDS
from tests.simulation.world import Broken, World, digest_of

TRIES_MAX = 400
"""Runs that a shrinking may take: a few seconds."""


@dataclass(frozen=True)
class Played:
    """One history: what was broken, if anything, and its story."""

    seed: int
    muted: frozenset[int]
    complaint: str | None
    story: Sequence[str]
    faults: Sequence[tuple[int, str]]

    @property
    def digest(self) -> str:
        """What two runs of one seed have in common."""
        return digest_of(self.story)


def play(
    seed: int, muted: frozenset[int] = frozenset(), tools: Sequence[str] = ()
) -> Played:
    """Run one seed, over some tools only if any is named.

    What the broker raises by itself is a complaint too.
    """
    kinds = [BY_TOOL[tool] for tool in tools] or KINDS
    world = World(seed, muted, kinds)
    complaint: str | None = None
    try:
        world.run()
    except Broken as broken:
        complaint = str(broken)
    except RuntimeError as error:
        complaint = f"defect: {error}"
    return Played(seed, muted, complaint, world.story, world.dice.faults)


def shrink(failing: Played) -> Played:
    """Mute as many faults as can be without losing the complaint's kind.

    Halves first, then single ones; every candidate is a full run of the same seed.
    """
    best, tries = failing, 0
    size = max(1, len(best.faults) // 2)
    while size >= 1 and tries < TRIES_MAX:
        numbers = [number for number, _ in best.faults]
        shorter = None
        for start in range(0, len(numbers), size):
            tries += 1
            muted = best.muted | frozenset(numbers[start : start + size])
            found = play(best.seed, muted)
            if _same_kind(found.complaint, failing.complaint) and len(found.faults) < len(
                best.faults
            ):
                shorter = found
                break
        if shorter is not None:
            best = shorter
            size = min(size, max(1, len(best.faults) // 2))
        elif size == 1:
            break
        else:
            size //= 2
    return best


def told(played: Played) -> str:
    """Write a failing history for a person: faults, story, and how to repeat it."""
    faults = ", ".join(sorted({name for _, name in played.faults})) or "none"
    muted = ",".join(map(str, sorted(played.muted)))
    again = f"python -m tests.simulation --seed {played.seed}"
    return "\n".join(
        [
            f"seed {played.seed}: {played.complaint}",
            f"faults that it takes: {faults}",
            "",
            *played.story,
            "",
            f"again: {again}" + (f" --muted {muted}" if muted else ""),
        ]
    )


def _same_kind(found: str | None, wanted: str | None) -> bool:
    if found is None or wanted is None:
        return False
    return found.partition(": ")[2][:24] == wanted.partition(": ")[2][:24]
