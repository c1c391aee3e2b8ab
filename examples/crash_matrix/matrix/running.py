"""Runs the matrix: many cells at once, with progress, a table, JSON and a page."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from examples.crash_matrix.matrix.cells import Cell, full, quick
from examples.crash_matrix.matrix.grounds import Grounds, grounds
from examples.crash_matrix.matrix.mutants import MUTANTS
from examples.crash_matrix.matrix.outcome import Outcome, play
from examples.crash_matrix.matrix.page import written_page

STATE = Path(__file__).resolve().parents[3] / ".local"
AT_ONCE = 12
KEPT, BROKEN, NOT_PLAYED = 0, 1, 2


@dataclass(frozen=True)
class Run:
    """One run of the matrix and what became of it, in the order of the cells."""

    seed: int
    outcomes: Sequence[Outcome]
    seconds: float

    @property
    def exit_status(self) -> int:
        """0: every promise held. 1: one was broken. 2: a cell could not be played."""
        if any(outcome.broken for outcome in self.outcomes):
            return BROKEN
        return NOT_PLAYED if any(o.unplayed for o in self.outcomes) else KEPT


@dataclass
class Progress:
    """Says each cell as it ends."""

    total: int
    console: Console
    done: int = 0
    started: float = field(default_factory=time.monotonic)

    def tell(self, outcome: Outcome) -> None:
        """Print one line."""
        self.done += 1
        mark = "[green]✓[/]" if outcome.holds else "[bold red]✗[/]"
        line = f"{self.done:4}/{self.total} {time.monotonic() - self.started:6.1f} s "
        name = escape(outcome.cell.name)
        figures = f"[dim]{len(outcome.evidence.charges)} {outcome.evidence.status}[/]"
        self.console.print(f"{line}{mark} {name}  {figures}", soft_wrap=True)
        for broken in outcome.broken:
            self.console.print(f"      [bold red]BROKEN[/] {escape(broken)}")
        if outcome.unplayed:
            self.console.print(f"      [yellow]not played[/] {escape(outcome.unplayed)}")


async def run(
    cells: Sequence[Cell],
    *,
    seed: int,
    at_once: int,
    folder: Path,
    console: Console,
    server_url: str | None = None,
    mutant: str | None = None,
) -> Run:
    """Play cells in the seed's order, `at_once` at a time, with what `folder` holds."""
    started = time.monotonic()
    order = list(cells)
    random.Random(seed).shuffle(order)  # noqa: S311 - a seed that repeats
    numbers = {cell: number for number, cell in enumerate(cells, start=1)}
    places = asyncio.Semaphore(at_once)
    progress = Progress(len(cells), console)

    async def one(here: Grounds, cell: Cell) -> Outcome:
        async with places:
            outcome = await play(here, cell, numbers[cell], seed)
            progress.tell(outcome)
            return outcome

    async with (
        grounds(folder, server_url, mutant=mutant) as here,
        asyncio.TaskGroup() as group,
    ):
        tasks = {cell: group.create_task(one(here, cell)) for cell in order}
    return Run(seed, [tasks[cell].result() for cell in cells], time.monotonic() - started)


def rows(found: Run) -> list[dict[str, object]]:
    """Return the rows of the JSON file, one a cell."""
    return [
        {
            "scenario": outcome.cell.scenario,
            "failpoint": outcome.cell.point,
            "disturbance": outcome.cell.disturbance,
            "history": outcome.cell.history,
            "form": outcome.cell.form or None,
            "charges": len(outcome.evidence.charges),
            "receipts": len(outcome.evidence.receipts),
            "attempts": len(outcome.evidence.attempts),
            "requests": len(outcome.evidence.posts),
            "status": outcome.evidence.status,
            "holds": outcome.holds,
            "broken": list(outcome.broken),
            "not_played": outcome.unplayed,
            "seconds": round(outcome.seconds, 2),
        }
        for outcome in found.outcomes
    ]


