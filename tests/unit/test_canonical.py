from __future__ import annotations

import copy
import datetime
import decimal
import uuid
from enum import IntEnum, StrEnum
from typing import Any

import pytest

from effect_broker.domain.canonical import (
    DEPTH_MAX,
    canonical,
    parse_canonical,
    parse_strict,
)
from effect_broker.domain.errors import InvalidJson


class Text(str):
    __slots__ = ()


class Table(dict[str, int]):
    pass


class Colour(StrEnum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        {Text("a"): 1},
        {Colour.RED: 1},
        {1: "a"},
        {None: "a"},
        {b"a": 1},
        Text("a"),
        Colour.RED,
        Number.ONE,
        Table(a=1),
        uuid.UUID(int=1),
        datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        datetime.date(2026, 1, 1),
        decimal.Decimal("1.5"),
        b"bytes",
        {1, 2},
        object,
        float("nan"),
        float("inf"),
        -float("inf"),
        2**53,
        -(2**53),
        10**30,
        "\ud800",
        {"\ud800": 1},
        {"\ud800": 1, "\U0001f600": 2},
        _nested(DEPTH_MAX + 1),
    ],
    ids=repr,
)
def test_what_is_not_json_has_no_canonical_form(value: Any) -> None:
    for wrapped in (value, [value], {"a": [1.5, value]}):
        with pytest.raises(InvalidJson):
            canonical(wrapped)


def test_refusal_names_the_place_and_the_type_but_not_the_value() -> None:
    with pytest.raises(InvalidJson) as refused:
        canonical({"a/b": {"c~d": ["secret", decimal.Decimal("4242")]}})
    assert "/a~1b/c~0d/1" in refused.value.message
    assert "Decimal" in refused.value.message
    assert "4242" not in refused.value.message


def test_refusal_stays_short_and_printable() -> None:
    with pytest.raises(InvalidJson) as refused:
        canonical({"\n\U0001f600" * 1000: {1, 2}})
    assert len(refused.value.message) < 400
    refused.value.message.encode("ascii")


def test_bool_is_not_a_number() -> None:
    assert canonical([True, 1, False, 0]) == b"[true,1,false,0]"


def test_a_tuple_is_an_array() -> None:
    assert canonical({"a": (1, (2.0,))}) == b'{"a":[1,[2]]}'


def test_value_is_left_as_it_was() -> None:
    value = {"b": [1.0, {"\U0001f600": 1, "\ue000": -0.0}], "a": (2.5,)}
    before = copy.deepcopy(value)
    canonical(value)
    assert repr(value) == repr(before)


def test_depth_limit_is_exact_on_both_ways_in() -> None:
    deepest = _nested(DEPTH_MAX)
    text = canonical(deepest)
    assert parse_strict(text) == deepest
    with pytest.raises(InvalidJson):
        parse_strict(b"[" + text + b"]")


def test_braces_inside_text_are_not_depth() -> None:
    raw = b'{"a":"' + b"[{" * 100 + b'"}'
    assert canonical(parse_strict(raw)) == raw


@pytest.mark.parametrize("raw", [b"[" * 100_000, b"1" * 5_000, b'{"a":' * 5_000])
def test_hostile_sizes_are_refused_and_not_suffered(raw: bytes) -> None:
    with pytest.raises(InvalidJson):
        parse_strict(raw)


def test_large_doubles_survive_storage() -> None:
    value = [2.0**53, 1e20, -1e20, 1e21, 123456789e12]
    read = parse_canonical(canonical(value))
    assert read == value
    assert canonical(read) == canonical(value)


def test_same_name_is_found_where_the_text_is_not_compact() -> None:
    with pytest.raises(InvalidJson, match="twice"):
        parse_strict(b'{ "a": 1, "b": { "a": 1, "a": 2 } }')
