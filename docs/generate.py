"""Renders the parts of the documents that restate code, or says that one is stale.

    python -m docs.generate            write what has changed
    python -m docs.generate --check    change nothing; fail where a part is stale

Such a part stands between `<!-- generated: NAME -->` and `<!-- end generated -->`; the
prose around it is written by hand. Files of FILES are generated as a whole.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Final

from docs.rendering import (
    client,
    commands,
    contract_fields,
    errors,
    field_cases,
    guarantees,
    mutants,
    openapi,
    state_machine,
)

ROOT: Final = Path(__file__).resolve().parent.parent

PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "states-sending": state_machine.sending,
    "states-recovering": state_machine.recovering,
    "states-arrows": state_machine.arrows,
    "guarantees": guarantees.guarantees,
    "errors-tree": errors.tree,
    "errors-answers": errors.answers,
    "contract-fields": contract_fields.contract_fields,
    "http-routes": openapi.routes,
    "field-cases": field_cases.cases,
    "simulation-mutants": mutants.caught,
    "cli-commands": commands.commands,
    "client-errors": client.tree,
    "client-repeats": client.repeats,
}

FILES: Final[Mapping[str, Callable[[], str]]] = {
    "docs/openapi.json": openapi.document,
    "layer/effect_broker/contracts.schema.json": contract_fields.editor_schema,
}

CONTEXT: Final = 20
"""Characters shown before the place where a line starts to differ."""

_PART: Final = re.compile(
    r"<!-- generated: (?P<name>\S+) -->\n.*?<!-- end generated -->", re.DOTALL
)


class BrokenDocument(ValueError):
    """A document asks for a part that nothing renders, or a part stands nowhere."""


def documents(root: Path = ROOT) -> Sequence[Path]:
    """Return every document that is written by people."""
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")])


def rendered(root: Path = ROOT) -> Iterator[tuple[Path, str]]:
    """Yield each generated document as it should be.

    Raises:
        BrokenDocument: a part's name is unknown, or a known part stands in no document.
    """
    used: set[str] = set()
    for path in documents(root):
        text = path.read_text()
        used |= {match["name"] for match in _PART.finditer(text)}
        yield path, _PART.sub(_render_part, text)
    if missing := sorted(PARTS.keys() - used):
        raise BrokenDocument(f"no document shows {', '.join(missing)}")
    for name, render in FILES.items():
        yield root / name, render()


def hint(path: Path, now: str, wanted: str) -> str:
    """Name the first line in which a file differs from what it should be, and how."""
    pairs = zip_longest(now.splitlines(), wanted.splitlines())
    for number, (old, new) in enumerate(pairs, start=1):
        if old != new:
            start = _first_difference(old or "", new or "")
            is_, should_be = _shown(old, start), _shown(new, start)
            return f"{path}:{number}: is {is_}, should be {should_be}"
    return f"{path}: differs at its end"


def main(arguments: Sequence[str]) -> int:
    """Write or check; return the exit status."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m docs.generate [--check]", file=sys.stderr)
        return 2
    stale = 0
    for path, wanted in rendered():
        now = path.read_text() if path.exists() else ""
        if now == wanted:
            continue
        stale += 1
        if arguments:
            print(hint(path.relative_to(ROOT), now, wanted))
        else:
            path.write_text(wanted)
            print(f"wrote {path.relative_to(ROOT)}")
    if stale and arguments:
        print("run: python -m docs.generate", file=sys.stderr)
        return 1
    return 0


def _render_part(match: re.Match[str]) -> str:
    name = match["name"]
    if name not in PARTS:
        raise BrokenDocument(f"nothing renders {name!r}")
    return f"<!-- generated: {name} -->\n{PARTS[name]()}\n<!-- end generated -->"


def _first_difference(one: str, other: str) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip_longest(one, other)) if a != b), 0
    )


def _shown(line: str | None, start: int) -> str:
    """Show a line around the place where it starts to differ."""
    if line is None:
        return "nothing"
    first, last = max(0, start - CONTEXT), start + 3 * CONTEXT
    before, after = "…" * (first > 0), "…" * (last < len(line))
    return repr(before + line[first:last] + after)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
