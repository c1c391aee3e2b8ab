"""One world per test, on either store: what the use cases promise holds on both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from effect_broker.ledger.connection import Connections
from effect_broker.ledger.memory import MemoryLedger
from effect_broker.ledger.memory_registry import MemoryRegistry
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.ledger.registry import PostgresRegistry
from tests.integration.broker.world import MovableClock, World, postgres_time


@pytest_asyncio.fixture(params=["postgres", "memory"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Yield a broker on a fresh ledger; the test opens it with its contracts."""
    if request.param == "memory":
        yield memory_world()
        return
    url: str = request.getfixturevalue("fresh_database")
    connections = Connections(url, limit=4)
    yield postgres_world(url, connections)
    await connections.close()


def postgres_world(url: str, connections: Connections) -> World:
    """Return a world in which time passes by moving live instants into the past."""
    return World(
        ledger=PostgresLedger(connections),
        registry=PostgresRegistry(connections),
        clock=MovableClock(),
        pass_time=postgres_time(url),
        reopen=lambda: PostgresLedger(connections),
    )


def memory_world() -> World:
    """Return a world whose ledger's clock is the host's, so that both move together."""
    clock = MovableClock()

    def now() -> datetime:
        return datetime.fromtimestamp(clock.wall(), UTC)

    registry = MemoryRegistry(now)
    ledger = MemoryLedger(registry, now)

    async def already_passed(span: timedelta) -> None:
        """The clock is the only place where this ledger keeps time."""

    return World(ledger=ledger, registry=registry, clock=clock, pass_time=already_passed)
