"""Every arrow of the state table is taken by a history and refused in another, on both
stores.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio

from effect_broker.ledger.connection import Connections
from tests.arrows import DRAWN, REFUSED, TAKEN, Arrow, Histories, History, Told
from tests.integration.broker import arrows_refused, arrows_taken  # noqa: F401
from tests.integration.broker.conftest import memory_world, postgres_world
from tests.integration.broker.world import World


@pytest_asyncio.fixture(params=["postgres", "memory"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Yield a broker whose database is shared, and cleared of live work."""
    if request.param == "memory":
        yield memory_world()
        return
    url: str = request.getfixturevalue("database_url")
    connections = Connections(url, limit=4)
    yield postgres_world(url, connections)
    await connections.close()
    with psycopg.connect(url, autocommit=True) as cleaning:
        cleaning.execute("DELETE FROM effect_broker.effect_work")


def named(case: object) -> str:
    return str(case) if isinstance(case, Arrow) else getattr(case, "__name__", "?")


async def arrows(world: World, told: Told) -> list[Arrow]:
    events = await world.broker.events(world.tenant.tenant_id, told.effect_id)
    return [Arrow.taken_by(event) for event in events][told.after :]


@pytest.mark.parametrize(("arrow", "history"), TAKEN.cases, ids=named)
async def test_arrow_is_taken(world: World, arrow: Arrow, history: History) -> None:
    assert arrow in await arrows(world, await history(world))


@pytest.mark.parametrize(("arrow", "history"), REFUSED.cases, ids=named)
async def test_arrow_is_refused(world: World, arrow: Arrow, history: History) -> None:
    assert arrow not in await arrows(world, await history(world))


@pytest.mark.parametrize("kind", [TAKEN, REFUSED], ids=["taken", "refused"])
def test_every_drawn_arrow_has_a_history(kind: Histories) -> None:
    assert sorted(kind.of) == DRAWN
