from __future__ import annotations

import json
import struct
import subprocess
import sys
from math import isfinite
from pathlib import Path
from random import Random
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from effect_broker.domain.canonical import canonical, parse_canonical, parse_strict

NODE = Path(sys.executable).parent / "node"

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["\U0001f600", "\ufb33", "\ue000", "\uffff", "\U00010000", "\x7f", "\u2028", "\x1f"]
)
numbers = (
    st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(1e-7, 1e-3)
    | st.floats(1e15, 1e22)
)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda below: st.lists(below, max_size=5) | st.dictionaries(texts, below, max_size=5),
    max_leaves=30,
)


@given(values)
@settings(max_examples=500, deadline=None)
def test_canonical_form_equals_the_reference_implementation(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@given(values)
@settings(max_examples=300, deadline=None)
def test_canonical_form_survives_storage(value: Any) -> None:
    text = canonical(value)
    assert canonical(parse_canonical(text)) == text


@given(values, st.sampled_from([None, 2]), st.booleans())
@settings(max_examples=300, deadline=None)
def test_how_a_value_was_written_does_not_matter(
    value: Any, indent: int | None, ascii_only: bool
) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    assert canonical(parse_strict(raw)) == canonical(value)


@given(values)
@settings(max_examples=200, deadline=None)
def test_order_of_names_does_not_matter(value: Any) -> None:
    def turned(node: Any) -> Any:
        if isinstance(node, dict):
            return {name: turned(node[name]) for name in reversed(node)}
        return [turned(item) for item in node] if isinstance(node, list) else node

    assert canonical(turned(value)) == canonical(value)


def test_numbers_are_written_as_ecmascript_writes_them() -> None:
    if not NODE.exists():
        pytest.skip("no node beside this Python")
    ran = subprocess.run(
        [
            NODE,
            "-e",
            "process.stdout.write(JSON.stringify(JSON.parse(require('fs')"
            ".readFileSync(0))))",
        ],
        input=json.dumps(doubles := _doubles()).encode(),
        capture_output=True,
        check=True,
    )
    assert canonical(doubles) == ran.stdout


def _doubles() -> list[float]:
    random = Random(8785)
    drawn = [
        struct.unpack(">d", random.getrandbits(64).to_bytes(8, "big"))[0]
        for _ in range(20_000)
    ]
    drawn += [float(f"{random.randint(1, 9999)}e{e}") for e in range(-12, 25)]
    drawn += [random.uniform(-1e6, 1e6) for _ in range(2_000)]
    drawn += [0.0, -0.0, 5e-324, 1.7976931348623157e308, 1e21, 1e-6, 1e-7, 2.0**53]
    return [double for double in drawn if isfinite(double)]
