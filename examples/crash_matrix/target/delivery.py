"""How an answer leaves, or fails to: the transport half of the faults."""

import zlib
from collections.abc import Iterator
from dataclasses import replace

from .faults import Fault, FaultKind
from .holding import Holding
from .wire import Answer, Connection, error_answer, head

MEBIBYTE = 1024 * 1024
SLOW_PIECES = 10

CODES = {
    400: "invalid_request",
    401: "unauthorized",
    402: "card_declined",
    403: "forbidden",
    429: "rate_limited",
    503: "unavailable",
}

# What the request log says of an answer that never left whole.
CUT = {
    FaultKind.DROP_BEFORE_COMMIT: "dropped",
    FaultKind.DROP_AFTER_COMMIT: "dropped",
    FaultKind.RESET_BEFORE_COMMIT: "reset",
    FaultKind.RESET_AFTER_COMMIT: "reset",
    FaultKind.TRUNCATE_AFTER_COMMIT: "truncated",
}


def planned_outcome(fault: Fault | None) -> str:
    """Name what delivery will do, so that it can be recorded before a byte leaves."""
    return CUT.get(fault.fault, "answered") if fault else "answered"


def scripted_answer(fault: Fault) -> Answer:
    """Build the answer that a status, redirect or fail_after_commit fault asks for."""
    if fault.fault is FaultKind.REDIRECT:
        return Answer(307, b"", (("Location", fault.location or "/"),))
    absent = 503 if fault.fault is FaultKind.FAIL_AFTER_COMMIT else 500
    status = fault.status or absent
    code = fault.code or CODES.get(status, "internal_error")
    retry_after = fault.retry_after
    headers = (("Retry-After", retry_after),) if retry_after is not None else ()
    return error_answer(status, code, headers=headers)


def deliver(
    connection: Connection,
    answer: Answer | None,
    fault: Fault | None,
    *,
    keep_alive: bool,
    holding: Holding,
) -> None:
    """Send the answer as the fault says; None is a connection closed without a word.

    Raises:
        OSError: the peer does not take it.
    """
    if answer is None:
        return _cut(connection, fault)
    match fault.fault if fault else None:
        case FaultKind.DROP_AFTER_COMMIT | FaultKind.RESET_AFTER_COMMIT:
            _cut(connection, fault)
        case FaultKind.TRUNCATE_AFTER_COMMIT:
            half = answer.body[: len(answer.body) // 2]
            connection.send_bytes(head(answer, keep_alive=keep_alive) + half)
            connection.close()
        case FaultKind.GARBAGE_AFTER_COMMIT:
            garbage = replace(answer, body=b'{"id": "ch_\xff\x00 <html>')
            connection.send(garbage, keep_alive=keep_alive)
        case FaultKind.HUGE_BODY if fault:
            huge = b"".join(_padded(answer.body, fault.mebibytes))
            connection.send(replace(answer, body=huge), keep_alive=keep_alive)
        case FaultKind.GZIP_BOMB_AFTER_COMMIT if fault:
            bomb = _gzipped(_padded(answer.body, fault.mebibytes))
            headers = (*answer.headers, ("Content-Encoding", "gzip"))
            packed = replace(answer, body=bomb, headers=headers)
            connection.send(packed, keep_alive=keep_alive)
        case FaultKind.SLOW_BODY if fault:
            connection.send_bytes(head(answer, keep_alive=keep_alive))
            for piece in _pieces(answer.body):
                holding.delay(fault.seconds / SLOW_PIECES)
                connection.send_bytes(piece)
        case _:
            connection.send(answer, keep_alive=keep_alive)


def _cut(connection: Connection, fault: Fault | None) -> None:
    if fault is not None and CUT.get(fault.fault) == "reset":
        connection.reset()
    else:
        connection.close()


def _padded(body: bytes, mebibytes: int) -> Iterator[bytes]:
    """Yield the same JSON object with a padding field, a mebibyte at a time."""
    yield body[:-1] + b', "padding": "'
    for _ in range(mebibytes):
        yield b"0" * MEBIBYTE
    yield b'"}'


def _gzipped(parts: Iterator[bytes]) -> bytes:
    packer = zlib.compressobj(level=1, wbits=31)
    return b"".join([packer.compress(part) for part in parts]) + packer.flush()


def _pieces(body: bytes) -> Iterator[bytes]:
    size = max(1, -(-len(body) // SLOW_PIECES))
    for start in range(0, len(body), size):
        yield body[start : start + size]
