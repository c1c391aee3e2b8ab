"""What a person reads: a table as the rows come, and the files that keep it."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.arithmetic import FAILED, HOLDS, INDICATIVE, MISSED, MISSING, Row, Target

COLOURS: Final = {
    HOLDS: "green",
    MISSED: "red",
    MISSING: "yellow",
    FAILED: "bold red",
    INDICATIVE: "cyan",
}


def table(rows: Sequence[Row], *, quick: bool) -> Table:
    """Return the rows as a table, the verdict last."""
    made = Table(title="effect-broker, quick form" if quick else "effect-broker")
    made.add_column("row")
    made.add_column("what")
    made.add_column("measured", justify="right")
    made.add_column("target", justify="right")
    made.add_column("verdict")
    for row in rows:
        colour = COLOURS[row.verdict]
        made.add_row(
            row.target.name,
            f"{row.target.what}: {row.why_not}" if row.why_not else row.target.what,
            "" if row.value is None else shown(row.value, row.target),
            f"{'' if row.target.exact else '≤ '}{shown(row.target.limit, row.target)}",
            f"[{colour}]{row.verdict}[/]",
        )
    return made


def shown(value: float, target: Target) -> str:
    """Write a quantity with its unit, as finely as it is worth."""
    digits = f"{value:.0f}" if value == int(value) or value >= 100 else f"{value:.2f}"
    return f"{digits}{target.unit if target.unit in ('', 'x') else ' ' + target.unit}"


def write_json(path: Path, rows: Sequence[Row], *, quick: bool, server: str) -> None:
    """Keep the rows, with what they were measured on."""
    document: dict[str, Any] = {
        "form": "quick" if quick else "full",
        "postgres": server,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "rows": [row.as_json() for row in rows],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def summary(console: Console, rows: Sequence[Row]) -> None:
    """Print how many rows had each verdict."""
    counts = {word: sum(row.verdict == word for row in rows) for word in COLOURS}
    console.print(", ".join(f"{count} {word}" for word, count in counts.items() if count))
