"""Runs the deployed cells, several at once, and has target and ledger judge each."""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread
from typing import Final

import psycopg
from rich.console import Console

from examples.crash_matrix.deployed.cells import TOOLS, full, quick
from examples.crash_matrix.deployed.ground import Ground, attribute, ground
from examples.crash_matrix.deployed.playing import Player
from examples.crash_matrix.matrix.cells import Cell
from examples.crash_matrix.matrix.checks import broken_by_answers, broken_promises
from examples.crash_matrix.matrix.evidence import read_evidence
from examples.crash_matrix.matrix.outcome import Outcome, lines_of
from examples.crash_matrix.matrix.running import (
    NOT_PLAYED,
    STATE,
    Progress,
    Run,
    nothing_chosen,
    table,
    verdict,
    write,
)
from examples.crash_matrix.matrix.times import Times
from examples.crash_matrix.matrix.world import NotPlayed
from examples.crash_matrix.scene import poll
from examples.crash_matrix.stack import Stack, StackFailed
from examples.crash_matrix.target.client import TargetRefused
from examples.crash_matrix.user import Order, UnexpectedAnswer
from examples.crash_matrix.workers import WorkerNotFound
from localstack.workspace import MINISTACK, Workspace

NAME: Final = "crash-matrix-deployed"
AT_ONCE: Final = 4
"""Fewer than the functions' environments: paused workers keep theirs."""

SWEEP_SECONDS: Final = 2.0
"""Between two sweeps that are sent at once; each may need a cold worker."""

QUEUES_SECONDS_MAX: Final = 90.0
"""Twice the time after which a nudge comes again, and a pass."""

TIMES: Final = Times(lease=timedelta(seconds=5), settlement=timedelta(seconds=2))
"""As the contracts of the demo's targets say."""

UNPLAYED: Final = (
    NotPlayed,
    WorkerNotFound,
    UnexpectedAnswer,
    TargetRefused,
    psycopg.Error,
    OSError,
)


def deployed(arguments: argparse.Namespace) -> int:
    """Run the verb and return the exit status."""
    console = Console(highlight=False)
    workspace = Workspace.from_environment()
    if workspace.kind != MINISTACK:
        sys.stderr.write(f"{NAME}: workers in containers cannot be killed from here\n")
        return NOT_PLAYED
    cells = [
        c for c in (quick() if arguments.quick else full()) if arguments.only in c.name
    ]
    if not cells:
        return nothing_chosen(arguments.only)
    try:
        stack = Stack.found(workspace) or Stack.up(workspace)
    except StackFailed as error:
        sys.stderr.write(f"{NAME}: {error}\n")
        return NOT_PLAYED
    console.print(
        f"[bold]{len(cells)} cells on {stack.url}, seed {arguments.seed}[/]"
        + ("" if arguments.quick else ": a sweep a minute, by the schedule alone")
    )
    found = run(
        stack, cells, seed=arguments.seed, console=console, hurried=arguments.quick
    )
    write(found, STATE, NAME)
    Console(highlight=False, width=max(console.width, 140)).print(table(found))
    return verdict(found, console, NAME)


def run(
    stack: Stack, cells: Sequence[Cell], *, seed: int, console: Console, hurried: bool
) -> Run:
    """Play cells on a stack that nobody else disturbs.

    Where it is hurried, sweeps are sent at once, and not only by the schedule.
    """
    started = time.monotonic()
    progress = Progress(len(cells), console)
    token = secrets.token_hex(3)

    def one(numbered: tuple[int, Cell]) -> Outcome:
        number, cell = numbered
        outcome = _played(here, cell, f"deployed-{token}-{number}", seed)
        progress.tell(outcome)
        return outcome

    with ground(stack) as here:
        with _sweeping(stack, at_once=hurried), ThreadPoolExecutor(AT_ONCE) as pool:
            outcomes = list(pool.map(one, enumerate(cells, start=1)))
        left = _nudges_left(here)
    console.print(left)
    return Run(seed, outcomes, time.monotonic() - started)


def _played(here: Ground, cell: Cell, name: str, seed: int) -> Outcome:
    started = time.monotonic()
    unplayed: str | None = None
    order = Order(TOOLS[cell.scenario], name)
    player = Player(here, cell, order, random.Random(f"{seed}:{cell.name}"))  # noqa: S311
    try:
        player.play()
    except UNPLAYED as reason:
        unplayed = f"{type(reason).__name__}: {reason}"
    evidence = asyncio.run(
        read_evidence(
            here.database_url,
            here.stack.target,
            order.order,
            operation_key=order.operation_key,
            times=TIMES,
        )
    )
    broken = [*player.broken, *broken_promises(cell.scenario, evidence)]
    if unplayed is None:
        told = player.repeated()
        broken += broken_by_answers(told, player.effect_ids, evidence.status)
    story = lines_of(player.story, evidence)
    seconds = time.monotonic() - started
    return Outcome(cell, evidence, tuple(broken), story, seconds, unplayed)


@contextmanager
def _sweeping(stack: Stack, *, at_once: bool) -> Iterator[None]:
    """Send often what the schedule sends each minute, so that nobody waits."""
    over = Event()

    def sweep() -> None:
        while not over.wait(SWEEP_SECONDS):
            stack.sweep("reconcile")

    sweeping = Thread(target=sweep, name="sweeping")
    if at_once:
        sweeping.start()
    try:
        yield
    finally:
        over.set()
        if at_once:
            sweeping.join()


def _nudges_left(here: Ground) -> str:
    """Wait for what killed workers had not deleted: it comes again, and is done with."""
    urls = [here.queue_url("dispatch"), here.queue_url("reconcile")]
    states = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")

    def count() -> int:
        return sum(int(attribute(here.stack, url, n)) for url in urls for n in states)

    hidden = count()
    poll(lambda: count() == 0 or None, QUEUES_SECONDS_MAX)
    return f"{hidden} nudges were under way at the end, {count()} of them are left"
