"""What a row is given to measure itself, and what it may say instead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from benchmarks.arithmetic import Measured, Side, Target, interleave
from benchmarks.server import Server


class NotMeasurable(Exception):
    """A row that cannot be measured on this checkout, and why."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The server, the size of the run, and where progress is told."""

    server: Server
    quick: bool
    told: Callable[[float], None]

    def size(self, full: int, *, quick: int) -> int:
        """Return the size of this form."""
        return quick if self.quick else full

    async def take_turns(self, sides: Sequence[Side]) -> list[list[float]]:
        """Interleave the sides, as many rounds as this form has."""
        rounds = self.size(15, quick=5)
        return await interleave(
            sides, rounds, told=lambda number: self.told((number + 1) / (rounds + 1))
        )


@dataclass(frozen=True, slots=True)
class Case:
    """A target, and what measures it."""

    target: Target
    measure: Callable[[Bench], Awaitable[Measured]]
