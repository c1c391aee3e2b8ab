"""Open connections, each for one tenant's one credential at one target, and no other."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import httpcore2

from effect_broker.adapters.wire.connecting import (
    Origin,
    Resolve,
    connect,
    system_resolve,
)
from effect_broker.adapters.wire.gate import SendGate
from effect_broker.adapters.wire.stream import SocketStream
from effect_broker.ports import Clock

IDLE_SECONDS_MAX: Final = 4.0
"""Below the five seconds after which common servers hang up: a request that meets the
hang-up is lost without proof."""

IDLE_CONNECTIONS_MAX: Final = 64
"""Over all tenants and targets of a process; the longest idle one goes first."""

# At debug level the library logs the headers of answers; no switch may capture those.
logging.getLogger("httpcore2").setLevel(logging.INFO)


@dataclass(frozen=True, slots=True)
class ConnectionKey:
    """Who may use a connection: one tenant, under one contract, with one credential."""

    tenant_id: UUID
    contract: bytes
    credential: bytes
    origin: Origin
    allow_private: bool


@dataclass(slots=True)
class Connection:
    """A connection while one request has it; `reused` once it has served another.

    It is `spoiled` where nobody can say where the next answer would begin.
    """

    stream: SocketStream
    http: httpcore2.AsyncHTTP11Connection
    reused: bool = False
    spoiled: bool = False
    idle_since: tuple[float, float] = (0.0, 0.0)

    def is_clean(self) -> bool:
        """Say whether it is between two exchanges, and nothing of a third is there.

        What a peer sent beyond its answer would be read as the answer to the next
        request, of another effect. The parser tells nobody else what it has read ahead.
        """
        if self.spoiled or not self.http.is_idle():
            return False
        ahead, ended = self.http._h11_state.trailing_data
        return not ahead and not ended and not self.http.has_expired()


class Connections:
    """Lends a connection to one request at a time; keeps it only if both sides are done.

    Belongs to one event loop. An idle one is used again within seconds only, by the
    monotonic and the boot clock: a frozen process does not learn how they fared.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve = system_resolve,
    ) -> None:
        self._clock = clock
        self._tls = tls
        self._resolve = resolve
        self._idle: list[tuple[ConnectionKey, Connection]] = []

    @asynccontextmanager
    async def lease(
        self, key: ConnectionKey, gate: SendGate, *, fresh: bool = False
    ) -> AsyncIterator[Connection]:
        """Yield a connection under `gate`; afterwards it is idle or closed, nothing else.

        `fresh` opens a new one: a request that may not be repeated should not meet a peer
        that is just hanging up.

        Raises:
            ConnectFailed: there is none, and nothing was sent.
        """
        connection = None if fresh else await self._take(key)
        if connection is None:
            connection = await self._open(key)
        connection.stream.arm(gate)
        try:
            yield connection
        finally:
            connection.stream.disarm()
            if connection.is_clean() and not gate.aborted and not fresh:
                await self._keep(key, connection)
            else:
                await connection.http.aclose()

    async def aclose(self) -> None:
        """Close what is idle."""
        while self._idle:
            await self._idle.pop()[1].http.aclose()

    async def _open(self, key: ConnectionKey) -> Connection:
        stream = await connect(
            key.origin,
            allow_private=key.allow_private,
            tls=self._context(),
            resolve=self._resolve,
        )
        origin = httpcore2.Origin(
            key.origin.scheme.encode(), key.origin.host.encode(), key.origin.port
        )
        return Connection(stream, httpcore2.AsyncHTTP11Connection(origin, stream))

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls

    async def _take(self, key: ConnectionKey) -> Connection | None:
        await self._drop_stale()
        for index in reversed(range(len(self._idle))):
            if self._idle[index][0] == key:
                connection = self._idle.pop(index)[1]
                connection.reused = True
                return connection
        return None

    async def _keep(self, key: ConnectionKey, connection: Connection) -> None:
        connection.idle_since = self._now()
        self._idle.append((key, connection))
        if len(self._idle) > IDLE_CONNECTIONS_MAX:
            await self._idle.pop(0)[1].http.aclose()

    async def _drop_stale(self) -> None:
        stale = [pair for pair in self._idle if self._is_stale(pair[1])]
        self._idle = [pair for pair in self._idle if pair not in stale]
        for _, connection in stale:
            await connection.http.aclose()

    def _is_stale(self, connection: Connection) -> bool:
        ages = (
            now - since
            for now, since in zip(self._now(), connection.idle_since, strict=True)
        )
        return max(ages) > IDLE_SECONDS_MAX or not connection.is_clean()

    def _now(self) -> tuple[float, float]:
        return self._clock.monotonic(), self._clock.boottime()
