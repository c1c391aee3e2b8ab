"""One request and what becomes known of its answer, in the order of its becoming known.

The status stands before a byte of the body is read, so nothing that happens to the body
can take it away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import dataclass, field
from typing import Final, Protocol

import httpcore2

from effect_broker.adapters.wire.connections import ConnectionKey, Connections
from effect_broker.adapters.wire.failures import reason_of
from effect_broker.adapters.wire.gate import (
    SEND_DEADLINE_PASSED,
    NothingSent,
    SendGate,
)
from effect_broker.ports import Deadline

BODY_BYTES_MAX: Final = 1024 * 1024
"""An answer about one effect; what is longer is cut, and said to be."""

Headers = tuple[tuple[bytes, bytes], ...]


class AbortingWatchdog(Protocol):
    """A watchdog that can tear a connection down from outside the event loop."""

    def guard(
        self, deadline: Deadline, *, abort: Callable[[], None] | None = None
    ) -> AbstractContextManager[None]:
        """Call `abort` once the deadline has passed, unless the block was left before."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """A request ready to leave: its bytes are fixed before a connection is looked for."""

    method: str
    target: bytes
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(slots=True)
class Exchange:
    """What is known of one request; `failure` is the stable word for what ended it early.

    `sent` is false only where it is proved that no byte left.
    """

    sent: bool = False
    reused: bool = False
    status: int | None = None
    headers: Headers = ()
    body: bytearray = field(default_factory=bytearray)
    complete: bool = False
    truncated: bool = False
    failure: str = ""

    def header(self, name: bytes) -> str | None:
        """Return a header of the answer, repeated ones joined, or None."""
        values = [
            value.decode("latin-1")
            for found, value in self.headers
            if found.lower() == name
        ]
        return ", ".join(values) if values else None


async def exchange(
    connections: Connections,
    key: ConnectionKey,
    request: WireRequest,
    gate: SendGate,
    *,
    fresh: bool = False,
    seconds: float = float("inf"),
    watch: AbstractContextManager[None] | None = None,
    known: Exchange | None = None,
) -> Exchange:
    """Send `request` at most once and return what became known, whatever went wrong.

    It ends at the gate's deadline, after `seconds` or by cancellation, and the connection
    with it. A cancellation goes on to the caller, who finds in `known` what was known.
    """
    known = Exchange() if known is None else known
    limit = min(seconds, gate.seconds_left())
    try:
        with watch or nullcontext():
            async with asyncio.timeout(None if limit == float("inf") else limit):
                await _send(connections, key, request, gate, fresh, known)
    except NothingSent as refused:
        known.failure = refused.reason
    except TimeoutError:
        known.failure = "timed_out" if gate.opened else SEND_DEADLINE_PASSED
    except asyncio.CancelledError:
        known.failure = "cancelled"
        raise
    except TRANSPORT_FAILURES as error:
        known.failure = "timed_out" if gate.aborted else reason_of(error)
    finally:
        known.sent = gate.opened
    return known


TRANSPORT_FAILURES: Final = (
    httpcore2.ConnectionNotAvailable,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
    OSError,
)
"""The roots of what the transport raises; anything else is a defect and goes on."""


async def _send(
    connections: Connections,
    key: ConnectionKey,
    request: WireRequest,
    gate: SendGate,
    fresh: bool,
    known: Exchange,
) -> None:
    async with connections.lease(key, gate, fresh=fresh) as connection:
        known.reused = connection.reused
        response = await connection.http.handle_async_request(_on_the_wire(key, request))
        known.status = response.status
        known.headers = tuple(response.headers)
        connection.spoiled = {b"content-length", b"transfer-encoding"} <= {
            name.lower() for name, _ in known.headers
        }
        try:
            await _read_body(response, known)
        finally:
            await response.aclose()


def _on_the_wire(key: ConnectionKey, request: WireRequest) -> httpcore2.Request:
    origin = key.origin
    return httpcore2.Request(
        request.method,
        httpcore2.URL(
            scheme=origin.scheme,
            host=origin.host,
            port=origin.port,
            target=request.target,
        ),
        headers=list(request.headers),
        content=request.body,
    )


async def _read_body(response: httpcore2.Response, known: Exchange) -> None:
    async with aclosing(response.aiter_stream()) as chunks:
        async for chunk in chunks:
            room = BODY_BYTES_MAX - len(known.body)
            known.body += chunk[:room]
            if len(chunk) > room:
                known.truncated = True
                return
    known.complete = True
