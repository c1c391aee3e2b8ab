"""Reading an answer's body: within bounds, never at the cost of what the status said."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, NoReturn

from effect_broker.adapters.wire.exchange import BODY_BYTES_MAX, Exchange

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


class _NotJson(ValueError):
    pass


def read_body(known: Exchange) -> Body:
    """Return what the body says; a broken one keeps its bytes.

    A cut body is never parsed, even where its beginning would. An encoding that was not
    asked for is undone if it is gzip or deflate, and within the same bound.
    """
    raw = bytes(known.body)
    if known.truncated:
        return Body(raw=raw, flags=(UNPARSED, TRUNCATED))
    if not known.complete:
        return Body(raw=raw, flags=(UNPARSED,))
    encoding = (known.header(b"content-encoding") or "identity").strip().lower()
    if not raw:
        return Body()
    if encoding == "identity":
        return _parsed(raw, raw)
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        return Body(raw=raw, flags=(UNPARSED,))
    return _inflated(raw)


def _inflated(raw: bytes) -> Body:
    inflater = zlib.decompressobj(_ZLIB_OR_GZIP)
    try:
        text = inflater.decompress(raw, BODY_BYTES_MAX + 1)
    except zlib.error:
        return Body(raw=raw, flags=(UNPARSED,))
    if len(text) > BODY_BYTES_MAX:
        return Body(raw=raw, flags=(UNPARSED, TRUNCATED))
    if not inflater.eof:
        return Body(raw=raw, flags=(UNPARSED,))
    return _parsed(text, raw)


def _parsed(text: bytes, raw: bytes) -> Body:
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return Body(raw=raw, flags=(UNPARSED,))
    return Body(value=value)


def _refuse(constant: str) -> NoReturn:
    raise _NotJson(constant)


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise _NotJson(text)
    return value
