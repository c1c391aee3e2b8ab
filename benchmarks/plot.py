"""The table as a picture: each row's share of its target on one axis, written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from benchmarks.arithmetic import HOLDS, MISSED, Row
from benchmarks.report import shown

WIDTH: Final = 880
LEFT: Final = 430
RIGHT: Final = 110
LINE: Final = 24
TOP: Final = 56
SHARE_MAX: Final = 2.0
"""A bar ends at twice its target: how far beyond is written beside it."""

_STYLE: Final = """
    text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
    text { fill: #1f2328; }
    .title { font-size: 15px; font-weight: 600; }
    .note, .target { fill: #59636e; }
    .holds { fill: #2da44e; } .missed { fill: #cf222e; } .indicative { fill: #0969da; }
    .limit { stroke: #59636e; stroke-width: 1.5; stroke-dasharray: 3 3; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; } .note, .target { fill: #b1bac4; }
      .holds { fill: #3fb950; } .missed { fill: #f85149; } .indicative { fill: #4493f8; }
      .limit { stroke: #9198a1; }
    }
"""


def plot(rows: Sequence[Row], *, title: str) -> str:
    """Return an SVG: a bar a row, the dashed line its target."""
    height = TOP + LINE * len(rows) + 16
    at_target = LEFT + _width(1.0)
    held = sum(row.verdict == HOLDS for row in rows)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' width="{WIDTH}" height="{height}" role="img" aria-labelledby="title desc">',
        f'  <title id="title">{escape(title)}</title>',
        f'  <desc id="desc">{held} of {len(rows)} targets hold.</desc>',
        f"  <style>{_STYLE}  </style>",
        f'  <text class="title" x="12" y="24">{escape(title)}</text>',
        f'  <text class="note" x="{at_target - 16:.0f}" y="44">target</text>',
    ]
    for number, row in enumerate(rows):
        lines += _bar(row, TOP + number * LINE)
    lines += [
        f'  <path class="limit" d="M{at_target:.1f} {TOP - 6}V{height - 10}"/>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _bar(row: Row, y: int) -> list[str]:
    label = f'  <text x="12" y="{y + 12}">{escape(row.target.what)}</text>'
    if row.value is None:
        note = f'  <text class="note" x="{LEFT}" y="{y + 12}">{row.verdict}</text>'
        return [label, note]
    width = max(2.0, _width(_share(row, row.value)))
    value = shown(row.value, row.target)
    limit = shown(row.target.limit, row.target)
    size = f'width="{width:.1f}" height="16" rx="2"'
    return [
        label,
        f'  <rect class="{row.verdict}" x="{LEFT}" y="{y}" {size}/>',
        f'  <text x="{LEFT + width + 6:.1f}" y="{y + 12}">{escape(value)}'
        f' <tspan class="target">of {escape(limit)}</tspan></text>',
    ]


def _share(row: Row, value: float) -> float:
    """Return the value as a share of its target; a target of zero is met or is not."""
    if row.target.limit == 0:
        return 0.0 if row.verdict != MISSED else SHARE_MAX
    return value / row.target.limit


def _width(share: float) -> float:
    return (WIDTH - LEFT - RIGHT) * min(share, SHARE_MAX) / SHARE_MAX
