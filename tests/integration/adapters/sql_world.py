"""A broker whose target is the ledger's own database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg

from effect_broker.adapters.sql import SqlAdapters
from effect_broker.broker.attempting import Attempting
from effect_broker.broker.dispatch import Dispatcher
from effect_broker.broker.measuring import Measuring
from effect_broker.broker.recording import Recorder
from effect_broker.broker.scopes import Scopes
from effect_broker.broker.settling import Settler
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.intent import EffectRecord, EffectRequest
from effect_broker.domain.outcome import Outcome
from effect_broker.ids import uuid7
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.ledger.registry import PostgresRegistry
from effect_broker.ledger.transacting import PostgresTransactor
from effect_broker.ports import Claim, LocalMutation, StepFor, Transacted, Transactor
from tests.integration.broker.world import (
    MARGIN,
    MovableClock,
    NoWatchdog,
    World,
    contract,
    postgres_time,
)

KEY = "order:1:charge:v1"
APPLICATION = """
    CREATE TABLE IF NOT EXISTS public.charges (
        id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        operation_key text NOT NULL,
        amount integer NOT NULL CHECK (amount > 0)
    )
"""
STATEMENT = (
    "INSERT INTO charges (operation_key, amount) VALUES (%(operation_key)s, %(amount)s)"
    " RETURNING id, amount"
)


def sql_contract(function: str = "charge", **changes: Any) -> EffectContract:
    """Return a contract whose mutation is one of `mutations`."""
    path = f"tests.integration.adapters.mutations:{function}"
    terms = {"adapter": "sql", "sql": {"function": path, "external_id": "id"}}
    arguments = {
        "type": "object",
        "properties": {"amount": {"type": "integer"}, "then": {"type": "string"}},
    }
    return contract("transactional", **{"arguments": arguments, **terms, **changes})


class SqlWorld(World):
    """The world of the use cases' tests, its target a table beside the ledger."""

    def __init__(self, connections: Connections, url: str) -> None:
        super().__init__(
            ledger=PostgresLedger(connections),
            registry=PostgresRegistry(connections),
            clock=MovableClock(),
            pass_time=postgres_time(url),
        )
        self.url = url
        self.transactor = PostgresTransactor(connections)

    async def start(self, *contracts: EffectContract) -> SqlWorld:
        """Open the world, with the application's table in it."""
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            await connection.execute(APPLICATION)
        await self.open(*contracts)
        return self

    def sql_dispatcher(self, transactor: Transactor | None = None) -> Dispatcher:
        adapters = SqlAdapters(self.clock)
        return Dispatcher(
            new_id=uuid7,
            ledger=self.ledger,
            catalog=self.catalog,
            scopes=Scopes(self.catalog, adapters),
            attempting=Attempting(
                adapters, self.cipher, NoWatchdog(), transactor or self.transactor
            ),
            settler=Settler(self.cipher, self.cipher, MARGIN, "dispatcher"),
            recorder=Recorder(self.ledger),
            nudger=self.nudger,
            clock=self.clock,
            measuring=Measuring(self.meter),
            worker="worker",
        )

    async def charge(self, key: str = KEY, **arguments: Any) -> EffectRecord:
        request = EffectRequest(key, "sim.charge", {"amount": 100, **arguments}, "test")
        return (await self.broker.submit(self.tenant.tenant_id, request)).effect

    async def charges(self) -> int:
        """Count what the application's table holds, on a connection of its own."""
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            found = await connection.execute("SELECT count(*) FROM public.charges")
            row = await found.fetchone()
        assert row is not None
        return int(row[0])

    async def recover(self, passes: int = 4) -> None:
        """Let leases end, and sweep, reconcile and dispatch."""
        for _ in range(passes):
            await self.let_pass(60)
            await self.sweeper.run_once()
            await self.reconciler(adapters=SqlAdapters(self.clock)).run_once()
            await self.sql_dispatcher().run_once()

    async def until_a_lock_is_waited_for(self) -> None:
        """Return once some statement of this database waits for a lock."""
        async with await psycopg.AsyncConnection.connect(
            self.url, autocommit=True
        ) as watching:
            while True:
                found = await watching.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                    " AND datname = current_database()"
                )
                row = await found.fetchone()
                if row is not None and row[0]:
                    return
                await asyncio.sleep(0)


@asynccontextmanager
async def sql_world(url: str, *, through: str | None = None) -> AsyncIterator[SqlWorld]:
    """Yield a world on a database; `through` names a proxy before it."""
    connections = Connections(through or url, limit=4)
    yield SqlWorld(connections, url)
    await connections.close()


class HeldTransactor:
    """Stops a worker between its claim and its transaction."""

    def __init__(self, inner: Transactor) -> None:
        self.inner = inner
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    async def transact(
        self, claim: Claim, mutation: LocalMutation, step_for: StepFor
    ) -> Transacted | Outcome:
        self.reached.set()
        await self.go.wait()
        return await self.inner.transact(claim, mutation, step_for)
