"""A proxy that cuts one connection around the commit of one call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

READY = b"Z\x00\x00\x00\x05I"
"""The server's word that the implicit transaction of a call is over."""


class Cut(StrEnum):
    """Where the connection breaks, seen from the server."""

    BEFORE = "before"  # it never sees the call
    HALF = "half"  # the client saw the answer, but not that it was committed
    AFTER = "after"  # it committed, and the client saw nothing
    LATE = "late"  # it sees the call only when `deliver` says so


@dataclass
class Proxy:
    """Forwards to the server; breaks at the next call that names `marker`."""

    server: str
    url: str = ""
    cut: Cut | None = None
    marker: bytes = b""
    connections: int = 0
    held: tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes] | None = None
    holding: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def break_at(self, cut: Cut, function: str) -> None:
        """Break once, at the next call of a function."""
        self.cut, self.marker = cut, f"effect_broker.{function}(".encode()

    async def until_held(self) -> None:
        """Return once a call is held back."""
        await self.holding.wait()

    async def deliver(self) -> None:
        """Let the server see the call that was held back, and finish it."""
        assert self.held is not None
        reader, writer, data = self.held
        writer.write(data)
        await reader.readuntil(READY)
        writer.close()

    async def drop(self) -> None:
        """End the connection of the call that was held back: the server never sees it."""
        assert self.held is not None
        self.held[1].close()
        await self.held[1].wait_closed()

    async def handle(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        parts = urlsplit(self.server)
        back, forth = await asyncio.open_connection(parts.hostname, parts.port)
        answers = asyncio.create_task(_pump(back, writer))
        try:
            await self._forward(reader, writer, back, forth, answers)
        finally:
            answers.cancel()
            with suppress(asyncio.CancelledError, ConnectionError):
                await answers
            writer.close()
            if self.held is None or self.held[1] is not forth:
                forth.close()
            self._tasks.discard(task)

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        back: asyncio.StreamReader,
        forth: asyncio.StreamWriter,
        answers: asyncio.Task[None],
    ) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                if self.cut is None or self.marker not in data:
                    forth.write(data)
                    continue
                cut, self.cut = self.cut, None
                answers.cancel()
                with suppress(asyncio.CancelledError):
                    await answers
                if cut is Cut.LATE:
                    self.held = (back, forth, data)
                    self.holding.set()
                elif cut is not Cut.BEFORE:
                    forth.write(data)
                    answer = await back.readuntil(READY)
                    if cut is Cut.HALF:
                        writer.write(answer.removesuffix(READY))
                        await writer.drain()
                return

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 20):
            writer.write(data)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def proxy_before(server: str) -> AsyncIterator[Proxy]:
    """Run a proxy before a database, on a port of its own."""
    proxy = Proxy(server)
    listening = await asyncio.start_server(proxy.handle, "127.0.0.1", 0, limit=1 << 22)
    port = listening.sockets[0].getsockname()[1]
    parts = urlsplit(server)
    credentials = parts.netloc.rpartition("@")[0]
    proxy.url = parts._replace(netloc=f"{credentials}@127.0.0.1:{port}").geturl()
    try:
        yield proxy
    finally:
        listening.close()
        await proxy.close()
