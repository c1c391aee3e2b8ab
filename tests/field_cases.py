"""Failures from the field, and the tests that hold them off: data for the documents.

The cases stand in `field_cases.toml`. `tests/unit/test_field_cases.py` fails where one
names a test that is gone.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class FieldCase:
    """One failure seen elsewhere: a stable id, what is so here, and what proves it.

    `tests` are written `path::name`, the path below tests/.
    """

    id: str
    outcome: str
    tests: Sequence[str]


def field_cases() -> Sequence[FieldCase]:
    """Return every case, in the order of the file."""
    found = tomllib.loads((TESTS / "field_cases.toml").read_text())
    return [
        FieldCase(name, " ".join(case["outcome"].split()), case["tests"])
        for name, case in found.items()
    ]


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the names of the tests that a file below tests/ defines."""
    tree = ast.parse((TESTS / path).read_text(), path)
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    )
