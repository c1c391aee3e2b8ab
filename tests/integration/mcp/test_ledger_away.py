"""A ledger that nobody listens for any more: no caller is taken, and nothing is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from httpx2 import ASGITransport

from effect_broker import EffectBrokerClient, EffectRequest
from effect_broker.client import Unreachable
from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.ledger.connection import Connections
from effect_broker.surfaces.auth import Authenticator
from effect_broker.surfaces.http_api import HttpParts, create_app
from tests.guarantees import guarantee
from tests.integration.broker.conftest import postgres_world
from tests.integration.broker.world import contract
from tests.integration.mcp.test_serving import (
    KEY,
    TOOL,
    Served,
    calling,
    charge,
    refused,
    told,
)

NOBODY = "postgresql://nobody@127.0.0.1:1/none"
ACCEPTED = {"Accept": "application/json, text/event-stream"}


@dataclass
class Ledger:
    """Where a process finds its ledger; once it has gone, no connection is left."""

    url: str
    connections: Connections

    async def go(self, url: str) -> None:
        self.url = url
        await self.connections.close()


@dataclass
class Shop:
    served: Served
    ledger: Ledger
    home: str
    key: str

    def requests(self) -> int:
        return len(self.served.world.target.requests)

    async def nothing_is_sent(self) -> None:
        """Have a worker look for work in vain, with an effect waiting for it."""
        with pytest.raises(LedgerUnavailable):
            await self.served.world.dispatcher().run_once()
        assert self.requests() == 0

    async def comes_back(self) -> None:
        await self.ledger.go(self.home)
        await self.served.world.dispatcher().run_once()


@pytest_asyncio.fixture
async def shop(fresh_database: str) -> AsyncIterator[Shop]:
    """Yield a served broker with one effect that waits for a worker."""
    ledger = Ledger(fresh_database, Connections(lambda: ledger.url, limit=4))
    served = Served(postgres_world(fresh_database, ledger.connections))
    await served.world.open(contract())
    made = Shop(served, ledger, fresh_database, await served.key("submit", "read"))
    told(await served.call(TOOL, charge("order:0:charge:v1")))
    yield made
    await ledger.connections.close()


@guarantee("no-ledger-no-dispatch")
async def test_call_at_a_broker_without_its_ledger_is_refused_and_safe_to_repeat(
    shop: Shop,
) -> None:
    """The key is believed still, and the call itself meets nobody."""
    async with shop.served.client(shop.key) as client:
        await client.list_tools()
        await shop.ledger.go(NOBODY)
        problem = refused(await client.call_tool(TOOL, charge()))
        await shop.nothing_is_sent()
        await shop.comes_back()
        assert shop.requests() == 1
        answer = told(await client.call_tool(TOOL, charge()))
    assert problem["code"] == "ledger_unavailable"
    assert "same key" in problem["detail"]
    assert answer["replayed"] is False
    await shop.served.world.dispatcher().run_once()
    assert shop.requests() == 2


@guarantee("no-ledger-no-dispatch")
async def test_caller_whom_no_ledger_can_prove_is_told_when_to_call_again(
    shop: Shop,
) -> None:
    await shop.ledger.go(NOBODY)
    fresh = Served(shop.served.world)
    async with fresh.http(shop.key) as http:
        answer = await http.post("/mcp", json=calling(), headers=ACCEPTED)
        await shop.nothing_is_sent()
        await shop.comes_back()
        again = await http.post("/mcp", json=calling(), headers=ACCEPTED)
    assert (answer.status_code, answer.json()["code"]) == (503, "ledger_unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert again.json()["result"]["structuredContent"]["replayed"] is False


@guarantee("no-ledger-no-dispatch")
@pytest.mark.parametrize("warm", [True, False])
async def test_python_client_is_told_that_the_ledger_is_away_and_its_repeat_is_taken(
    shop: Shop, warm: bool
) -> None:
    world = shop.served.world
    parts = HttpParts(world.broker, Authenticator(world.registry), ready=_ready)
    request = EffectRequest(KEY, TOOL, {"amount": 100})
    async with EffectBrokerClient(
        "http://api",
        shop.key,
        patience_seconds=0,
        transport=ASGITransport(create_app(parts)),
    ) as client:
        if warm:
            await client.tools()
        await shop.ledger.go(NOBODY)
        with pytest.raises(LedgerUnavailable) as away:
            await client.submit(request)
        await shop.nothing_is_sent()
        await shop.comes_back()
        taken = await client.submit(request)
    assert not isinstance(away.value, Unreachable)
    assert taken.replayed is False
    assert shop.requests() == 1


async def _ready() -> None:
    """Readiness is not asked for here."""
