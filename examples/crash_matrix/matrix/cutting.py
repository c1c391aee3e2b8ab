"""A proxy that cuts one connection around one request, as a network would.

It stands before the database or before the target. What is cut ends with a reset: whoever
called knows only that there was no answer.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum

READY = b"Z\x00\x00\x00\x05"
"""How PostgreSQL's word begins that a call is over; a byte about the transaction
follows.
"""

LATE_SECONDS = 0.6
"""How long a call lingers on the wire after its caller was cut off."""

ANSWER_SECONDS_MAX = 5.0
CHUNK = 1 << 20
_RESET = struct.pack("ii", 1, 0)


class Cut(StrEnum):
    """Where the connection breaks, seen from the server."""

    BEFORE = "before"  # it never sees the request
    HALF = "half"  # database: the caller saw the answer, but not that it was committed
    AFTER = "after"  # it has done it, and the caller sees nothing
    LATE = "late"  # database: it sees the call only after the caller was cut off


@dataclass(frozen=True)
class Breach:
    """One cut: at requests that hold `marker`, after the first `skip`, `times` in a
    row.
    """

    cut: Cut
    marker: bytes
    skip: int = 0
    times: int = 1


@dataclass
class Proxy:
    """Forwards to a server on this machine, but for the breach that is ordered."""

    port_behind: int
    is_database: bool = False
    port: int = 0
    cuts: int = 0
    _breach: Breach | None = None
    _seen: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def order(self, breach: Breach) -> None:
        """Cut at the requests to come."""
        self._breach, self._seen = breach, 0

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Lead one connection until either side or a breach ends it."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            # Cancelled is who still converses when the proxy is closed.
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._converse(reader, writer)
        finally:
            _reset(writer)
            self._tasks.discard(task)

    async def close(self) -> None:
        """End every connection."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        back, forth = await asyncio.open_connection(
            "127.0.0.1", self.port_behind, limit=CHUNK * 4
        )
        answers = asyncio.create_task(_pump(back, writer))
        try:
            while data := await reader.read(CHUNK):
                cut = self._cut_at(data)
                if cut is None:
                    forth.write(data)
                    continue
                await _end(answers)
                await self._break(cut, data, (reader, writer), (back, forth))
                return
        finally:
            await _end(answers)
            forth.close()

    async def _break(
        self,
        cut: Cut,
        data: bytes,
        caller: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.cuts += 1
        (reader, writer), (back, forth) = caller, server
        if cut is Cut.BEFORE:
            return
        if cut is Cut.LATE:
            _reset(writer)
            await asyncio.sleep(LATE_SECONDS)
        forth.write(data)
        # A request may come in pieces; the answer comes once it is whole.
        rest = asyncio.create_task(_pump(reader, forth, close=False))
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                answer = await self._answer(back)
        finally:
            await _end(rest)
        if cut is Cut.HALF:
            writer.write(answer[: -len(READY) - 1])
            await writer.drain()

    async def _answer(self, back: asyncio.StreamReader) -> bytes:
        if not self.is_database:
            return await back.read(CHUNK)
        return await back.readuntil(READY) + await back.readexactly(1)

    def _cut_at(self, data: bytes) -> Cut | None:
        breach = self._breach
        if breach is None or breach.marker not in data:
            return None
        place, self._seen = self._seen, self._seen + 1
        is_there = breach.skip <= place < breach.skip + breach.times
        return breach.cut if is_there else None


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, close: bool = True
) -> None:
    """Pass on what comes, and how it ends: a reset stays a reset."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError:
        _reset(writer)
        return
    if close:
        writer.close()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _reset(writer: asyncio.StreamWriter) -> None:
    """Break a connection without a word."""
    sock = writer.get_extra_info("socket")
    if not writer.is_closing() and sock is not None:
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


@asynccontextmanager
async def proxy_before(port: int, *, is_database: bool = False) -> AsyncIterator[Proxy]:
    """Run a proxy before a port of this machine, on a port of its own."""
    proxy = Proxy(port, is_database)
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=CHUNK * 4)
    proxy.port = listening.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listening.close()
        await proxy.close()
