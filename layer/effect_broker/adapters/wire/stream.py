"""A socket that asks the gate before each write, and leaves nothing behind when aborted.

Between the gate's answer and the system call there is no suspension: no other task can
take the time in which a deadline passes.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import httpcore2

from effect_broker.adapters.wire.gate import NothingSent, SendGate

READ_BYTES: Final = 64 * 1024

_DISCARD: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing drops what the kernel still holds."""


class SocketStream(httpcore2.AsyncNetworkStream):
    """A connected socket under one event loop; time limits are the caller's."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._gate: SendGate | None = None
        self._tls: ssl.SSLObject | None = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._lock = threading.Lock()
        self._closed = False

    def arm(self, gate: SendGate) -> None:
        """Put the stream under the next request's gate; without one it writes nothing."""
        self._gate = gate
        gate.on_abort(partial(self._abort_for, gate))

    def disarm(self) -> None:
        """Take the stream out of its gate's hands."""
        with self._lock:
            self._gate = None

    async def read(
        self,
        max_bytes: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's signature
    ) -> bytes:
        """Return what arrives, or nothing at the end.

        Raises:
            httpcore2.ReadError: the connection broke.
        """
        try:
            if self._tls is None:
                return await self._received(max_bytes)
            return bytes(await self._through_tls(self._tls.read, max_bytes))
        except ssl.SSLZeroReturnError:
            return b""
        except OSError as error:
            raise httpcore2.ReadError(type(error).__name__) from error

    async def write(
        self,
        buffer: bytes,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's signature
    ) -> None:
        """Send all of `buffer`, if the gate permits it at this moment.

        Raises:
            SendForbidden: nothing of `buffer` was sent.
            httpcore2.WriteError: some of it may have been.
        """
        if not buffer:
            return
        if self._gate is None:
            raise NothingSent("ungated")
        self._gate.permit()
        try:
            if self._tls is None:
                await self._sent(buffer)
            else:
                await self._through_tls(self._tls.write, buffer)
        except OSError as error:
            raise httpcore2.WriteError(type(error).__name__) from error

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's signature
    ) -> SocketStream:
        """Shake hands on this socket; no byte of a request is part of it.

        Raises:
            OSError: the handshake failed (`ssl.SSLError` is one).
        """
        tls = ssl_context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=server_hostname
        )
        await self._through_tls(tls.do_handshake)
        self._tls = tls
        return self

    async def aclose(self) -> None:
        """Close the socket."""
        with self._lock:
            self._closed = True
            self._sock.close()

    def get_extra_info(self, info: str) -> Any:
        """Answer `is_readable`: on an idle connection, whether the peer has ended it, or
        has sent what nobody asked for.
        """
        if info != "is_readable":
            return None
        if self._closed or self._incoming.pending:
            return True
        if self._tls is not None and self._tls.pending():
            return True
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))

    def _abort_for(self, gate: SendGate) -> None:
        """Break the connection and drop what is queued, if it still serves that gate."""
        with self._lock:
            if self._closed or self._gate is not gate:
                return
            self._discard()
            with suppress(OSError):  # the peer was faster
                self._sock.shutdown(socket.SHUT_RDWR)

    async def _through_tls(self, step: Callable[..., Any], *arguments: Any) -> Any:
        while True:
            try:
                result = step(*arguments)
            except ssl.SSLWantReadError:
                await self._flush()
                await self._feed()
            except ssl.SSLError:
                await self._flush()  # the alert that tells the peer why
                raise
            else:
                await self._flush()
                return result

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await self._sent(self._outgoing.read())

    async def _feed(self) -> None:
        data = await self._received(READ_BYTES)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    async def _sent(self, data: bytes) -> None:
        try:
            await self._loop.sock_sendall(self._sock, data)
        except asyncio.CancelledError:
            self._discard()
            raise

    async def _received(self, max_bytes: int) -> bytes:
        try:
            return await self._loop.sock_recv(self._sock, max_bytes)
        except asyncio.CancelledError:
            self._discard()
            raise

    def _discard(self) -> None:
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DISCARD)
