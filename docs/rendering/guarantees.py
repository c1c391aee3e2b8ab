"""The promises, each with the tests that would fail if it were broken."""

from __future__ import annotations

from collections.abc import Sequence

from docs.rendering.markdown import code, table
from tests.guarantees import GUARANTEES, proofs


def guarantees() -> str:
    """List every promise with its rule and the files that hold its tests."""
    found = proofs()
    return table(
        ("promise", "id", "rule", "proved in"),
        [
            (item.sentence, code(item.id), str(item.rule), _files(found.get(item.id, ())))
            for item in GUARANTEES
        ],
    )


def _files(tests: Sequence[str]) -> str:
    paths = sorted({test.partition("::")[0] for test in tests})
    return "<br/>".join(f"[{path}](../tests/{path})" for path in paths)
