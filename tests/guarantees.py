"""What the broker promises, as data that the documents render and the tests prove.

A promise stands here only once a test carries its id: `tests/unit/test_guarantees.py`
fails otherwise.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

TESTS = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One promise: a stable id, a sentence to be held to, and the rule it rests on."""

    id: str
    sentence: str
    rule: int | str


GUARANTEES: Final[Sequence[Guarantee]] = ()


def guarantee(*ids: str) -> pytest.MarkDecorator:
    """Mark a test as the proof of these promises, which must be string literals."""
    return pytest.mark.guarantee(*ids)


class UnreadableGuaranteeError(ValueError):
    """A test names its promises by something other than string literals."""


def proofs(tests: Path = TESTS) -> Mapping[str, Sequence[str]]:
    """Return for each promise named under `tests` its tests, as `path::name`.

    Read from the source: what was selected, skipped or run does not matter.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(tests.rglob("test_*.py")):
        for name, promise in _named_promises(path.read_text(), path.name):
            found[promise].append(f"{path.relative_to(tests).as_posix()}::{name}")
    return found


def _named_promises(source: str, filename: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(source, filename)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if node.name.startswith(("test_", "Test")):
            for decorator in node.decorator_list:
                for promise in _literal_ids(decorator, filename):
                    yield node.name, promise


def _literal_ids(decorator: ast.expr, filename: str) -> Iterator[str]:
    """Yield the ids of every `guarantee(...)` in one decorator, nested ones too."""
    for call in ast.walk(decorator):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            continue
        if call.func.id != "guarantee":
            continue
        for argument in call.args:
            match argument:
                case ast.Constant(value=str() as promise):
                    yield promise
                case _:
                    raise UnreadableGuaranteeError(f"{filename}:{call.lineno}")
