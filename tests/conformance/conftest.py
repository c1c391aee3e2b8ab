"""Each test of this folder runs on both stores, and on one of them through a pooler."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from effect_broker.ledger.connection import Connections
from tests.conformance.ledgers import Store, memory_store, postgres_store
from tests.pooler import Alternating


@pytest_asyncio.fixture(params=["memory", "postgres", "pooled"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """Yield an empty store with one tenant and one contract.

    C62: through the pooler two clients take turns, and meet on two server connections.
    """
    if request.param == "memory":
        store = memory_store()
        await store.open()
        yield store
        return
    url = request.getfixturevalue("fresh_database")
    if request.param == "pooled":
        pooler = request.getfixturevalue("pooler")
        connections: Connections = Alternating(pooler.url(url))
    else:
        connections = Connections(url, limit=4)
    store = postgres_store(url, connections)
    await store.open()
    yield store
    await connections.close()
