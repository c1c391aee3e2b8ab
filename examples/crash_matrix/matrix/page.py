"""The report as one page that needs nothing else: a grid, a table, a timeline a cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from examples.crash_matrix.matrix.cells import CLASSES, Disturbance, Scenario
from examples.crash_matrix.matrix.outcome import Line, Outcome

STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --ok: #1a7f37; --bad: #cf222e;
  --dim: #8889; --bar: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1180px;
  padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; }
h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.sum { margin-top: 0; color: var(--dim); }
.big { font-size: 1.1rem; font-weight: 600; }
.ok { color: var(--ok); } .bad { color: var(--bad); font-weight: 600; }
table { border-collapse: collapse; width: 100%; font-size: .86rem; }
th, td { text-align: left; padding: .25rem .5rem; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { position: sticky; top: 0; background: Canvas; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.grid th { writing-mode: vertical-rl; transform: rotate(180deg); font-weight: 500;
  position: static; vertical-align: bottom; }
.grid th:first-child, .grid th.row { writing-mode: horizontal-tb; transform: none; }
.grid td { text-align: center; padding: .15rem; }
.scroll { overflow-x: auto; }
code { font: .85em ui-monospace, monospace; }
details { border-bottom: 1px solid var(--line); }
summary { cursor: pointer; padding: .3rem 0; display: grid; gap: .6rem; font-size: .86rem;
  grid-template-columns: 1.2rem 15rem 15rem 8rem 4.5rem 4.5rem 5rem 9rem 4rem; }
summary.head { cursor: default; font-weight: 600; padding-left: 0; }
summary > span:nth-child(n+5):nth-child(-n+7), summary > span:last-child {
  text-align: right; font-variant-numeric: tabular-nums; }
ol { list-style: none; margin: .4rem 0 1rem; padding: 0; }
ol li { display: grid; grid-template-columns: 5rem 8rem 9rem 1fr; gap: .6rem;
  font-size: .83rem; padding: .1rem 0; align-items: center; }
li .t { text-align: right; font-variant-numeric: tabular-nums; color: var(--dim); }
li .track { height: .5rem; background: var(--bar); position: relative;
  border-radius: 3px; }
li .track i { position: absolute; top: 0; bottom: 0; width: 4px; border-radius: 2px;
  background: currentColor; }
li.ledger { color: #0969da; } li.target { color: #8250df; } li.player { color: #bc4c00; }
@media (prefers-color-scheme: dark) { :root { --ok: #3fb950; --bad: #f85149; }
  li.ledger { color: #58a6ff; } li.target { color: #bc8cff; }
  li.player { color: #ffa657; } }
"""

TABS: Final = """
for (const box of document.querySelectorAll('input[data-only]'))
  box.addEventListener('change', () => {
    const only = document.querySelector('input[data-only]:checked').dataset.only;
    for (const row of document.querySelectorAll('details'))
      row.hidden = only !== '' && !row.dataset.tags.split(' ').includes(only);
  });
"""


def written_page(seed: int, seconds: float, outcomes: Sequence[Outcome]) -> str:
    """Render a run: what was played where, and what each cell came to."""
    held = sum(outcome.holds for outcome in outcomes)
    mark = "ok" if held == len(outcomes) else "bad"
    at = datetime.now(UTC)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'>",
        f"<title>Crash matrix, seed {seed}</title><style>{STYLE}</style>",
        "<h1>Crash matrix</h1>",
        f"<p class=sum>{at:%Y-%m-%d %H:%M} UTC, seed {seed}, {seconds:.0f} s</p>",
        f"<p class='big {mark}'>{held} of {len(outcomes)} cells held.</p>",
        _classes(outcomes),
    ]
    for scenario in Scenario:
        mine = [outcome for outcome in outcomes if outcome.cell.scenario is scenario]
        if mine:
            title = f"{scenario}: {CLASSES[scenario]}"
            parts.append(f"<h2>{escape(title)}</h2>{_grid(mine)}")
    parts += ["<h2>Every cell, and what happened in it</h2>", _filters()]
    parts.append(_head())
    parts += map(_cell, outcomes)
    parts.append(f"<script>{TABS}</script></html>")
    return "\n".join(parts)


