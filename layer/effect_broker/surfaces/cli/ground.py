"""What the commands share: the ledger for one use, refusals as exit statuses, and output.

Exit status: 0 done, 1 refused, 2 misused, 3 the ledger cannot be reached.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from effect_broker.domain.errors import EffectBrokerError, LedgerUnavailable
from effect_broker.settings import Settings
from effect_broker.telemetry import NullMeter

if TYPE_CHECKING:
    from effect_broker.wiring.core import Core

REFUSED: Final = 1
AWAY: Final = 3

SAID_EVERY_SECONDS: Final = 10.0
"""How often a long command says how far it is, where nobody watches."""

AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON, one document a line, for programs.")
]

_T = TypeVar("_T")


def on_the_ledger(use: Callable[[Core], Awaitable[_T]], *, seals: bool = False) -> _T:
    """Run one use of the ledger in a process that ends with it.

    What `seals` or opens payloads is refused without every key of the ledger.
    """
    from effect_broker.wiring.core import Core

    async def run() -> _T:
        core = Core(Settings.from_environment(), NullMeter(), seals=seals)
        try:
            return await use(core)
        finally:
            await core.connections.close()

    with refusals():
        return asyncio.run(run())


@contextmanager
def refusals() -> Iterator[None]:
    """End the process with a line and a status, where the broker refuses."""
    try:
        yield
    except LedgerUnavailable as error:
        _say(error)
        raise typer.Exit(AWAY) from None
    except EffectBrokerError as error:
        _say(error)
        raise typer.Exit(REFUSED) from None


def span(text: str | timedelta) -> timedelta:
    """Read an option's span of time, such as 30s, 5m or 24h; a default is one already."""
    from effect_broker.domain.durations import parse_duration

    if isinstance(text, timedelta):
        return text
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from None


@contextmanager
def status_line(about: str) -> Iterator[Callable[[str], None]]:
    """Show a person what is being done; silent where output is piped."""
    if not sys.stderr.isatty():
        yield lambda doing: None
        return
    from rich.console import Console

    with Console(stderr=True).status(about) as shown:
        yield lambda doing: shown.update(doing)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int], None]]:
    """Show how many have been done so far: moving to a person, else a line at times."""
    begun = said_at = time.monotonic()

    def write_at_times(count: int) -> None:
        nonlocal said_at
        now = time.monotonic()
        if now - said_at >= SAID_EVERY_SECONDS:
            said_at = now
            sys.stderr.write(f"{count:,} {what} after {now - begun:.0f} s\n")

    with status_line(f"0 {what}") as tell:
        if not sys.stderr.isatty():
            yield write_at_times
            return
        yield lambda count: tell(f"{count:,} {what}, {time.monotonic() - begun:.0f} s")


def print_json(document: Any) -> None:
    """Print one document on one line."""
    print(json.dumps(document, default=str))


def print_rows(
    rows: Sequence[dict[str, Any]], columns: Sequence[str], *, as_json: bool, empty: str
) -> None:
    """Print rows as JSON lines with all they hold, or as a table of the named columns.

    A column's heading is its name with spaces; `empty` is what a person reads where there
    is no row.
    """
    if as_json:
        for row in rows:
            print_json(row)
        return
    if not rows:
        print(empty)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        cells = [row.get(column) for column in columns]
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in cells))
    Console().print(table)


def _say(error: EffectBrokerError) -> None:
    sys.stderr.write(f"effect-broker: {error.message}\n")
