"""What the demo says while it happens, and which promises it has seen kept or broken."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

COLOURS = {"A": "cyan", "B": "magenta", "C": "yellow"}


class DemoFailed(Exception):
    """The demo could not be carried out; nothing is said about any promise."""


class PromiseBroken(Exception):
    """A promise was seen broken in a way that leaves nothing to go on with."""

    def __init__(self, scenario: str, promise: str) -> None:
        super().__init__(f"{scenario}: {promise}")
        self.scenario = scenario
        self.promise = promise


@dataclass(frozen=True)
class Figures:
    """What one scenario came to, read at the target and through the API."""

    charges: int
    receipts: int
    attempts: int
    status: str


class Teller:
    """Prints one line a step, with the seconds since the demo began."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._started = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._started

    def heading(self, text: str) -> None:
        """Print a line that belongs to no scenario."""
        self.console.print(f"\n[bold]{escape(text)}[/]", soft_wrap=True)

    def say(self, scenario: str, text: str, *, mark: str = " ") -> None:
        """Print a step of a scenario."""
        colour = COLOURS[scenario]
        line = f"[dim]{self.elapsed:5.1f} s[/]  [bold {colour}]{scenario}[/] {mark} "
        self.console.print(line + escape(text), soft_wrap=True)

    def table(self, rows: Sequence[tuple[str, str, Figures]]) -> None:
        """Print what each scenario came to."""
        table = Table("", "target", box=SIMPLE_HEAD)
        for heading in ("charges", "receipts", "attempts"):
            table.add_column(heading, justify="right")
        table.add_column("final state")
        for scenario, target, figures in rows:
            name = f"[bold {COLOURS[scenario]}]{scenario}[/]"
            counts = (figures.charges, figures.receipts, figures.attempts)
            table.add_row(name, target, *map(str, counts), figures.status)
        self.console.print()
        self.console.print(table)


@dataclass
class Promises:
    """Every promise that was looked at, by scenario, and whether it held."""

    teller: Teller
    broken: list[str] = field(default_factory=list)
    seen: dict[str, dict[str, bool]] = field(default_factory=dict)

    def check(self, scenario: str, promise: str, held: bool) -> None:
        """Record one look, and say what was seen."""
        self.seen.setdefault(scenario, {})[promise] = held
        if not held:
            self.broken.append(f"{scenario}: {promise}")
        mark = "[green]✓[/]" if held else "[bold red]✗ BROKEN:[/]"
        self.teller.say(scenario, promise, mark=mark)

    def held(self, scenario: str) -> bool:
        """Say whether a scenario was looked at, and every look was well."""
        looks = self.seen.get(scenario, {})
        return bool(looks) and all(looks.values())