def _classes(outcomes: Sequence[Outcome]) -> str:
    rows = []
    for scenario in Scenario:
        mine = [outcome for outcome in outcomes if outcome.cell.scenario is scenario]
        if not mine:
            continue
        charges = _counted(len(outcome.evidence.charges) for outcome in mine)
        states = _counted(outcome.evidence.status for outcome in mine)
        rows.append(
            f"<tr><td>{scenario} {escape(CLASSES[scenario])}<td class=n>{len(mine)}"
            f"<td>{escape(charges)}<td>{escape(states)}"
            f"<td class=n>{sum(not outcome.holds for outcome in mine)}"
        )
    head = "<tr><th>class<th class=n>cells<th>charges at the target<th>final states"
    return f"<table>{head}<th class=n>broken{''.join(rows)}</table>"


def _counted(found: Iterable[object]) -> str:
    counts: dict[object, int] = {}
    for item in found:
        counts[item] = counts.get(item, 0) + 1
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{item} in {count} cells" for item, count in ordered)


def _grid(outcomes: Sequence[Outcome]) -> str:
    """Show where what was played: failpoints down, disturbances across."""
    cells: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        place = (outcome.cell.point, outcome.cell.disturbance)
        cells.setdefault(place, []).append(outcome)
    points = list(dict.fromkeys(outcome.cell.point for outcome in outcomes))
    across = [d for d in Disturbance if any(place[1] == d for place in cells)]
    head = "".join(f"<th>{escape(d.replace('_', ' '))}" for d in across)
    rows = "".join(
        f"<tr><th class=row><code>{point}</code>"
        + "".join(f"<td>{_square(cells.get((point, d), []))}" for d in across)
        for point in points
    )
    return f"<div class=scroll><table class=grid><tr><th>{head}{rows}</table></div>"


def _square(outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return ""
    broken = [outcome for outcome in outcomes if not outcome.holds]
    names = escape("\n".join(outcome.cell.name for outcome in outcomes), quote=True)
    if broken:
        return f"<span class=bad title='{names}'>✗ {len(broken)}</span>"
    times = len(outcomes) if len(outcomes) > 1 else ""
    return f"<span class=ok title='{names}'>✓{times}</span>"


def _filters() -> str:
    choices = [("", "all"), ("broken", "broken"), *((s, s) for s in Scenario)]
    boxes = "".join(
        f"<label><input type=radio name=only data-only='{only}'"
        f"{' checked' if not only else ''}> {label}</label> "
        for only, label in choices
    )
    return f"<p>{boxes}</p>"


def _head() -> str:
    names = ("", "failpoint", "disturbance", "after", "charges", "receipts", "attempts")
    cells = "".join(f"<span>{name}</span>" for name in (*names, "final state", "s"))
    return f"<summary class=head>{cells}</summary>"


def _cell(outcome: Outcome) -> str:
    cell, found = outcome.cell, outcome.evidence
    counts = (len(found.charges), len(found.receipts), len(found.attempts))
    form = f" ({cell.form})" if cell.form else ""
    mark = "ok" if outcome.holds else "bad"
    shown = (
        f"<span class={mark}>{cell.scenario}</span>",
        f"<code>{cell.point}</code>",
        f"<span>{escape(cell.disturbance + form)}</span>",
        f"<span>{cell.history}</span>",
        *(f"<span>{count}</span>" for count in counts),
        f"<span class={mark}>{escape(found.status)}</span>",
        f"<span>{outcome.seconds:.1f}</span>",
    )
    tags = f"{cell.scenario} {'' if outcome.holds else 'broken'}"
    complaints = [*outcome.broken, *([outcome.unplayed] if outcome.unplayed else [])]
    broken = "".join(f"<p class=bad>{escape(text)}</p>" for text in complaints)
    return (
        f"<details data-tags='{tags}'><summary>{''.join(shown)}</summary>"
        f"{broken}{_timeline(outcome.story)}</details>"
    )


def _timeline(story: Sequence[Line]) -> str:
    if not story:
        return ""
    begin = story[0].at
    span = max(story[-1].at - begin, 0.001)
    lines = "".join(_moment(line, line.at - begin, span) for line in story)
    return f"<ol>{lines}</ol>"


def _moment(line: Line, at: float, span: float) -> str:
    return (
        f"<li class={line.who.split('-')[0]}><span class=t>{at:.3f} s</span>"
        f"<span class=track><i style='left:{at / span * 97:.1f}%'></i></span>"
        f"<span>{escape(line.who)}</span><span>{escape(line.text)}</span>"
    )
