"""The application over a whole broker on PostgreSQL, spoken to without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from effect_broker.ledger.connection import Connections
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.ledger.registry import PostgresRegistry
from tests.integration.broker.world import (
    MovableClock,
    World,
    contract,
    postgres_time,
)
from tests.integration.http.api import Api


@pytest_asyncio.fixture
async def api(fresh_database: str) -> AsyncIterator[Api]:
    """Yield the API of a broker with one idempotent tool and two tenants."""
    connections = Connections(fresh_database, limit=4)
    world = World(
        ledger=PostgresLedger(connections),
        registry=PostgresRegistry(connections),
        clock=MovableClock(),
        pass_time=postgres_time(fresh_database),
    )
    await world.open(contract())
    async with Api.over(world) as served:
        yield served
    await connections.close()