def table(found: Run) -> Table:
    """Return the table of what each cell came to."""
    shown = Table("", "failpoint", "disturbance", "after", box=SIMPLE_HEAD)
    for heading in ("charges", "receipts", "attempts"):
        shown.add_column(heading, justify="right")
    shown.add_column("final state")
    shown.add_column("holds")
    for outcome in found.outcomes:
        cell, evidence = outcome.cell, outcome.evidence
        counts = (evidence.charges, evidence.receipts, evidence.attempts)
        form = f" ({cell.form})" if cell.form else ""
        shown.add_row(
            cell.scenario,
            cell.point,
            f"{cell.disturbance}{form}",
            cell.history,
            *(str(len(count)) for count in counts),
            evidence.status,
            "yes" if outcome.holds else "[bold red]NO[/]",
        )
    return shown


def write(found: Run, state: Path, name: str = "crash-matrix") -> None:
    """Write the JSON and the page beside each other."""
    state.mkdir(exist_ok=True)
    (state / f"{name}.json").write_text(
        json.dumps({"seed": found.seed, "rows": rows(found)}, indent=2) + "\n"
    )
    (state / f"{name}.html").write_text(
        written_page(found.seed, found.seconds, found.outcomes)
    )


def matrix(arguments: argparse.Namespace) -> int:
    """Run the verb and return the exit status."""
    STATE.mkdir(exist_ok=True)
    with (STATE / "crash-matrix.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write("crash-matrix: another run of this checkout is under way\n")
            return NOT_PLAYED
        return _matrix(arguments)


def _matrix(arguments: argparse.Namespace) -> int:
    console = Console(highlight=False)
    cells = _chosen(arguments)
    if not cells:
        return nothing_chosen(arguments.only)
    seed = arguments.seed
    console.print(
        f"[bold]{len(cells)} cells, {arguments.at_once} at once, seed {seed}[/]"
    )
    found = asyncio.run(
        run(
            cells,
            seed=seed,
            at_once=arguments.at_once,
            folder=STATE / "crash-matrix",
            console=console,
            mutant=arguments.mutant,
        )
    )
    if arguments.mutant is None:
        write(found, STATE)
    wide = Console(highlight=False, width=max(console.width, 140))
    wide.print(table(found))
    return verdict(found, console)


def nothing_chosen(only: str) -> int:
    """Refuse to call a run of nothing a success."""
    sys.stderr.write(f"crash-matrix: no cell's name holds {only!r}\n")
    return NOT_PLAYED


def verdict(found: Run, console: Console, name: str = "crash-matrix") -> int:
    """Name what did not hold, and return the exit status."""
    for outcome in found.outcomes:
        for broken in outcome.broken:
            sys.stderr.write(f"crash-matrix: {outcome.cell.name}: {broken}\n")
        if outcome.unplayed:
            sys.stderr.write(
                f"crash-matrix: {outcome.cell.name}: not played: {outcome.unplayed}\n"
            )
    held = sum(outcome.holds for outcome in found.outcomes)
    console.print(
        f"{held} of {len(found.outcomes)} cells held, in {found.seconds:.0f} s,"
        f" seed {found.seed}. {os.path.relpath(STATE / f'{name}.html')}"
    )
    return found.exit_status


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    add_choice(parser)
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="cells at a time")
    parser.add_argument(
        "--mutant", choices=list(MUTANTS), help="plant a fault, and play what catches it"
    )


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Say how cells are chosen, and what repeats a run."""
    parser.add_argument("--quick", action="store_true", help="the form for CI: minutes")
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(10**6)
    )
    parser.add_argument("--only", default="", help="cells whose name holds this text")


def _chosen(arguments: argparse.Namespace) -> Sequence[Cell]:
    if arguments.mutant:
        return [MUTANTS[arguments.mutant].caught_by]
    cells = quick() if arguments.quick else full()
    return [cell for cell in cells if arguments.only in cell.name]
