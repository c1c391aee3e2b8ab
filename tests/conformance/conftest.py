"""Each test of this folder runs on both stores, and on one of them through a pooler.

`EFFECT_BROKER_TEST_STORE=package.module:function` names one more: the function returns a
new, empty `Store` of `tests/conformance/ledgers.py`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pkgutil import resolve_name

import pytest
import pytest_asyncio

from effect_broker.ledger.connection import Connections
from tests.conformance.ledgers import Store, memory_store, postgres_store
from tests.pooler import Alternating

OWN = os.environ.get("EFFECT_BROKER_TEST_STORE")
STORES = ["memory", "postgres", "pooled", *(["own"] if OWN else [])]


@pytest_asyncio.fixture(params=STORES)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """Yield an empty store with one tenant and one contract.

    C62: through the pooler two clients take turns, and meet on two server connections.
    """
    if request.param in ("memory", "own"):
        make = memory_store if request.param == "memory" else resolve_name(str(OWN))
        store = make()
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
