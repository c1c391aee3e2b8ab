"""Spans of time as contracts write them: a number with its unit, never a bare number."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_MILLISECONDS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_PART: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|m|h|d)")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")

DURATION_MAX: Final = timedelta(days=36_500)
"""A century: longer is a slip of the pen, and two of them still fit a timestamp."""


def parse_duration(text: str) -> timedelta:
    """Read a span such as `250ms`, `10s`, `1h30m` or `30d`, in whole milliseconds.

    Raises:
        ValueError: not a number with a unit, finer than a millisecond, or over a century.
    """
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is no duration; write for example '250ms' or '10s'")
    milliseconds = sum(
        float(number) * _MILLISECONDS[unit] for number, unit in _PART.findall(text)
    )
    if milliseconds != int(milliseconds):
        raise ValueError(f"{text!r} is finer than a millisecond")
    return _bounded(timedelta(milliseconds=int(milliseconds)))


def format_duration(span: timedelta) -> str:
    """Write a span in seconds, or in milliseconds where it is not whole."""
    milliseconds = span // timedelta(milliseconds=1)
    whole, rest = divmod(milliseconds, 1_000)
    return f"{milliseconds}ms" if rest else f"{whole}s"


def _coerced(value: object) -> timedelta:
    if isinstance(value, timedelta):
        if value % timedelta(milliseconds=1):
            raise ValueError("a duration is a whole number of milliseconds")
        return _bounded(value)
    if isinstance(value, str):
        return parse_duration(value)
    raise ValueError("a duration is a text with its unit, for example '10s'")


def _bounded(span: timedelta) -> timedelta:
    if not timedelta(0) <= span <= DURATION_MAX:
        raise ValueError(f"a duration is from zero to {DURATION_MAX.days} days")
    return span


def _positive(span: timedelta) -> timedelta:
    if not span:
        raise ValueError("must be longer than zero")
    return span


_WRITTEN: Final = PlainSerializer(format_duration, return_type=str)
_SHAPE: Final = WithJsonSchema(
    {
        "type": "string",
        "pattern": f"^({_PART.pattern})+$",
        "examples": ["250ms", "10s", "5m", "24h"],
    }
)

Duration = Annotated[timedelta, BeforeValidator(_coerced), _WRITTEN, _SHAPE]
"""A span of zero or more; a `timedelta` in Python, a text with its unit in files."""

PositiveDuration = Annotated[
    timedelta, BeforeValidator(lambda value: _positive(_coerced(value))), _WRITTEN, _SHAPE
]
"""A span longer than zero."""
