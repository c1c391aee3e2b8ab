"""Tries the way to a target for what repeats POSTs behind the sender's back.

The doctor listens, and calls itself by a URL that leads through the same proxies as the
targets. Its listener breaks off in the ways that make networks try again, and counts what
arrives. A repeat of an unkeyed POST is a second effect, and the broker saw one attempt.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final
from uuid import uuid4

import httpx2

from effect_broker.surfaces.diagnosis.finding import Finding, broken, ok

MARK: Final = "x-effect-broker-doctor"
"""Header that tells one request from the next on its way."""

KEY_HEADER: Final = "Idempotency-Key"
"""Some hops take this header for a permission to repeat."""

ANSWER_SECONDS_MAX: Final = 20.0
QUIET_SECONDS: Final = 1.0
"""How long a late repeat is waited for once the caller has its answer."""

_HEAD_BYTES_MAX: Final = 64 * 1024
_RESET: Final = struct.pack("ii", 1, 0)

Behaviour = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def _answer(writer: asyncio.StreamWriter, status: str) -> None:
    writer.write(
        f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
    )
    await writer.drain()


async def _answer_unavailable(writer: asyncio.StreamWriter) -> None:
    await _answer(writer, "503 Service Unavailable")


async def _answer_bad_gateway(writer: asyncio.StreamWriter) -> None:
    await _answer(writer, "502 Bad Gateway")


async def _close(writer: asyncio.StreamWriter) -> None:
    """Say nothing; the connection is closed by the caller of this."""


async def _reset(writer: asyncio.StreamWriter) -> None:
    carrier: socket.socket = writer.get_extra_info("socket")
    carrier.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


async def _break_off(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{")
    await writer.drain()


BEHAVIOURS: Final[Mapping[str, Behaviour]] = {
    "it answers 503": _answer_unavailable,
    "it answers 502": _answer_bad_gateway,
    "it closes without an answer": _close,
    "it resets the connection": _reset,
    "its answer breaks off": _break_off,
}


async def try_path(
    url: str,
    host: str,
    port: int,
    *,
    unkeyed: Sequence[str],
    announce: Callable[[str], None],
) -> Finding:
    """Call `url`, which must lead to a listener on host and port, and count repeats.

    `unkeyed` names the contracts for which a repeat would be a second effect.
    """
    listener = _Listener()
    async with listener.listening(host, port) as address:
        announce(f"listening on {address}, calling {url}")
        repeats = [
            await _try(listener, url, name, keyed=keyed)
            for name in BEHAVIOURS
            for keyed in (False, True)
        ]
    if not any(listener.seen.values()):
        return broken(
            "post path",
            url,
            "It does not lead to the doctor's listener.",
            "Give a URL that reaches --listen through the same proxies as the targets.",
        )
    said = [text for text in repeats if text]
    if not said:
        return ok("post path", url, "Nothing on the way repeats a POST.")
    concerned = f" Until then {', '.join(unkeyed)} may act twice." if unkeyed else ""
    return broken(
        "post path",
        url,
        f"Something on the way repeats a POST: {'; '.join(said)}.",
        f"Switch its retries off for POST.{concerned}",
    )


async def _try(listener: _Listener, url: str, name: str, *, keyed: bool) -> str | None:
    """Make one POST, and say how often it arrived if more than once."""
    mark = uuid4().hex
    listener.behaviour = BEHAVIOURS[name]
    headers = {MARK: mark, "Content-Type": "application/json"}
    if keyed:
        headers[KEY_HEADER] = mark
    async with httpx2.AsyncClient(
        timeout=ANSWER_SECONDS_MAX, trust_env=False, follow_redirects=False
    ) as caller:
        with suppress(httpx2.HTTPError):  # what arrived counts, not how it ended
            await caller.post(url, content=b"{}", headers=headers)
    await asyncio.sleep(QUIET_SECONDS)
    arrived = listener.seen[mark]
    if arrived < 2:
        return None
    with_key = f" with {KEY_HEADER}" if keyed else ""
    return f"{arrived} times{with_key} when {name}"


class _Listener:
    """Counts requests by their mark, and ends each as it is told."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.behaviour: Behaviour = _close

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, host, port)
        async with server:
            yield "{}:{}".format(*server.sockets[0].getsockname()[:2])

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        behaviour = self.behaviour
        try:
            mark = await _read_request(reader)
            self.seen[mark] += 1
            await behaviour(writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # nobody's request: a health check of a proxy, or one that hung up
        finally:
            writer.close()


async def _read_request(reader: asyncio.StreamReader) -> str:
    """Read a request to its end and return its mark."""
    head = await reader.readuntil(b"\r\n\r\n")
    if len(head) > _HEAD_BYTES_MAX:
        raise asyncio.LimitOverrunError("head too long", len(head))
    lines = head.decode("latin-1").lower().split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
    if fields.get("transfer-encoding") == "chunked":
        await reader.readuntil(b"0\r\n\r\n")
    else:
        await reader.readexactly(int(fields.get("content-length", "0")))
    return fields.get(MARK, "")
