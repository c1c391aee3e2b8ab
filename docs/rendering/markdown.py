"""Tables in Markdown, laid out so that a changed cell changes one line of a diff."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are not padded, so that no row depends on another."""
    lines = [_row(head), "|" + "---|" * len(head)]
    return "\n".join([*lines, *(_row([_cell(cell) for cell in row]) for row in rows)])


def code(text: object) -> str:
    """Return text set as code."""
    return f"`{text}`"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
