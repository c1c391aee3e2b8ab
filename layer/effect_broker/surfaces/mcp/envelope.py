"""The JSON-RPC envelope, read before the SDK sees it: its complaints repeat what it got.

A refusal says what is off, never what was sent. It carries the request's id wherever that
can be read in one way only, since a client waits for the answer to its id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from effect_broker.domain.canonical import INTEGER_MAX, parse_strict
from effect_broker.domain.errors import EffectBrokerError, InvalidJson, InvalidRequest

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600

_SURROGATES: Final = re.compile(r"[\ud800-\udfff]")

RequestId = int | str | None


class EnvelopeRefused(Exception):
    """Bytes that are not one request or notification; the message has a stable code."""

    def __init__(
        self, code: int, error: EffectBrokerError, request_id: RequestId
    ) -> None:
        self.code = code
        self.message = f"{error.code}: {error.message}"
        self.request_id = request_id
        super().__init__(self.message)

    def document(self) -> dict[str, Any]:
        """Return the JSON-RPC error that answers them."""
        error = {"code": self.code, "message": self.message}
        return {"jsonrpc": "2.0", "id": self.request_id, "error": error}


def check_envelope(raw: bytes) -> None:
    """Accept the bytes of one JSON-RPC request or notification.

    Raises:
        EnvelopeRefused: they are not one strict JSON value, or another one than that.
    """
    try:
        message = parse_strict(raw)
    except InvalidJson as error:
        raise EnvelopeRefused(PARSE_ERROR, error, request_id_of(raw)) from None
    complaint = _complaint(message)
    if complaint is not None:
        refused = InvalidRequest(complaint)
        raise EnvelopeRefused(INVALID_REQUEST, refused, _id_in(message))


def request_id_of(raw: bytes) -> RequestId:
    """Return the id in bytes that are refused, where they name exactly one; else None.

    Elsewhere in them parsers may differ: only who waits is read here, never what for.
    """
    try:
        pairs = json.loads(raw, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return None
    if not isinstance(pairs, _Pairs) or len({name for name, _ in pairs}) != len(pairs):
        return None
    return _id_in(dict(pairs))


class _Pairs(tuple[tuple[str, Any], ...]):
    """The names and values of an object as they were written, doubled ones too."""

    __slots__ = ()


def _complaint(message: object) -> str | None:
    if not isinstance(message, Mapping):
        return "The message must be one JSON object; batches are not served."
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc must be "2.0".'
    if "result" in message or "error" in message:
        return "The message must be a request or a notification, not a response."
    if not isinstance(message.get("method"), str):
        return "method must be a string."
    if "id" in message and not _is_id(message["id"]):
        return "id must be a string or an integer."
    if not isinstance(message.get("params"), Mapping | None):
        return "params must be an object."
    return None


def _id_in(message: object) -> RequestId:
    """Return whose answer it is; a response's id is one of ours, never the client's."""
    if not isinstance(message, Mapping) or "result" in message or "error" in message:
        return None
    found = message.get("id")
    return found if _is_id(found) else None


def _is_id(value: object) -> bool:
    if isinstance(value, str):
        return _SURROGATES.search(value) is None
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return abs(value) <= INTEGER_MAX
