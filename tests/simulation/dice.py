"""What a seed decides: every draw comes from here, and every fault has a number."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """One stream of draws. Faults whose numbers are in `muted` are drawn and do not
    happen: a shorter history with the same seed.
    """

    def __init__(self, seed: int, muted: frozenset[int] = frozenset()) -> None:
        self._random = Random(seed)
        self._muted = muted
        self._drawn = 0
        self.calm = False
        self.faults: list[tuple[int, str]] = []

    def fault(self, name: str, probability: float) -> bool:
        """Say whether a fault happens here; in calm times none does."""
        if self.calm or self._random.random() >= probability:
            return False
        number = self._drawn
        self._drawn += 1
        if number in self._muted:
            return False
        self.faults.append((number, name))
        return True

    def chance(self, probability: float) -> bool:
        """Draw what is no fault."""
        return self._random.random() < probability

    def between(self, low: float, high: float) -> float:
        """Draw a span."""
        return low + (high - low) * self._random.random()

    def below(self, count: int) -> int:
        """Draw a place among `count`."""
        return int(self._random.random() * count)

    def one_of(self, things: Sequence[T]) -> T:
        """Draw one thing."""
        return things[self.below(len(things))]

    def bits(self, count: int) -> int:
        """Draw an id's bits."""
        return self._random.getrandbits(count)
