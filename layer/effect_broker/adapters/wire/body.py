"""Reading an answer's body: within bounds, never at the cost of what the status said."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from effect_broker.adapters.wire.exchange import BODY_BYTES_MAX, Exchange
from effect_broker.domain.canonical import OUTPUT_DEPTH_MAX, is_deeper

UNPARSED: Final = "output_unparsed"
TRUNCATED: Final = "output_truncated"
SCHEMA_MISMATCH: Final = "output_schema_mismatch"

_ZLIB_OR_GZIP: Final = 47
"""zlib's window bits for "look at the header"."""


@dataclass(frozen=True, slots=True)
class Body:
    """An answer's value, or the bytes that did not give one, with flags that say why."""

    value: Any = None
    raw: bytes | None = None
    flags: tuple[str, ...] = ()

    @property
    def readable(self) -> bool:
        """Whether `value` is what the target said; an empty body says None."""
        return not self.flags


def read_body(known: Exchange) -> Body:
    """Return what the body says; a broken one keeps its bytes.

    A cut body is never parsed, even where its beginning would. An encoding that was not
    asked for is undone if it is gzip or deflate, and within the same bound.
    """
    raw = bytes(known.body)
    text, flags = decoded(known)
    if text is None:
        return Body(raw=raw, flags=flags)
    if not text:
        return Body()
    try:
        value, kept = strict_json(text)
    except ValueError:
        kept = False
    return Body(value=value) if kept else Body(raw=raw, flags=(UNPARSED,))


def decoded(known: Exchange) -> tuple[bytes | None, tuple[str, ...]]:
    """Return the bytes of a whole body, decoded, or the flags that say why not."""
    raw = bytes(known.body)
    if known.truncated:
        return None, (UNPARSED, TRUNCATED)
    if not known.complete:
        return None, (UNPARSED,)
    encoding = (known.header(b"content-encoding") or "identity").strip().lower()
    if not raw or encoding == "identity":
        return raw, ()
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        return None, (UNPARSED,)
    return _inflated(raw)


def _inflated(raw: bytes) -> tuple[bytes | None, tuple[str, ...]]:
    inflater = zlib.decompressobj(_ZLIB_OR_GZIP)
    try:
        text = inflater.decompress(raw, BODY_BYTES_MAX + 1)
    except zlib.error:
        return None, (UNPARSED,)
    if len(text) > BODY_BYTES_MAX:
        return None, (UNPARSED, TRUNCATED)
    if not inflater.eof:
        return None, (UNPARSED,)
    return text, ()


def strict_json(text: bytes) -> tuple[Any, bool]:
    """Return a JSON value, and whether the ledger can keep it as it was said.

    It cannot where a number is no double, a text no UTF-8, or its parts lie deeper in
    each other than a reader of receipts must bear.

    Raises:
        ValueError: it is no JSON, or an object says one name twice: which of the two
            counts is for no parser to choose.
    """
    odd: list[str] = []

    def finite(number: str) -> float:
        value = float(number)
        if not isfinite(value):
            odd.append(number)
        return value

    try:
        value = json.loads(
            text,
            parse_constant=odd.append,
            parse_float=finite,
            object_pairs_hook=_without_doubles,
        )
    except RecursionError:
        raise ValueError("too deep") from None
    return value, not odd and not is_deeper(value, OUTPUT_DEPTH_MAX) and _is_text(value)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name stands twice")
    return made


def _is_text(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
