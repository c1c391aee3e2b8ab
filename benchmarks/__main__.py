"""`python -m benchmarks [--quick] [--only NAME …]`: measure, print, keep."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from benchmarks.arithmetic import Measured, Row, exit_code
from benchmarks.bench import Bench, Case, NotMeasurable
from benchmarks.plot import plot
from benchmarks.report import summary, table, write_json
from benchmarks.server import Server
from benchmarks.suite import chosen
from effect_broker.domain.errors import EffectBrokerError
from effect_broker.embedded import EmbeddedPostgresError

LOCAL: Final = Path(__file__).parent.parent / ".local"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, keep it in files; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        cases = chosen(options.only)
        server = Server(
            LOCAL / f"bench-{os.getpid()}", commit_delay_milliseconds=options.commit_delay
        )
    except (ValueError, EmbeddedPostgresError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    try:
        rows = _measure_all(cases, server, quick=options.quick)
        version = server.version
    finally:
        server.close()
    console = Console()
    console.print(table(rows, quick=options.quick))
    summary(console, rows)
    write_json(options.json, rows, quick=options.quick, server=version)
    form = "quick form" if options.quick else "full form"
    options.plot.write_text(plot(rows, title=f"Measured over target, {form}"))
    console.print(f"[dim]{options.json}  {options.plot}[/]")
    return exit_code(rows, quick=options.quick)


def _measure_all(cases: Sequence[Case], server: Server, *, quick: bool) -> list[Row]:
    rows: list[Row] = []
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        for number, case in enumerate(cases, 1):
            label = f"{number}/{len(cases)} {case.target.name}"
            task = progress.add_task(label, total=1.0)
            row = _measure(case, Bench(server, quick, partial(_told, progress, task)))
            progress.remove_task(task)
            if not progress.console.is_terminal:
                progress.console.print(f"{label}: {row.verdict}, {row.seconds:.1f} s")
            rows.append(row)
    return rows


def _measure(case: Case, bench: Bench) -> Row:
    """Measure a row; one that breaks is a row that says so, and the others go on."""
    measured, why_not, failed = Measured(None), "", False
    begun = time.monotonic()
    try:
        measured = asyncio.run(_run(case, bench))
    except NotMeasurable as reason:
        why_not = str(reason)
    except (psycopg.Error, EffectBrokerError, AssertionError, TimeoutError) as error:
        traceback.print_exc()
        why_not, failed = f"{type(error).__name__}, see above", True
    return Row(
        target=case.target,
        value=measured.value,
        quick=bench.quick,
        seconds=time.monotonic() - begun,
        details=measured.details,
        why_not=why_not,
        failed=failed,
    )


async def _run(case: Case, bench: Bench) -> Measured:
    return await case.measure(bench)


def _told(progress: Progress, task: TaskID, share: float) -> None:
    progress.update(task, completed=share)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="smaller sizes, under two minutes"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="rows, or how they start"
    )
    parser.add_argument(
        "--commit-delay",
        type=float,
        default=0,
        metavar="MS",
        help="make each commit slower by this, as on a disk behind a network",
    )
    parser.add_argument("--json", type=Path, default=LOCAL / "bench.json")
    parser.add_argument("--plot", type=Path, default=LOCAL / "bench.svg")
    return parser


if __name__ == "__main__":
    sys.exit(main())
