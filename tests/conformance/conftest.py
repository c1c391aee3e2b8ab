"""Each test of this folder runs on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from effect_broker.ledger.connection import Connections
from tests.conformance.ledgers import Store, memory_store, postgres_store


@pytest_asyncio.fixture(params=["memory", "postgres"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """Yield an empty store with one tenant and one contract."""
    if request.param == "memory":
        store = memory_store()
        await store.open()
        yield store
        return
    url = request.getfixturevalue("fresh_database")
    connections = Connections(url, limit=4)
    store = postgres_store(url, connections)
    await store.open()
    yield store
    await connections.close()
