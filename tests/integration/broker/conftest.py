"""One world per test, on either store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from effect_broker.ledger.connection import Connections
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.ledger.registry import PostgresRegistry
from tests.integration.broker.world import MovableClock, World, postgres_time


@pytest_asyncio.fixture
async def world(fresh_database: str) -> AsyncIterator[World]:
    """Yield a broker on a fresh ledger; the test opens it with its contracts."""
    connections = Connections(fresh_database, limit=4)
    yield World(
        ledger=PostgresLedger(connections),
        registry=PostgresRegistry(connections),
        clock=MovableClock(),
        pass_time=postgres_time(fresh_database),
    )
    await connections.close()
