"""A recording proxy on the loopback: every request is counted before anything is done.

It forwards bytes as they came and speaks HTTP/1.1 only as far as finding where a request
and an answer end. Whatever it cannot read is recorded too, as a request that broke off.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from effect_broker.conformance.target import Fault, SeenRequest

_STREAM_LIMIT: Final = 1 << 22
_DISCARD: Final = struct.pack("ii", 1, 0)
_BODILESS: Final = frozenset({204, 304})

Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class CannedAnswer:
    """An answer that the recorder gives in the target's place."""

    status: int
    body: bytes = b"{}"
    content_type: str = "application/json"

    def head(self) -> bytes:
        """Write status line and headers."""
        return (
            f"HTTP/1.1 {self.status} Status\r\nContent-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.body)}\r\n\r\n"
        ).encode("latin-1")


SERVER_ERROR: Final = CannedAnswer(503)


def is_safe_method(request: SeenRequest) -> bool:
    """Take GET, HEAD and OPTIONS for lookups, and all else for mutations."""
    return request.method in {"GET", "HEAD", "OPTIONS"}


def _never(_: SeenRequest) -> bool:
    return False


class Recorder:
    """Stands between an adapter and a plain HTTP target that listens at `upstream`.

    `requests` are the mutating ones; `is_lookup` tells lookups apart, and `is_aside` what
    is neither, which passes as it is.
    """

    def __init__(
        self,
        upstream: tuple[str, int],
        *,
        is_lookup: Callable[[SeenRequest], bool] = is_safe_method,
        is_aside: Callable[[SeenRequest], bool] = _never,
        in_progress: CannedAnswer | None = None,
        server_error: CannedAnswer = SERVER_ERROR,
    ) -> None:
        self._upstream = upstream
        self._is_lookup = is_lookup
        self._is_aside = is_aside
        self._in_progress = in_progress
        self._server_error = server_error
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []
        self.requests: list[SeenRequest] = []
        self.lookups: list[SeenRequest] = []
        self.asides: list[SeenRequest] = []
        self.planned: list[Fault] = []
        self.planned_lookups: list[Fault] = []

    @property
    def url(self) -> str:
        """Where the adapter is to send to."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", 0, limit=_STREAM_LIMIT
        )

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        serving = self._serve((reader, writer), number=len(self._tasks) + 1)
        self._tasks.append(asyncio.create_task(serving))

    async def _serve(self, peer: Peer, number: int) -> None:
        """Serve one connection until either side, or a fault, ends it."""
        upstream: Peer | None = None
        try:
            while (request := await self._read_request(peer[0], number)) is not None:
                if upstream is None:
                    upstream = await asyncio.open_connection(
                        *self._upstream, limit=_STREAM_LIMIT
                    )
                    self._writers.append(upstream[1])
                if not await self._play(request, peer, upstream):
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            peer[1].close()
            if upstream is not None:
                upstream[1].close()

    async def _read_request(
        self, reader: asyncio.StreamReader, connection: int
    ) -> tuple[SeenRequest, bytes] | None:
        """Read one request whole; one that breaks off is recorded, and ends the
        connection.
        """
        raw = b""
        try:
            raw = await reader.readuntil(b"\r\n\r\n")
            seen = _parsed(raw, connection)
            body = await _read_body(reader, seen.headers, until_end=False)
        except asyncio.IncompleteReadError as broken:
            if raw or broken.partial:
                self._record(_fragment(raw + broken.partial, connection))
            return None
        except (ValueError, asyncio.LimitOverrunError):
            self._record(_fragment(raw, connection))
            return None
        seen = SeenRequest(
            connection, seen.method, seen.target, seen.headers, body.content
        )
        self._record(seen)
        return seen, raw + body.raw

    def _record(self, seen: SeenRequest) -> None:
        if self._is_aside(seen):
            self.asides.append(seen)
        else:
            (self.lookups if self._is_lookup(seen) else self.requests).append(seen)

    def _next_fault(self, seen: SeenRequest) -> Fault:
        if self._is_aside(seen):
            return Fault.NONE
        planned = self.planned_lookups if self._is_lookup(seen) else self.planned
        return planned.pop(0) if planned else Fault.NONE

    async def _play(
        self, request: tuple[SeenRequest, bytes], peer: Peer, upstream: Peer
    ) -> bool:
        """Do with one request what was planned; False ends the connection."""
        seen, raw = request
        fault = self._next_fault(seen)
        if fault is Fault.LOSE_REQUEST:
            return False
        if fault is Fault.IN_PROGRESS:
            assert self._in_progress is not None, "no in-progress answer was given"
            return await _send(peer, self._in_progress.head(), self._in_progress.body)
        head, body = await _exchange(upstream, seen, raw)
        match fault:
            case Fault.LOSE_ANSWER:
                return False
            case Fault.SILENCE:
                with suppress(ConnectionError):
                    while await peer[0].read(1024):
                        pass
                return False
            case Fault.RESET:
                _reset(peer[1])
                return False
            case Fault.CUT_BODY:
                await _send(peer, head, body[: len(body) // 2])
                return False
            case Fault.HIDE_COMMIT:
                return await _send(
                    peer, self._server_error.head(), self._server_error.body
                )
            case Fault.NONE:
                return await _send(peer, head, body)


@dataclass(frozen=True, slots=True)
class _Body:
    raw: bytes
    content: bytes


async def _exchange(upstream: Peer, seen: SeenRequest, raw: bytes) -> tuple[bytes, bytes]:
    reader, writer = upstream
    writer.write(raw)
    await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    while head.split(b" ", 2)[1].startswith(b"1"):
        head = await reader.readuntil(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    if seen.method == "HEAD" or status in _BODILESS:
        return head, b""
    return head, (await _read_body(reader, _fields(head), until_end=True)).raw


async def _send(peer: Peer, head: bytes, body: bytes) -> bool:
    peer[1].write(head + body)
    await peer[1].drain()
    return True


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DISCARD)
    writer.transport.abort()


def _parsed(head: bytes, connection: int) -> SeenRequest:
    first = head.split(b"\r\n", 1)[0].decode("latin-1")
    method, target, version = first.split(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(version)
    return SeenRequest(connection, method, target, _fields(head), b"")


def _fragment(raw: bytes, connection: int) -> SeenRequest:
    first = raw.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    target = first[1] if len(first) > 1 else ""
    return SeenRequest(connection, first[0][:20], target, (), raw, complete=False)


def _fields(head: bytes) -> tuple[tuple[str, str], ...]:
    lines = head.decode("latin-1").strip().split("\r\n")[1:]
    return tuple(
        (name, value.strip())
        for name, _, value in (line.partition(":") for line in lines)
    )


async def _read_body(
    reader: asyncio.StreamReader, fields: tuple[tuple[str, str], ...], *, until_end: bool
) -> _Body:
    lowered = {name.lower(): value for name, value in fields}
    if "chunked" in lowered.get("transfer-encoding", "").lower():
        return await _read_chunks(reader)
    if "content-length" in lowered:
        data = await reader.readexactly(int(lowered["content-length"]))
        return _Body(data, data)
    data = await reader.read() if until_end else b""
    return _Body(data, data)


async def _read_chunks(reader: asyncio.StreamReader) -> _Body:
    raw, content = b"", b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        raw += line
        if size == 0:
            break
        chunk = await reader.readexactly(size + 2)
        raw, content = raw + chunk, content + chunk[:-2]
    while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
        raw += line
    return _Body(raw + line, content)
