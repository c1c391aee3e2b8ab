"""A connection that breaks around COMMIT: whatever the server did, one truth remains."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4

import psycopg
import pytest
import pytest_asyncio

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.ports import StepStatus
from tests.conformance.ledgers import SCOPE, S, Store, lost, retryable, succeeded
from tests.conformance.test_ledger_operating import DECISION, resolved
from tests.guarantees import guarantee
from tests.integration.ledger.proxy import Cut, Proxy, proxy_before

ALL = list(Cut)
COMMITTED = [Cut.HALF, Cut.AFTER]
ABSENT = [Cut.BEFORE, Cut.LATE]


@pytest_asyncio.fixture
async def proxy(fresh_database: str) -> AsyncIterator[Proxy]:
    async with proxy_before(fresh_database) as proxy:
        yield proxy


@pytest_asyncio.fixture
async def ledger(proxy: Proxy, store: Store) -> AsyncIterator[PostgresLedger]:
    """Yield a ledger behind the proxy; the store beside it goes straight."""
    connections = Connections(proxy.url, limit=1)
    yield PostgresLedger(connections)
    await connections.close()


async def settle(proxy: Proxy) -> None:
    """Let a call that was held back arrive at the server after all."""
    if proxy.held is not None:
        await proxy.deliver()


@pytest.mark.parametrize("cut", ALL)
async def test_a_reservation_is_made_once(
    store: Store, ledger: PostgresLedger, proxy: Proxy, cut: Cut
) -> None:
    intent = store.intent()
    proxy.break_at(cut, "reserve")
    (reserved,) = await ledger.reserve([intent])
    await settle(proxy)
    assert reserved.created
    assert reserved.intent.effect_id == intent.effect_id
    assert (await store.work(intent.effect_id)).version == 1
    again = await store.reserve(store.intent(intent.operation_key))
    assert (again.created, again.intent.effect_id) == (False, intent.effect_id)


@guarantee("confirmed-before-sent")
@pytest.mark.parametrize("cut", COMMITTED)
async def test_a_claim_that_committed_is_confirmed_by_a_write(
    store: Store, ledger: PostgresLedger, proxy: Proxy, fresh_database: str, cut: Cut
) -> None:
    reserved = await store.reserve()
    order = store.order(reserved.intent.effect_id)
    proxy.break_at(cut, "claim")
    (claim,) = (await ledger.claim(order)).claims
    assert claim.token == order.token
    assert claim.attempt is not None
    assert claim.attempt.scope_digest == SCOPE
    assert await store.work(reserved.intent.effect_id) == claim.work
    (attempt,) = await store.ledger.attempts(store.tenant_id, reserved.intent.effect_id)
    assert attempt == claim.attempt
    assert fences(fresh_database) == {order.token: True}
    (result,) = await ledger.record([succeeded(claim)])
    assert result.status is StepStatus.APPLIED


@guarantee("confirmed-before-sent")
@pytest.mark.parametrize("cut", ABSENT)
@pytest.mark.parametrize("named", [True, False])
async def test_a_claim_that_did_not_commit_never_will(
    store: Store,
    ledger: PostgresLedger,
    proxy: Proxy,
    fresh_database: str,
    cut: Cut,
    named: bool,
) -> None:
    reserved = await store.reserve()
    order = store.order(*([reserved.intent.effect_id] if named else []))
    proxy.break_at(cut, "claim")
    claimed = await ledger.claim(order)
    assert (claimed.claims, claimed.refused) == ([], [])
    assert fences(fresh_database) == {order.token: False}
    await settle(proxy)
    work = await store.work(reserved.intent.effect_id)
    assert (work.status, work.version) == (S.PREPARED, 1)
    assert await store.ledger.attempts(store.tenant_id, work.effect_id) == []
    again = await ledger.claim(store.order(work.effect_id))
    assert len(again.claims) == 1


@pytest.mark.parametrize("cut", ALL)
async def test_a_reconciliation_is_confirmed_or_fenced(
    store: Store, ledger: PostgresLedger, proxy: Proxy, cut: Cut
) -> None:
    claim = await store.dispatching()
    await store.lapse(claim)
    proxy.break_at(cut, "claim_reconciliation")
    claimed = await ledger.claim_reconciliation(store.order(claim.work.effect_id))
    await settle(proxy)
    work = await store.work(claim.work.effect_id)
    if cut in COMMITTED:
        assert [held.work for held in claimed.claims] == [work]
        assert work.status is S.RECONCILING
    else:
        assert claimed.claims == []
        assert work.status is S.OUTCOME_UNKNOWN


@pytest.mark.parametrize("cut", ALL)
@pytest.mark.parametrize(
    ("written", "function"), [(succeeded, "finish"), (retryable, "defer")]
)
async def test_a_step_is_applied_once(  # type: ignore[no-untyped-def]
    store: Store, ledger: PostgresLedger, proxy: Proxy, cut: Cut, written, function: str
) -> None:
    claim = await store.dispatching()
    proxy.break_at(cut, function)
    (result,) = await ledger.record([written(claim)])
    await settle(proxy)
    assert (result.status, result.version) == (StepStatus.APPLIED, 3)
    events = await store.ledger.events(store.tenant_id, claim.work.effect_id)
    assert len(events) == 3
    (attempt,) = await store.ledger.attempts(store.tenant_id, claim.work.effect_id)
    assert attempt.ending is not None
    assert not attempt.late


@pytest.mark.parametrize("cut", ALL)
async def test_late_evidence_is_kept_once(
    store: Store, ledger: PostgresLedger, proxy: Proxy, cut: Cut
) -> None:
    claim = await store.dispatching()
    await store.lapse(claim)
    proxy.break_at(cut, "defer")
    (result,) = await ledger.record([lost(claim)])
    await settle(proxy)
    assert (result.status, result.late_recorded) == (StepStatus.FENCED, True)
    assert (await store.work(claim.work.effect_id)).version == 4


@pytest.mark.parametrize("cut", ALL)
async def test_a_decision_is_written_once(
    store: Store, ledger: PostgresLedger, proxy: Proxy, cut: Cut
) -> None:
    claim = await store.dispatching()
    await store.ledger.record([lost(claim, delay=None)])
    seen = await store.unheld(claim.work.effect_id)
    proxy.break_at(cut, "resolve_finish")
    result = await ledger.resolve(resolved(seen), DECISION)
    await settle(proxy)
    assert (result.status, result.version) == (StepStatus.APPLIED, 4)
    assert await store.ledger.resolution(
        store.tenant_id, claim.work.effect_id, DECISION.decision_id
    ) == (DECISION, 4)


@pytest.mark.parametrize("cut", ALL)
async def test_a_leased_reservation_is_either_held_or_only_reserved(
    store: Store, ledger: PostgresLedger, proxy: Proxy, cut: Cut
) -> None:
    intent = store.intent()
    proxy.break_at(cut, "reserve_leased")
    reserved, claim = await ledger.reserve_leased(intent, store.order())
    await settle(proxy)
    assert reserved.created
    work = await store.work(intent.effect_id)
    if cut in COMMITTED:
        assert claim is not None
        assert work == claim.work
    else:
        assert claim is None
        assert (work.status, work.version) == (S.PREPARED, 1)


@guarantee("no-ledger-no-dispatch")
async def test_with_no_second_connection_nothing_may_be_sent(
    store: Store, fresh_database: str
) -> None:
    reserved = await store.reserve()
    order = store.order(reserved.intent.effect_id)
    async with proxy_before(fresh_database) as proxy:
        connections = Connections(proxy.url, limit=1)
        ledger = PostgresLedger(connections)
        assert await ledger.get(store.tenant_id, uuid4()) is None
        proxy.break_at(Cut.AFTER, "claim")
        proxy.server = "postgresql://nobody:x@127.0.0.1:1/none"
        with pytest.raises(LedgerUnavailable):
            await ledger.claim(order)
        await connections.close()
    assert await store.status(reserved.intent.effect_id) is S.DISPATCHING


@contextmanager
def session(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url) as connection:
        yield connection


def fences(url: str) -> dict[UUID, bool]:
    with session(url) as connection:
        found = connection.execute("SELECT token, found FROM effect_broker.claim_fences")
        return dict(found.fetchall())


@pytest.mark.parametrize("commits", [True, False])
async def test_settling_waits_for_a_commit_still_in_flight(
    store: Store, fresh_database: str, commits: bool
) -> None:
    reserved = await store.reserve()
    token = uuid4()
    with session(fresh_database) as flying:
        flying.execute(
            "SELECT effect_broker.claim(%s, 'w', 1, ARRAY[%s], ARRAY[%s::bytea], 250,"
            " NULL, 1, ARRAY[%s], NULL, NULL, NULL)",
            [token, store.contract_id, SCOPE, uuid4()],
        )
        settling = asyncio.create_task(_confirm(fresh_database, token))
        await _until_waiting(fresh_database, "confirm_claim")
        assert not settling.done()
        flying.commit() if commits else flying.rollback()
        found = await settling
    assert found == ([reserved.intent.effect_id] if commits else [])
    assert fences(fresh_database) == {token: commits}


async def _confirm(url: str, token: UUID) -> list[UUID]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        found = await connection.execute(
            "SELECT effect_id FROM effect_broker.confirm_claim(%s)", [token]
        )
        return [row[0] for row in await found.fetchall()]


async def _until_waiting(url: str, function: str) -> None:
    """Return once a session that calls the function waits for a lock."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while True:
            found = await connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND query LIKE %s AND datname = current_database()",
                [f"%{function}%"],
            )
            row = await found.fetchone()
            if row and row[0]:
                return
