"""A target on a bare socket: it reads each request whole, then does as it was told."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Seen:
    """One request as it stood on the wire."""

    connection: int
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(values) <= 1, f"{name} stands twice"
        return values[0] if values else None


@dataclass
class Peer:
    """The server's side of one connection."""

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def until_gone(self) -> None:
        """Wait until the other side has closed or reset."""
        try:
            while await self.reader.read(1024):
                pass
        except ConnectionError:
            pass
        self.gone.set()


Act = Callable[[Peer], Awaitable[bool]]
"""Answers one request; False ends the connection."""


class FaultServer:
    """Plays `acts` in turn, one for each request; after them it answers 201."""

    def __init__(self, scheme: str, port: int) -> None:
        self.url = f"{scheme}://127.0.0.1:{port}"
        self.port = port
        self.seen: list[Seen] = []
        self.peers: list[Peer] = []
        self.acts: list[Act] = []
        self.arrived = asyncio.Condition()

    def plan(self, *acts: Act) -> None:
        self.acts.extend(acts)

    async def until_seen(self, count: int) -> None:
        async with self.arrived:
            await self.arrived.wait_for(lambda: len(self.seen) >= count)

    async def until_left(self, number: int) -> None:
        """Wait until a connection has come and gone."""
        async with self.arrived:
            await self.arrived.wait_for(lambda: len(self.peers) > number)
        await self.peers[number].gone.wait()

    async def converse(self, peer: Peer) -> None:
        while True:
            try:
                seen = await _read(peer)
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            async with self.arrived:
                self.seen.append(seen)
                self.arrived.notify_all()
            act = self.acts.pop(0) if self.acts else answer(201, {"id": "ch_1"})
            if not await act(peer):
                return


@asynccontextmanager
async def fault_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[FaultServer]:
    tasks: set[asyncio.Task[None]] = set()
    servers: list[FaultServer] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        peer = Peer(len(servers[0].peers), reader, writer)
        async with servers[0].arrived:
            servers[0].peers.append(peer)
            servers[0].arrived.notify_all()
        try:
            await servers[0].converse(peer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            peer.gone.set()
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    servers.append(FaultServer("https" if tls else "http", port))
    try:
        yield servers[0]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for peer in servers[0].peers:
            peer.writer.transport.abort()
            with suppress(ConnectionError, ssl.SSLError):
                await peer.writer.wait_closed()


def raw(
    status: int,
    body: bytes,
    headers: Mapping[str, str] | None = None,
    *,
    length: int = -1,
) -> bytes:
    fields = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body) if length < 0 else length),
        **(headers or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} Status\r\n{head}\r\n".encode() + body


def answer(status: int, document: Any, headers: Mapping[str, str] | None = None) -> Act:
    return answer_bytes(status, json.dumps(document).encode(), headers)


def answer_bytes(
    status: int, body: bytes, headers: Mapping[str, str] | None = None
) -> Act:
    async def act(peer: Peer) -> bool:
        await peer.send(raw(status, body, headers))
        return True

    return act


def cut(status: int, body: bytes) -> Act:
    """Promise more than is sent, then close."""

    async def act(peer: Peer) -> bool:
        await peer.send(raw(status, body, length=len(body) + 10))
        return False

    return act


def cut_chunks(status: int, body: bytes) -> Act:
    async def act(peer: Peer) -> bool:
        head = f"HTTP/1.1 {status} Status\r\nTransfer-Encoding: chunked\r\n\r\n"
        await peer.send(head.encode() + f"{len(body):x}\r\n".encode() + body + b"\r\n")
        return False

    return act


def stall(status: int, body: bytes) -> Act:
    """Send the head and a part, and nothing more until the other side leaves."""

    async def act(peer: Peer) -> bool:
        await peer.send(raw(status, body, length=len(body) + 10))
        await peer.until_gone()
        return False

    return act


def zipped(status: int, plain: bytes, encoding: str = "gzip") -> Act:
    return answer_bytes(status, gzip.compress(plain), {"Content-Encoding": encoding})


async def silence(peer: Peer) -> bool:
    await peer.until_gone()
    return False


async def close(peer: Peer) -> bool:
    return False


async def reset(peer: Peer) -> bool:
    peer.reset()
    return False


async def garbage(peer: Peer) -> bool:
    await peer.send(b"\x00\x01 this is no HTTP \r\n\r\n")
    return False


async def _read(peer: Peer) -> Seen:
    head = (await peer.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = tuple(
        (name, value.strip())
        for name, _, value in (line.partition(":") for line in lines)
    )
    length = next((v for n, v in headers if n.lower() == "content-length"), "0")
    body = await peer.reader.readexactly(int(length))
    return Seen(peer.number, method, target, headers, body)
