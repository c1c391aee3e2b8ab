"""One cell from the beginning to the judges' word."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from effect_broker.domain.errors import EffectBrokerError
from examples.crash_matrix.matrix.cells import Cell
from examples.crash_matrix.matrix.checks import (
    broken_by_answers,
    broken_by_processes,
    broken_promises,
)
from examples.crash_matrix.matrix.evidence import Evidence, instant, read_evidence
from examples.crash_matrix.matrix.grounds import Grounds
from examples.crash_matrix.matrix.listing import watch
from examples.crash_matrix.matrix.playing import Player
from examples.crash_matrix.matrix.world import NotPlayed, World, open_world
from examples.crash_matrix.target.client import TargetRefused

REPETITIONS = 3
NOT_PLAYED = (NotPlayed, EffectBrokerError, TargetRefused, psycopg.Error, OSError)


@dataclass(frozen=True)
class Line:
    """One line of a cell's story: when (seconds of the wall clock), who, what."""

    at: float
    who: str
    text: str


@dataclass(frozen=True)
class Outcome:
    """What became of a cell; `unplayed` says why it says nothing about any promise."""

    cell: Cell
    evidence: Evidence
    broken: Sequence[str]
    story: Sequence[Line]
    seconds: float
    unplayed: str | None = None

    @property
    def holds(self) -> bool:
        """Say whether it was played and every promise held."""
        return self.unplayed is None and not self.broken


async def play(grounds: Grounds, cell: Cell, number: int, seed: int) -> Outcome:
    """Play one cell and judge it."""
    started = time.monotonic()
    unplayed: str | None = None
    async with open_world(grounds, cell, number) as world:
        watching = asyncio.create_task(watch(world))
        try:
            await Player(world, random.Random(f"{seed}:{cell.name}")).play()  # noqa: S311
        except NOT_PLAYED as reason:
            unplayed = f"{type(reason).__name__}: {reason}"
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        if not watching.cancelled() and (error := watching.exception()):
            unplayed = unplayed or f"the list could not be watched: {error}"
        broken = [*world.broken, *await _judged_after(world)]
        found = await read_evidence(world.url, grounds.target, world.order.order)
        broken += broken_promises(cell.scenario, found)
        story = _story(world, found)
    return Outcome(
        cell,
        found,
        tuple(dict.fromkeys(broken)),
        story,
        time.monotonic() - started,
        unplayed,
    )


async def _judged_after(world: World) -> list[str]:
    """Let the caller repeat itself once more, and look at processes and answers."""
    for child in world.children:
        child.kill()
        await child.ended()
    statuses = {child.name: child.status for child in world.children}
    found = list(broken_by_processes(statuses))
    try:
        answers = await world.submitted(REPETITIONS)
        snapshot = await world.snapshot()
    except (NotPlayed, EffectBrokerError) as error:
        return [*found, f"the caller could not repeat itself: {error}"]
    status = str(snapshot.status) if snapshot else "none"
    return [*found, *broken_by_answers(answers, world.effect_ids, status)]


def _story(world: World, found: Evidence) -> Sequence[Line]:
    """Put what was played and who came to a failpoint into what was written and seen."""
    lines = [*lines_of(world.story, found)]
    for child in world.children:
        for note in world.reached(child):
            point, _, at = note.split()
            lines.append(Line(float(at), child.name, f"reaches {point}"))
    return sorted(lines, key=lambda line: line.at)


def lines_of(played: Sequence[tuple[float, str]], found: Evidence) -> Sequence[Line]:
    """Put what was played, what the ledger wrote and what the target saw in one order."""
    lines = [Line(at, "player", text) for at, text in played]
    for event in found.events:
        lines.append(
            Line(
                event.at.timestamp(),
                "ledger",
                f"{event.type}: {event.new_status} (by {event.actor})",
            )
        )
    for request in found.requests:
        key = request.idempotency_key or request.reference or ""
        says = f"{request.method} {key[:8]} -> {request.outcome} {request.status or ''}"
        lines.append(Line(instant(request.arrived_at).timestamp(), "target", says))
    return sorted(lines, key=lambda line: line.at)
