"""Sessions without state: zones, poolers, broken connections, a database that is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import pytest_asyncio

from effect_broker.domain.attempt import EndingKind
from effect_broker.domain.errors import (
    InvalidRequest,
    LedgerUnavailable,
    SchemaMismatch,
)
from effect_broker.embedded import EmbeddedPostgres
from effect_broker.ledger.connection import Call, Connections
from effect_broker.ledger.operating import SchemaState
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.ledger.registry import PostgresRegistry
from effect_broker.ports import StepStatus
from tests.conformance.ledgers import (
    MARGIN,
    Store,
    ending,
    lost,
    postgres_store,
    succeeded,
)
from tests.guarantees import guarantee
from tests.integration.broker.holding import HoldingAdapters
from tests.integration.broker.world import MovableClock, World, contract, postgres_time
from tests.integration.ledger.proxy import proxy_before

KILL = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


@pytest_asyncio.fixture(params=["America/New_York", "Pacific/Kiritimati"])
async def abroad(
    fresh_database: str, request: pytest.FixtureRequest
) -> AsyncIterator[Store]:
    """Yield a store whose sessions keep another zone."""
    url = f"{fresh_database}?options=-c%20timezone%3D{request.param.replace('/', '%2F')}"
    connections = Connections(url)
    abroad = postgres_store(fresh_database, connections)
    await abroad.open()
    yield abroad
    await connections.close()


async def test_leases_hold_in_any_zone_of_the_session(abroad: Store) -> None:
    claim = await abroad.dispatching()
    assert claim.now.tzinfo is UTC
    assert claim.lease_until - claim.now == timedelta(seconds=30)
    work = await abroad.work(claim.work.effect_id)
    assert work == claim.work
    assert work.due_at is not None
    assert work.due_at.tzinfo is UTC
    assert await abroad.ledger.expire_leases(10, clock_margin=MARGIN) == []
    await abroad.ledger.record([lost(claim, delay=timedelta(hours=1))])
    later = await abroad.work(claim.work.effect_id)
    events = await abroad.ledger.events(abroad.tenant_id, claim.work.effect_id)
    assert later.due_at == events[-1].at + timedelta(hours=1)


async def test_a_lease_renewed_after_a_long_wait_ends_in_the_future(
    store: Store, fresh_database: str
) -> None:
    claim = await store.dispatching()
    effect_id = claim.work.effect_id
    with psycopg.connect(fresh_database) as holding:
        holding.execute(
            "SELECT FROM effect_broker.effect_work WHERE effect_id = %s FOR UPDATE",
            [effect_id],
        )
        lease = timedelta(milliseconds=40)
        renewing = asyncio.create_task(
            store.ledger.renew(claim.token, [effect_id], lease)
        )
        row = holding.execute("SELECT pg_sleep(0.1), clock_timestamp()").fetchone()
        assert row is not None
        # The old lease ends meanwhile, so that only the renewal can set the new end.
        holding.execute("UPDATE effect_broker.effect_work SET due_at = clock_timestamp()")
        holding.commit()
    assert await renewing == {effect_id}
    due_at = (await store.work(effect_id)).due_at
    assert due_at is not None
    assert due_at >= row[1] + lease


async def test_a_connection_that_the_server_closed_is_replaced_unnoticed(
    store: Store, fresh_database: str
) -> None:
    assert await store.ledger.get(store.tenant_id, uuid4()) is None
    with psycopg.connect(fresh_database, autocommit=True) as killing:
        killing.execute(KILL)
    reserved = await store.reserve()
    claim = await store.claim(reserved.intent.effect_id)
    with psycopg.connect(fresh_database, autocommit=True) as killing:
        killing.execute(KILL)
    await store.ledger.record([succeeded(claim)])


@guarantee("no-ledger-no-dispatch")
async def test_a_database_that_is_away_is_said_to_be(
    private_postgres: EmbeddedPostgres,
) -> None:
    connections = Connections(private_postgres.url())
    store = postgres_store(private_postgres.url(), connections)
    await store.open()
    reserved = await store.reserve()
    private_postgres.stop()
    for call in (
        store.ledger.reserve([store.intent()]),
        store.ledger.claim(store.order()),
        store.ledger.get(store.tenant_id, reserved.intent.effect_id),
        store.registry.key("k"),
    ):
        with pytest.raises(LedgerUnavailable):
            await call
    private_postgres.restart()
    assert len((await store.claims()).claims) == 1
    await connections.close()


async def test_a_reader_is_not_taken_for_the_ledger(fresh_database: str) -> None:
    url = f"{fresh_database}?options=-c%20default_transaction_read_only%3Don"
    ledger = PostgresLedger(Connections(url))
    with pytest.raises(LedgerUnavailable):
        await ledger.hold_dispatch("never")


async def test_a_foreign_schema_is_said_to_be(empty_database: str) -> None:
    connections = Connections(empty_database)
    ledger = PostgresLedger(connections)
    assert await ledger.schema_state() is SchemaState.ABSENT
    with pytest.raises(SchemaMismatch):
        await ledger.get(uuid4(), uuid4())
    await connections.close()


@pytest.mark.parametrize(
    ("revision", "state"), [("0000", SchemaState.OLD), ("9999", SchemaState.NEW)]
)
async def test_another_revision_is_not_ready(
    store: Store, fresh_database: str, revision: str, state: SchemaState
) -> None:
    assert isinstance(store.ledger, PostgresLedger)
    assert await store.ledger.schema_state() is SchemaState.OK
    with psycopg.connect(fresh_database) as connection:
        connection.execute(
            "UPDATE effect_broker.schema_revision SET version_num = %s", [revision]
        )
    assert await store.ledger.schema_state() is state


async def test_no_session_state_is_left_behind(store: Store, fresh_database: str) -> None:
    """What a transaction pooler or RDS Proxy would pin or mix up is not there."""
    connections = Connections(fresh_database, limit=1)
    alone = postgres_store(fresh_database, connections)
    alone.tenant_id, alone.contract_id = store.tenant_id, store.contract_id
    claim = await alone.dispatching()
    for _ in range(10):
        await alone.reserve()
    await alone.ledger.record([succeeded(claim)])
    (row,) = await connections.fetch(
        Call(
            b"SELECT (SELECT count(*) FROM pg_prepared_statements)::int AS prepared,"
            b" (SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database"
            b" WHERE locktype = 'advisory'"
            b" AND datname = current_database())::int AS locks,"
            b" (SELECT count(*) FROM pg_settings"
            b" WHERE source = 'session')::int AS settings,"
            b" (SELECT count(*) FROM pg_cursors)::int AS cursors",
            {},
        )
    )
    assert (row.prepared, row.locks, row.settings) == (0, 0, 0)
    assert row.cursors <= 1
    await connections.close()


async def test_nothing_is_left_in_transaction_while_a_claim_is_held(
    store: Store, fresh_database: str
) -> None:
    claim = await store.dispatching()
    with psycopg.connect(fresh_database, autocommit=True) as watching:
        states = watching.execute(
            "SELECT state FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'effect-broker'"
        ).fetchall()
    assert states
    assert {state for (state,) in states} == {"idle"}
    await store.ledger.record([succeeded(claim)])


@pytest.mark.parametrize("step", ["dispatch", "probe"])
async def test_nothing_is_left_in_transaction_while_a_target_is_waited_for(
    fresh_database: str, step: str
) -> None:
    connections = Connections(fresh_database, limit=4)
    world = World(
        ledger=PostgresLedger(connections),
        registry=PostgresRegistry(connections),
        clock=MovableClock(),
        pass_time=postgres_time(fresh_database),
    )
    await world.open(contract("reconcilable"))
    holding = HoldingAdapters(world.adapters, after_answer=False)
    await world.submit("order:1:charge:v1", "lose_answer")
    waiting: Coroutine[Any, Any, Any]
    if step == "dispatch":
        waiting = world.dispatcher(adapters=holding).run_once()
    else:
        await world.dispatcher().run_once()
        await world.let_pass(60)
        waiting = world.reconciler(adapters=holding).run_once()
    held = asyncio.create_task(waiting)
    await holding.reached.wait()
    with psycopg.connect(fresh_database, autocommit=True) as watching:
        states = watching.execute(
            "SELECT state FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'effect-broker'"
        ).fetchall()
    assert states
    assert {state for (state,) in states} == {"idle"}
    holding.go.set()
    await held
    await connections.close()


async def test_connections_are_kept_and_bounded(fresh_database: str) -> None:
    async with proxy_before(fresh_database) as proxy:
        connections = Connections(proxy.url, limit=3)
        ledger = PostgresLedger(connections)
        await asyncio.gather(*(ledger.get(uuid4(), uuid4()) for _ in range(50)))
        assert proxy.connections == 3
        await connections.close()


async def test_a_cancelled_call_leaves_no_half_used_connection(
    store: Store, fresh_database: str
) -> None:
    connections = Connections(fresh_database, limit=1)
    ledger = PostgresLedger(connections)
    sleeping = asyncio.create_task(connections.fetch(Call(b"SELECT pg_sleep(60)", {})))
    while not await _active(fresh_database):
        continue
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping
    reserved = await store.reserve()
    snapshot = await ledger.get(store.tenant_id, reserved.intent.effect_id)
    assert snapshot is not None
    await connections.close()


async def _active(url: str) -> bool:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as watching:
        found = await watching.execute(
            "SELECT FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'"
            " AND state = 'active'"
        )
        return await found.fetchone() is not None


async def test_a_text_too_long_is_refused_and_stores_nothing(store: Store) -> None:
    intent = store.intent(requested_by="x" * 2000)
    with pytest.raises(InvalidRequest):
        await store.reserve(intent)
    assert await store.ledger.find(store.tenant_id, intent.operation_key) is None


async def test_evidence_that_is_no_json_does_not_lose_the_outcome(store: Store) -> None:
    claim = await store.dispatching()
    odd = ending(EndingKind.AMBIGUOUS, evidence={"seen": object(), "nan": float("nan")})
    written = lost(claim)
    arrow = replace(written.transition, ending=odd)
    (result,) = await store.ledger.record([replace(written, transition=arrow)])
    assert result.status is StepStatus.APPLIED
    (attempt,) = await store.ledger.attempts(store.tenant_id, claim.work.effect_id)
    assert attempt.ending is not None
    assert attempt.ending.evidence is not None
    assert list(attempt.ending.evidence) == ["unstorable_evidence"]


async def test_a_batch_holds_one_step_of_an_effect(store: Store) -> None:
    claim = await store.dispatching()
    with pytest.raises(ValueError, match="one step of an effect"):
        await store.ledger.record([lost(claim), succeeded(claim)])
