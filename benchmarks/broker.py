"""The whole broker as its processes wire it, over connections that can be watched."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any
from uuid import UUID

from psycopg.pq import Trace

from benchmarks.contract import KEYRING, TOOL
from benchmarks.server import Place
from effect_broker.broker.dispatch import Dispatcher
from effect_broker.domain.intent import EffectRequest
from effect_broker.domain.status import EffectStatus
from effect_broker.ledger.connection import Connection, Connections
from effect_broker.ports import Nudger
from effect_broker.settings import Settings
from effect_broker.telemetry import NullMeter
from effect_broker.wiring.core import Core
from effect_broker.wiring.workers import Workers

MEMO_BYTES = 470
"""In hexadecimal, with the JSON around it: arguments of the floor's 1 KB."""


class WatchedConnections(Connections):
    """Connections whose protocol libpq writes down: each answer ends in ReadyForQuery."""

    def __init__(self, url: str, *, limit: int = 1) -> None:
        super().__init__(url, limit=limit)
        self._trace: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115

    def round_trips(self) -> int:
        """Return how many answers were waited for since the last call."""
        self._trace.seek(0)
        count = sum("ReadyForQuery" in line for line in self._trace)
        self._trace.truncate(0)
        return count

    async def close(self) -> None:
        await super().close()
        self._trace.close()

    async def _connect(self) -> Connection:
        connection = await super()._connect()
        connection.pgconn.trace(os.dup(self._trace.fileno()))
        connection.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        return connection


@dataclass(frozen=True)
class MeasuredCore(Core):
    """A process's core over given connections, without queues."""

    given: Connections | None = None
    nudges: Nudger | None = None

    @cached_property
    def connections(self) -> Connections:
        """The given connections, or the usual ones."""
        return self.given or Connections(
            str(self.settings.database_url), limit=self.connections_max
        )

    @cached_property
    def nudger(self) -> Nudger:
        """The given nudger, or the usual one, which without queues says nothing."""
        return self.nudges or super().nudger


class BrokerClient:
    """A submitter and a dispatcher on one connection, working on one effect after
    another.
    """

    def __init__(
        self,
        place: Place,
        *,
        connections: Connections | None = None,
        nudger: Nudger | None = None,
    ) -> None:
        self.tenant_id = place.tenant_id
        self.core = MeasuredCore(
            Settings(database_url=place.url, keyring=KEYRING),
            NullMeter(),
            given=connections,
            nudges=nudger,
        )
        self.workers = Workers(self.core, "dispatcher")

    async def effect(self, request: EffectRequest) -> UUID:
        """Submit, dispatch as a nudge asks for it, record the receipt."""
        submitted = await self.core.broker.submit(self.tenant_id, request)
        effect_id = submitted.effect.effect_id
        report = await self.workers.dispatcher.run_once(effect_ids=[effect_id])
        assert report.recorded == 1
        return effect_id

    async def effect_in_process(self, request: EffectRequest) -> None:
        """Carry an effect out in the call that submits it."""
        done = await self.workers.in_process.execute(self.tenant_id, request)
        assert done.effect.status is EffectStatus.SUCCEEDED

    async def lose(self, request: EffectRequest) -> UUID:
        """Submit and dispatch an effect whose answer is lost."""
        submitted = await self.core.broker.submit(self.tenant_id, request)
        effect_id = submitted.effect.effect_id
        await self.workers.dispatcher.run_once(effect_ids=[effect_id])
        return effect_id

    def dispatcher(self, *, batch_max: int) -> Dispatcher:
        """Return a dispatcher like the client's own that claims more at once."""
        dispatcher = Workers(self.core, "dispatcher").dispatcher
        dispatcher._batch_max = batch_max
        return dispatcher

    async def close(self) -> None:
        """Close its connection."""
        await self.core.connections.close()


def request(tool: str = TOOL) -> EffectRequest:
    """Return a new request with arguments of the floor's size."""
    return EffectRequest(
        operation_key=f"bench:{os.urandom(12).hex()}",
        tool=tool,
        arguments={
            "amount": 100,
            "currency": "eur",
            "memo": os.urandom(MEMO_BYTES).hex(),
        },
        requested_by="key:bench",
    )


async def seconds_each(
    workers: Sequence[Callable[[Any], Awaitable[Any]]],
    make: Callable[[], Any],
    operations: int,
) -> float:
    """Let tasks on this loop carry out operations; return the seconds for each."""
    share = max(1, operations // len(workers))
    work = [[make() for _ in range(share)] for _ in workers]

    async def client(
        worker: Callable[[Any], Awaitable[Any]], mine: Sequence[Any]
    ) -> None:
        for operation in mine:
            await worker(operation)

    begun = time.perf_counter()
    await asyncio.gather(*(client(*pair) for pair in zip(workers, work, strict=True)))
    return (time.perf_counter() - begun) / (share * len(workers))
