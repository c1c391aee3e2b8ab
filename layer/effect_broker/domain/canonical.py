"""One text for one value: RFC 8785 (JCS) over what a strict parser read from raw bytes.

Every surface reads and hashes through here, so that two callers who mean the same payload
share a hash and two who do not never do. `1` and `1.0` are the same number and `-0` is
`0`, as JCS says; Unicode is not normalised. An integer written without fraction or
exponent must lie within 2^53-1 of zero: beyond it other languages would read another
number. A number written with a fraction or an exponent is an IEEE double of any size.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any, Final

import orjson

from effect_broker.domain.errors import InvalidJson

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

DEPTH_MAX: Final = 64
"""Deeper nesting than any tool's arguments, and far below any recursion limit."""

OUTPUT_DEPTH_MAX: Final = 180
"""Of what a target may answer: readers of receipts stop at 200, envelopes included."""

INTEGER_MAX: Final = 2**53 - 1
"""The largest integer that every JSON implementation reads as itself."""

_PLAIN_MIN: Final = 1e-4
"""Smaller doubles are written with an exponent, by some from here on."""

_PLACE_LENGTH_MAX: Final = 200
"""Enough to find a place; a name as long as a body must not fill an answer."""

_EXACT: Final = frozenset({str, int, bool, type(None)})
_STRICT: Final = orjson.OPT_STRICT_INTEGER | orjson.OPT_PASSTHROUGH_SUBCLASS
_SORTED: Final = _STRICT | orjson.OPT_SORT_KEYS
_BEYOND_SURROGATES: Final = re.compile(rb"[\xee-\xf4]")
"""Lead bytes of U+E000 and above: only there UTF-8 and UTF-16 order names differently."""


def parse_strict(raw: bytes) -> JsonValue:
    """Read exactly one JSON value from the bytes that came in.

    Refuses what parsers read differently: duplicate names, NaN and infinities, numbers
    that overflow, lone surrogates, integers beyond 2^53-1, a byte order mark, invalid
    UTF-8, anything after the value, and nesting deeper than 64.

    Raises:
        InvalidJson: saying what is off, never repeating the input.
    """
    try:
        value: JsonValue = orjson.loads(raw)
        if _reads_back(value, raw):
            return value
        value = json.loads(raw, object_pairs_hook=_object)
    except orjson.JSONDecodeError as error:
        raise InvalidJson(f"This is not one JSON value: {_complaint(error)}.") from None
    except (ValueError, RecursionError):
        raise InvalidJson("A number is too long, or the nesting too deep.") from None
    _check(value)
    return value


def parse_canonical(raw: bytes) -> Any:
    """Read back what `canonical` wrote; not for bytes from outside.

    A double that JCS writes as a long integer comes back as that double.
    """
    return json.loads(raw, parse_int=_double_or_int)


def canonical(value: Any) -> bytes:
    """Write a value as RFC 8785 says: one text for one value.

    Accepts what JSON has (None, bool, int, float, str, list, tuple, dict with text names)
    and refuses everything else, subclasses too: a type that some surface would have to
    guess about cannot be part of an identity.

    Raises:
        InvalidJson: naming the place and the type, never the value.
    """
    try:
        prepared = _prepared(value, 0)
        text = orjson.dumps(prepared, option=_SORTED)
        if text.isascii() or not _BEYOND_SURROGATES.search(text):
            return text
        return orjson.dumps(_arranged(prepared), option=_STRICT)
    except (TypeError, ValueError):
        _check(value)
        raise InvalidJson("The value is not JSON.") from None


class _NotJson(ValueError):
    """Something that `_check` will name."""


def _prepared(value: Any, depth: int) -> Any:
    """Return the value with its doubles written out, so that orjson's text is JCS's.

    orjson writes doubles in its own way and takes types that are not JSON. Types are
    looked at in bulk: most containers need no more. Names are left to orjson, which takes
    plain texts only.
    """
    kind = type(value)
    if kind is dict:
        inside: Any = value.values()
    elif kind is list or kind is tuple:
        inside = value
    elif kind is float:
        return _number(value)
    elif kind in _EXACT:
        return value
    else:
        raise _NotJson
    if depth >= DEPTH_MAX:
        raise _NotJson
    if _EXACT.issuperset(map(type, inside)):
        return value
    below = depth + 1
    if kind is dict:
        return {
            name: item if type(item) in _EXACT else _prepared(item, below)
            for name, item in value.items()
        }
    return [item if type(item) in _EXACT else _prepared(item, below) for item in value]


