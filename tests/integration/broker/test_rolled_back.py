"""C15: what the database rolls back or cuts off after a dispatch is SQL to repeat, never
the call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.domain.status import EffectStatus
from effect_broker.ledger.connection import Connections
from tests.integration.broker.conftest import postgres_world
from tests.integration.broker.world import World, contract

TROUBLE = {
    "serialization_failure": "RAISE EXCEPTION USING ERRCODE = '40001';",
    "deadlock_detected": "RAISE EXCEPTION USING ERRCODE = '40P01';",
    "connection_lost": "PERFORM pg_terminate_backend(pg_backend_pid());",
}
PLANTED = """
CREATE SEQUENCE public.receipts_tried;
CREATE FUNCTION public.trouble() RETURNS trigger SECURITY DEFINER LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('public.receipts_tried') <= {times} THEN
        {trouble}
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER trouble BEFORE INSERT ON effect_broker.effect_receipts
    FOR EACH ROW EXECUTE FUNCTION public.trouble();
"""
EVER = 1_000_000


@pytest_asyncio.fixture
async def world(fresh_database: str) -> AsyncIterator[World]:
    """Yield a broker on PostgreSQL: only there is anything rolled back."""
    connections = Connections(fresh_database, limit=2)
    yield await postgres_world(fresh_database, connections).open(contract("unsafe"))
    await connections.close()


def plant(url: str, trouble: str, times: int) -> None:
    with psycopg.connect(url, autocommit=True) as owner:
        planted = PLANTED.format(times=times, trouble=TROUBLE[trouble])
        owner.execute(planted.encode())


@pytest.mark.parametrize("trouble", TROUBLE)
async def test_record_that_the_database_gives_up_three_times_is_written_once(
    world: World, fresh_database: str, trouble: str
) -> None:
    effect = (await world.submit()).effect
    plant(fresh_database, trouble, 3)
    await world.dispatcher().run_once()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert (await world.events(effect.effect_id)).count("ReceiptRecorded") == 1
    assert len(world.target.requests) == 1


@pytest.mark.parametrize("trouble", TROUBLE)
async def test_record_that_the_database_always_gives_up_is_unknown_at_the_lease_end(
    world: World, fresh_database: str, trouble: str
) -> None:
    effect = (await world.submit()).effect
    plant(fresh_database, trouble, EVER)
    with pytest.raises(LedgerUnavailable):
        await world.dispatcher().run_once()
    await world.let_pass(31)
    await world.sweeper.run_once()
    assert await world.status(effect.effect_id) is EffectStatus.OUTCOME_UNKNOWN
    assert len(world.target.requests) == 1
