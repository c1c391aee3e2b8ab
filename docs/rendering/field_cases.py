"""Failures from the field, each with the tests that hold it off."""

from __future__ import annotations

from collections.abc import Sequence

from docs.rendering.markdown import code, table
from tests.field_cases import field_cases


def cases() -> str:
    """List every case with its outcome and its tests."""
    return table(
        ("case", "what is so here", "held by"),
        [(code(case.id), case.outcome, _links(case.tests)) for case in field_cases()],
    )


def _links(tests: Sequence[str]) -> str:
    return "<br/>".join(_link(*test.split("::")) for test in tests)


def _link(path: str, name: str) -> str:
    words = name.removeprefix("test_").replace("_", " ")
    return f"[{words}](../tests/{path})"