def _arranged(value: Any) -> Any:
    """Put names into the order of their UTF-16 code units."""
    if type(value) is dict:
        return {name: _arranged(value[name]) for name in sorted(value, key=_utf16)}
    if type(value) is list or type(value) is tuple:
        return [_arranged(item) for item in value]
    return value


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be")


def _reads_back(value: Any, raw: bytes) -> bool:
    """Say quickly that nothing was lost in reading: the same bytes come out again.

    A duplicate name or an integer too large could not; whatever is merely written
    otherwise takes the slower path.
    """
    if raw.count(b"{") + raw.count(b"[") > DEPTH_MAX:
        return False
    try:
        return orjson.dumps(value, option=_STRICT) == raw
    except orjson.JSONEncodeError:
        return False


def _number(value: float) -> int | float | orjson.Fragment:
    """Write a double as ECMAScript's Number::toString does.

    Between the bounds both write the shortest digits without an exponent.
    """
    if value.is_integer():
        if abs(value) <= INTEGER_MAX:
            return int(value)
    elif _PLAIN_MIN <= abs(value) <= INTEGER_MAX:
        return value
    if not isfinite(value):
        raise _NotJson
    return orjson.Fragment(_ecmascript(value))


def _ecmascript(value: float) -> str:
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    point = len(whole) + int(exponent or 0)
    digits = whole + fraction
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    digits = stripped.rstrip("0")
    sign = "-" if value < 0 else ""
    if 0 < point <= 21:
        body = digits.ljust(point, "0")
        return sign + (body[:point] + "." + body[point:] if len(body) > point else body)
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1:+d}"


def is_deeper(value: Any, limit: int) -> bool:
    """Say whether arrays and objects lie in each other more than `limit` times."""
    level = [value] if isinstance(value, dict | list | tuple) else []
    for _ in range(limit):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list | tuple)
        ]
        if not level:
            return False
    return True


def _check(value: Any) -> None:
    """Find what keeps a value from being JSON as the module says.

    Raises:
        InvalidJson: naming the first place.
    """
    pending: list[tuple[Any, tuple[str | int, ...]]] = [(value, ())]
    while pending:
        node, path = pending.pop()
        kind = type(node)
        if len(path) >= DEPTH_MAX and kind in {dict, list, tuple}:
            raise InvalidJson(f"The value is nested deeper than {DEPTH_MAX}.")
        if kind is dict:
            for name, item in node.items():
                if type(name) is not str:
                    raise _refusal(path, f"has a name of type {type(name).__name__}")
                _check_text(name, path)
                pending.append((item, (*path, name)))
        elif kind is list or kind is tuple:
            pending.extend((item, (*path, index)) for index, item in enumerate(node))
        elif kind is str:
            _check_text(node, path)
        elif kind is int:
            if abs(node) > INTEGER_MAX:
                raise _refusal(path, "is an integer beyond 2^53-1")
        elif kind is float:
            if not isfinite(node):
                raise _refusal(path, "is not a finite number")
        elif kind not in _EXACT:
            raise _refusal(path, f"has the type {kind.__name__}, unknown to JSON")


def _check_text(text: str, path: tuple[str | int, ...]) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _refusal(path, "holds a lone surrogate") from None


def _refusal(path: tuple[str | int, ...], complaint: str) -> InvalidJson:
    steps = "".join(
        "/" + str(step).replace("~", "~0").replace("/", "~1") for step in path
    )
    place = steps.encode("ascii", "backslashreplace").decode()[:_PLACE_LENGTH_MAX]
    place = place or "the top level"
    return InvalidJson(f"The value at {place} {complaint}.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        raise InvalidJson("An object has the same name twice.")
    return read


def _double_or_int(digits: str) -> int | float:
    number = int(digits)
    return number if abs(number) <= INTEGER_MAX else float(digits)


def _complaint(error: orjson.JSONDecodeError) -> str:
    return f"{error.msg.split(':')[0]} at byte {error.pos}"
