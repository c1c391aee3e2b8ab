"""The PostgreSQL store on a fresh database."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from effect_broker.ledger.connection import Connections
from tests.conformance.ledgers import Store, postgres_store


@pytest_asyncio.fixture
async def store(fresh_database: str) -> AsyncIterator[Store]:
    """Yield an empty store with one tenant and one contract."""
    connections = Connections(fresh_database, limit=4)
    store = postgres_store(fresh_database, connections)
    await store.open()
    yield store
    await connections.close()
