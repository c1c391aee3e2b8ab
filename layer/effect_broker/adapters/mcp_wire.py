"""What an upstream itself put on the wire, read strictly.

The client makes errors of its own up, for a body that broke off or for a status, and
takes the first thing that looks like a response. Proof that nothing happened needs more:
one whole answer, which says one thing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from effect_broker.adapters.wire.body import decoded, strict_json
from effect_broker.adapters.wire.exchange import Exchange, WireRequest

_MARK: Final = b"\xef\xbb\xbf"
_BROKEN: Final = b"{"


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """The responses in an answer's body; requests and notices beside them are none.

    `plain` says that the body is whole, that all of it can be read, and that it answers
    once at most, and our call. `kept` says that the ledger can keep it as it was said.
    """

    results: int = 0
    errors: int = 0
    code: int | None = None
    plain: bool = False
    kept: bool = False

    @property
    def is_result(self) -> bool:
        """Whether the one response is a result, whatever else went wrong."""
        return (self.results, self.errors) == (1, 0)


def read_answer(request: WireRequest, known: Exchange) -> WireAnswer:
    """Read what answers `request`, whose body is one JSON-RPC request."""
    text, _ = decoded(known)
    kind = (known.header(b"content-type") or "").lower()
    is_stream = kind.startswith("text/event-stream")
    if text is None and not is_stream:
        return WireAnswer()
    body = bytes(known.body) if text is None else text
    results, errors, code = 0, 0, None
    plain, kept = text is not None, True
    own = json.loads(request.body)["id"]
    for message in _events(body) if is_stream else _whole(body):
        try:
            document, keeps = strict_json(message)
        except ValueError:
            plain = False
            continue
        kept = kept and keeps
        if not isinstance(document, dict):
            plain = False
            continue
        is_result, is_error = "result" in document, "error" in document
        if not is_result and not is_error:
            plain = plain and "method" in document
            continue
        results, errors = results + is_result, errors + is_error
        plain = plain and "method" not in document and _answers(own, document)
        code = _code(document)
    plain = plain and results + errors <= 1
    return WireAnswer(results, errors, code if plain else None, plain, kept)


def _answers(own: Any, document: dict[str, Any]) -> bool:
    """Say whether a response is to our request.

    An error may say that the id is null: then the request was refused before its id was
    read, and there was no other request.
    """
    if "id" not in document:
        return False
    told = document["id"]
    if told is None:
        return "error" in document
    return type(told) is type(own) and bool(told == own)


def _code(document: dict[str, Any]) -> int | None:
    match document:
        case {"error": {"code": code}} if type(code) is int:
            return code
    return None


def _whole(body: bytes) -> Iterator[bytes]:
    if body.strip():
        yield body


def _events(body: bytes) -> Iterator[bytes]:
    """Yield the data of each event that ended; for one that did not, what is no JSON.

    Events of another type than `message` are not for the client, and those without data
    carry a place to resume at.
    """
    text = body.removeprefix(_MARK).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    *ended, rest = text.split(b"\n\n")
    for event in ended:
        fields = [line.partition(b":") for line in event.split(b"\n")]
        kinds = [value.strip() for name, _, value in fields if name == b"event"]
        data = [value.removeprefix(b" ") for name, _, value in fields if name == b"data"]
        if any(data) and kinds[-1:] in ([], [b""], [b"message"]):
            yield b"\n".join(data)
    if rest.strip():
        yield _BROKEN
