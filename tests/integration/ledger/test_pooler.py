"""C62: behind a transaction pooler nothing of a session is needed, and none is left."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio
from psycopg import errors

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.domain.status import EffectStatus
from effect_broker.embedded import EmbeddedPostgres
from effect_broker.ledger import migrate
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.health import PostgresHealth
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.ledger.registry import PostgresRegistry
from effect_broker.ledger.retention import PostgresRetention
from effect_broker.surfaces.diagnosis.database import pooler_findings
from tests.conftest import SERVER_SETTINGS
from tests.guarantees import guarantee
from tests.integration.adapters.sql_world import sql_contract, sql_world
from tests.integration.broker.world import MovableClock, World, contract, postgres_time
from tests.pooler import Pooler, pooler_before

KEYS = 24
ACTS = ("lose_answer", "not_sent", "lose_request", "commit")

STATE_OF_A_SESSION = re.compile(
    r"^\s*(SET|RESET|DISCARD|PREPARE|EXECUTE|DEALLOCATE|DECLARE|LISTEN|LOAD|CREATE\s+TEMP)\b"
    r"|\bpg_(try_)?advisory_lock|\bset_config\b|\bnextval\b",
    re.IGNORECASE,
)
"""What a pooler or RDS Proxy would pin a connection for, or lose."""

LOGGED = re.compile(r"LOG:  (?:statement|execute (?P<name>[^:]+)): (?P<text>.*)")


@asynccontextmanager
async def world_through(pooler: Pooler, url: str) -> AsyncIterator[World]:
    """Yield a broker with two connections of its own to the pooler."""
    connections = Connections(pooler.url(url), limit=2)
    world = World(
        ledger=PostgresLedger(connections),
        registry=PostgresRegistry(connections),
        clock=MovableClock(),
        pass_time=postgres_time(url),
    )
    try:
        yield world
    finally:
        await connections.close()


def through(pooler: Pooler, url: str, **options: object) -> psycopg.Connection:
    return psycopg.connect(pooler.url(url), autocommit=True, **options)  # type: ignore[arg-type]


def test_pooler_of_these_tests_mixes_sessions(
    pooler: Pooler, fresh_database: str
) -> None:
    """The control: whoever leaves state in a session, or needs it, is caught here."""
    with through(pooler, fresh_database) as one, through(pooler, fresh_database) as other:
        one.execute("SET lock_timeout = '1234ms'")
        row = other.execute("SHOW lock_timeout").fetchone()
        assert row == ("1234ms",), "one server connection serves both"
        one.execute("SELECT 1", prepare=True)
        with pytest.raises(errors.DuplicatePreparedStatement):
            other.execute("SELECT 1", prepare=True)


@guarantee("one-intent-per-key")
async def test_two_brokers_behind_a_pooler_do_every_effect_once(
    pooler: Pooler, fresh_database: str
) -> None:
    """C62: more clients than server connections, each transaction on another one."""
    async with (
        world_through(pooler, fresh_database) as one,
        world_through(pooler, fresh_database) as other,
    ):
        await one.open(contract())
        other.tenant, other.target = one.tenant, one.target
        other.adapters = one.adapters
        keys = [f"order:{number}:charge:v1" for number in range(KEYS)]
        for number, key in enumerate(keys):
            one.acts[key] = [ACTS[number % len(ACTS)]]
        reserved = await asyncio.gather(
            *(world.submit(key) for key in keys for world in (one, other))
        )
        assert sum(it.created for it in reserved) == KEYS
        ids = {it.effect.effect_id for it in reserved}
        assert len(ids) == KEYS
        for _ in range(12):
            await asyncio.gather(*(_pass(world) for world in (one, other)))
            await one.let_pass(20)
            other.clock.moved = one.clock.moved
        statuses = {await one.status(effect_id) for effect_id in ids}
        assert statuses == {EffectStatus.SUCCEEDED}
        charged = Counter(it.key for it in one.target.objects)
        assert len(charged) == KEYS
        assert set(charged.values()) == {1}
        assert isinstance(one.ledger, PostgresLedger)
        for effect_id in ids:
            assert await one.ledger.verify(one.tenant.tenant_id, effect_id) is None


async def _pass(world: World) -> None:
    await world.sweeper.run_once()
    await world.reconciler().run_once()
    await world.dispatcher().run_once()


@guarantee("transactional-exactly-one")
async def test_mutation_and_receipt_are_one_commit_behind_a_pooler(
    pooler: Pooler, fresh_database: str
) -> None:
    """C62: the one transaction of several statements keeps its server connection."""
    through_pooler = pooler.url(fresh_database)
    async with sql_world(fresh_database, through=through_pooler) as world:
        await world.start(sql_contract())
        effects = [await world.charge(f"order:{n}:charge:v1") for n in range(6)]
        await asyncio.gather(*(world.sql_dispatcher().run_once() for _ in range(3)))
        await world.recover()
        for effect in effects:
            assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
        assert await world.charges() == len(effects)


async def test_doctor_tells_a_pooler_in_transaction_mode(
    pooler: Pooler, fresh_database: str
) -> None:
    """C62: it is found, and found harmless."""
    connections = Connections(pooler.url(fresh_database))
    (found,) = pooler_findings(await PostgresHealth(connections).backends())
    assert (found.verdict, "transaction mode" in found.what) == ("ok", True)
    await connections.close()


async def test_pooler_that_goes_away_is_a_ledger_that_is_away(
    postgres: str, fresh_database: str, server_folder: Path
) -> None:
    with pooler_before(postgres, server_folder / "pooler") as pooler:
        async with world_through(pooler, fresh_database) as world:
            await world.open(contract())
            pooler.stop()
            with pytest.raises(LedgerUnavailable):
                await world.submit("order:1:charge:v1")
            pooler.start()
            reservation = await world.submit("order:1:charge:v1")
            await world.dispatcher().run_once()
            assert await world.status(reservation.effect.effect_id) == "succeeded"


@pytest.fixture
def talkative(server_folder: Path) -> Iterator[EmbeddedPostgres]:
    """Yield a server that logs each statement as it came from the client."""
    settings = {**SERVER_SETTINGS, "log_statement": "all"}
    with EmbeddedPostgres.start(server_folder, settings=settings) as server:
        migrate.upgrade(server.url())
        yield server


@pytest_asyncio.fixture
async def said(talkative: EmbeddedPostgres) -> AsyncIterator[list[tuple[str, str]]]:
    """Yield what one broker said to the server, filled in by `everything`."""
    log = talkative.data_dir / "server.log"
    start = log.stat().st_size
    said: list[tuple[str, str]] = []
    await _everything(talkative.url())
    with log.open(errors="replace") as file:
        file.seek(start)
        for match in LOGGED.finditer(file.read()):
            said.append((match["name"] or "", match["text"]))
    yield said


async def _everything(url: str) -> None:
    """Use every part that talks to the ledger, over one pair of connections."""
    async with sql_world(url) as local:
        await local.start(sql_contract())
        await local.charge()
        await local.sql_dispatcher().run_once()
    connections = Connections(url, limit=2)
    world = World(
        ledger=PostgresLedger(connections),
        registry=PostgresRegistry(connections),
        clock=MovableClock(),
        pass_time=postgres_time(url),
    )
    await world.open(contract(version="2"))
    for number, act in enumerate(ACTS):
        await world.submit(f"order:{number}:charge:v1", act)
    await world.submit("order:0:charge:v1")
    await world.dispatcher().run_once()
    await world.settle(4, seconds=20)
    retention = PostgresRetention(connections)
    await retention.make_partitions()
    await retention.forget_fences()
    assert [count async for count in retention.prune(timedelta(0))]
    assert await retention.keys_in_use()
    await world.ledger.hold_dispatch("because")
    await world.ledger.release_dispatch("operator")
    await connections.close()


def test_no_statement_leaves_or_needs_state_of_a_session(
    said: list[tuple[str, str]],
) -> None:
    """C62, C61: the server's own log has no SET, PREPARE, DEALLOCATE or session lock."""
    texts = [text for _, text in said]
    for step in ("reserve", "claim", "finish", "defer", "expire_leases", "overdue"):
        assert any(f"effect_broker.{step}(" in text for text in texts), step
    assert [text for text in texts if STATE_OF_A_SESSION.search(text)] == []
    assert {name for name, _ in said} <= {"", "<unnamed>"}, "no named statement"
