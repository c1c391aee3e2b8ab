"""The small parts of contracts: spans of time, pointers, URLs, previews."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from effect_broker.domain.durations import format_duration, parse_duration
from effect_broker.domain.errors import InvalidArguments
from effect_broker.domain.pointer import MISSING, at_pointer, pointer_tokens
from effect_broker.domain.preview import MASK, PREVIEW_LENGTH_MAX, preview
from effect_broker.domain.url_template import fill_url
from tests.unit.test_contract import contract


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0s", 0),
        ("250ms", 250),
        ("10s", 10_000),
        ("1.5s", 1_500),
        ("5m", 300_000),
        ("24h", 86_400_000),
        ("1h30m", 5_400_000),
        ("30d", 2_592_000_000),
    ],
)
def test_duration_is_read_in_its_unit(text: str, milliseconds: int) -> None:
    span = parse_duration(text)
    assert span == timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(span)) == span


@pytest.mark.parametrize(
    "text", ["", "10", "s", "-1s", "1 s", "1S", "1.5ms", "1e3s", "1w"]
)
def test_text_without_a_clear_span_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|millisecond"):
        parse_duration(text)


DOCUMENT: dict[str, Any] = {
    "data": [{"id": "x", "none": None}],
    "a/b": {"m~n": 1},
    "": {"": 2},
    "0": "zero",
}


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("", DOCUMENT),
        ("/data/0/id", "x"),
        ("/data/0/none", None),
        ("/a~1b/m~0n", 1),
        ("//", 2),
        ("/0", "zero"),
        ("/data/1", MISSING),
        ("/data/00", MISSING),
        ("/data/-", MISSING),
        ("/data/-1", MISSING),
        ("/data/id", MISSING),
        ("/data/0/id/0", MISSING),
        ("/nothing/at/all", MISSING),
    ],
)
def test_pointer_finds_what_stands_there(pointer: str, found: object) -> None:
    assert (
        at_pointer(DOCUMENT, pointer) is found or at_pointer(DOCUMENT, pointer) == found
    )


@pytest.mark.parametrize("pointer", ["data", "#/data", "/a~", "/a~2"])
def test_malformed_pointer_is_refused(pointer: str) -> None:
    with pytest.raises(ValueError, match="pointer"):
        pointer_tokens(pointer)


@pytest.mark.parametrize(
    ("value", "piece"),
    [
        ("abc-_.~", "abc-_.~"),
        (7, "7"),
        ("a/b", "a%2Fb"),
        ("../../admin", "..%2F..%2Fadmin"),
        ("a?b=c&d#e", "a%3Fb%3Dc%26d%23e"),
        ("a b", "a%20b"),
        ("\u00e9\U0001f600", "%C3%A9%F0%9F%98%80"),
        ("%2e", "%252e"),
        ("a\r\nb", "a%0D%0Ab"),
        ("{downstream_key}", "%7Bdownstream_key%7D"),
        ("@evil.example", "%40evil.example"),
    ],
)
def test_value_stays_inside_its_piece_of_the_url(value: object, piece: str) -> None:
    filled = fill_url(
        "https://x.example/c/{arguments.id}/d", {"arguments": {"id": value}}
    )
    assert filled == f"https://x.example/c/{piece}/d"


@pytest.mark.parametrize("value", ["", ".", "..", None, True, 1.5, [1], {"a": 1}])
def test_value_that_cannot_stand_in_a_url_is_refused_without_an_echo(value: Any) -> None:
    with pytest.raises(InvalidArguments) as refused:
        fill_url("/c/{arguments.a.id}", {"arguments": {"a": {"id": value}}})
    assert refused.value.pointers == ("/a/id",)


def test_preview_masks_everything_that_is_not_named() -> None:
    terms = contract(
        redact__show=["/amount"],
        arguments={
            "type": "object",
            "properties": {"amount": {}, "card": {}, "customer": {}},
        },
    )
    arguments = {
        "amount": 10,
        "card": "4242",
        "customer": {"email": "a@b.example"},
        "undeclared-secret": "x",
    }
    assert json.loads(preview(arguments, terms)) == {
        "amount": 10,
        "card": MASK,
        "customer": MASK,
        MASK: MASK,
    }


def test_preview_shows_a_named_place_and_not_its_neighbours() -> None:
    terms = contract(
        redact__show=["/customer/city", "/customer/absent", "/items/0/sku"],
        arguments={"type": "object", "properties": {"customer": {}, "items": {}}},
    )
    arguments = {
        "customer": {"city": "Berlin", "email": "a@b.example"},
        "items": [{"sku": "s-1", "price": 3}],
    }
    assert json.loads(preview(arguments, terms)) == {
        "customer": {"city": "Berlin"},
        "items": {"0": {"sku": "s-1"}},
    }


def test_preview_is_bounded_whatever_comes_in() -> None:
    terms = contract(
        redact__show=["/amount", "/currency"],
        arguments={"type": "object", "properties": {"amount": {}, "currency": {}}},
    )
    long = preview({"amount": "x" * 10_000, "currency": list(range(10_000))}, terms)
    assert len(long) <= PREVIEW_LENGTH_MAX
    assert json.loads(long) == {"amount": MASK, "currency": MASK}
    assert len(preview({"amount": "x" * 10_000, "currency": "EUR"}, terms)) < 300


def test_preview_without_redaction_shows_nothing() -> None:
    shown = preview({"amount": 1, "currency": "EUR"}, contract(redact={}))
    assert json.loads(shown) == {"amount": MASK, "currency": MASK}
