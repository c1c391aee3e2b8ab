"""Many at once, on a real server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from uuid import uuid4

import psycopg
import pytest
import pytest_asyncio

from effect_broker.domain.errors import PayloadDrift
from effect_broker.domain.intent import Intent, Reservation
from effect_broker.ledger.composite import rows as composite_rows
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.ledger.registry import PostgresRegistry
from effect_broker.ledger.rows import new_intent
from effect_broker.ports import Claim, StepStatus
from tests.conformance.ledgers import MARGIN, S, Store, lost, postgres_store, succeeded
from tests.guarantees import guarantee
from tests.integration.broker.world import MovableClock, World, contract, postgres_time

RESERVE = (
    "SELECT created, effect_id FROM effect_broker.reserve(%s::effect_broker.new_intent[])"
)


@pytest_asyncio.fixture
async def crowd(fresh_database: str) -> AsyncIterator[Store]:
    """Yield a store with many connections."""
    connections = Connections(fresh_database, limit=20)
    crowd = postgres_store(fresh_database, connections)
    await crowd.open()
    yield crowd
    await connections.close()


@guarantee("one-intent-per-key")
async def test_a_thousand_reservations_of_one_key_are_one_intent(crowd: Store) -> None:
    other, _ = await crowd.registry.create_tenant("other", "Other", "h1")
    mine = [crowd.intent("order:42:charge") for _ in range(1000)]
    theirs = [
        crowd.intent("order:42:charge", tenant_id=other.tenant_id) for _ in range(20)
    ]
    answers = await asyncio.gather(
        *(crowd.ledger.reserve([intent]) for intent in mine + theirs)
    )
    of_mine = [answer[0] for answer in answers[:1000]]
    of_theirs = [answer[0] for answer in answers[1000:]]
    for answered in (of_mine, of_theirs):
        assert Counter(answer.created for answer in answered)[True] == 1
        assert len({answer.intent.effect_id for answer in answered}) == 1
    assert of_mine[0].intent.effect_id != of_theirs[0].intent.effect_id


@guarantee("one-intent-per-key")
async def test_a_thousand_reservations_by_callers_of_another_isolation(
    fresh_database: str,
) -> None:
    """A role or a pooler may give its sessions REPEATABLE READ: the call is repeated."""
    isolation = "default_transaction_isolation%3Drepeatable%5C%20read"
    connections = Connections(f"{fresh_database}?options=-c%20{isolation}", limit=20)
    crowd = postgres_store(fresh_database, connections)
    await crowd.open()
    intents = [crowd.intent("order:42:charge") for _ in range(1000)]
    answers = await asyncio.gather(*(crowd.ledger.reserve([it]) for it in intents))
    assert Counter(answer.created for (answer,) in answers)[True] == 1
    assert len({answer.intent.effect_id for (answer,) in answers}) == 1
    await connections.close()


@guarantee("one-intent-per-key", "drift-is-refused")
async def test_of_two_payloads_at_once_under_one_key_one_only_meets_conflicts(
    fresh_database: str,
) -> None:
    connections = Connections(fresh_database, limit=20)
    world = World(
        ledger=PostgresLedger(connections),
        registry=PostgresRegistry(connections),
        clock=MovableClock(),
        pass_time=postgres_time(fresh_database),
    )
    await world.open(contract())
    amounts = [100, 250] * 200
    answers = await asyncio.gather(
        *(world.submit(amount=amount) for amount in amounts), return_exceptions=True
    )
    told = list(zip(amounts, answers, strict=True))
    (won,) = [
        (amount, answer.effect)
        for amount, answer in told
        if isinstance(answer, Reservation) and answer.created
    ]
    for amount, answer in told:
        if amount == won[0]:
            assert isinstance(answer, Reservation)
            assert answer.effect.effect_id == won[1].effect_id
        else:
            assert isinstance(answer, PayloadDrift)
            assert (answer.effect_id, answer.fields) == (won[1].effect_id, ("amount",))
    await connections.close()


@guarantee("one-intent-per-key")
async def test_batches_that_share_keys_in_any_order_do_not_block_each_other(
    crowd: Store,
) -> None:
    keys = [f"order:{number}" for number in range(40)]
    batches = [
        [crowd.intent(key) for key in (keys[shift:] + keys[:shift])]
        for shift in range(0, 40, 4)
    ]
    answers = await asyncio.gather(*map(crowd.ledger.reserve, batches))
    created = Counter(
        reserved.intent.operation_key
        for answer in answers
        for reserved in answer
        if reserved.created
    )
    assert created == dict.fromkeys(keys, 1)


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
@pytest.mark.parametrize("winner", ["commits", "rolls back"])
async def test_a_reservation_waits_for_the_winner_and_never_lies(
    store: Store, fresh_database: str, isolation: str, winner: str
) -> None:
    first, second = store.intent("order:1"), store.intent("order:1")
    with psycopg.connect(fresh_database) as winning:
        _reserve(winning, first)
        waiting = asyncio.create_task(
            asyncio.to_thread(_reserve_in, fresh_database, isolation, second)
        )
        await _until_blocked(fresh_database)
        winning.commit() if winner == "commits" else winning.rollback()
    if winner == "rolls back":
        assert await waiting == (True, None)
    elif isolation == "READ COMMITTED":
        assert await waiting == (False, first.effect_id)
    else:
        # The snapshot cannot see the winner: the caller repeats.
        with pytest.raises(psycopg.errors.SerializationFailure):
            await waiting
    standing = await store.ledger.find(store.tenant_id, "order:1")
    assert standing is not None
    expected = first if winner == "commits" else second
    assert standing.intent.effect_id == expected.effect_id


async def test_workers_share_the_work_without_overlap(crowd: Store) -> None:
    await crowd.ledger.reserve([crowd.intent() for _ in range(200)])

    async def work_off() -> list[Claim]:
        done: list[Claim] = []
        while claimed := (await crowd.claims(limit=7)).claims:
            done += claimed
        return done

    shares = await asyncio.gather(*(work_off() for _ in range(8)))
    claims = [claim for share in shares for claim in share]
    # A claim passes over rows that another holds at that moment: one more look.
    claims += await work_off()
    counted = Counter(claim.work.effect_id for claim in claims)
    assert len(counted) == 200
    assert set(counted.values()) == {1}


@guarantee("every-transition-is-a-swap")
async def test_of_many_outcomes_of_one_claim_one_is_written(crowd: Store) -> None:
    claim = await crowd.dispatching()
    steps = [succeeded(claim, actor=f"ghost-{number}") for number in range(10)]
    steps += [lost(claim, actor=f"ghost-{number}") for number in range(10, 20)]
    results = await asyncio.gather(*(crowd.ledger.record([step]) for step in steps))
    applied = [result for (result,) in results if result.status is StepStatus.APPLIED]
    assert len(applied) == 1
    events = await crowd.ledger.events(crowd.tenant_id, claim.work.effect_id)
    assert len(events) <= 4  # a fenced ending may follow as evidence


async def test_sweeps_at_once_end_each_lease_once(crowd: Store) -> None:
    claims = [await crowd.dispatching() for _ in range(30)]
    await crowd.pass_time(claims[0].lease_until - claims[0].now + 2 * MARGIN)
    swept = await asyncio.gather(
        *(crowd.ledger.expire_leases(10, clock_margin=MARGIN) for _ in range(8))
    )
    lapsed = Counter(item.effect_id for part in swept for item in part)
    assert set(lapsed.values()) == {1}
    for claim in claims:
        expected = S.OUTCOME_UNKNOWN if claim.work.effect_id in lapsed else S.DISPATCHING
        assert await crowd.status(claim.work.effect_id) is expected


async def test_batches_of_steps_in_any_order_do_not_block_each_other(
    crowd: Store,
) -> None:
    claims = [await crowd.dispatching() for _ in range(30)]
    batches = [
        [lost(claim, actor=f"w{shift}") for claim in (claims[shift:] + claims[:shift])]
        for shift in range(0, 30, 5)
    ]
    results = await asyncio.gather(*map(crowd.ledger.record, batches))
    applied = Counter(
        result.effect_id
        for batch in results
        for result in batch
        if result.status is StepStatus.APPLIED
    )
    assert applied == dict.fromkeys((claim.work.effect_id for claim in claims), 1)


def _reserve(connection: psycopg.Connection, intent: Intent) -> tuple[bool, object]:
    row = connection.execute(RESERVE, [composite_rows([new_intent(intent)])]).fetchone()
    assert row is not None
    return row[0], row[1]


def _reserve_in(url: str, isolation: str, intent: Intent) -> tuple[bool, object]:
    with psycopg.connect(url) as connection:
        connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}".encode())
        connection.execute("SELECT count(*) FROM effect_broker.effect_keys")
        return _reserve(connection, intent)


async def _until_blocked(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while True:
            found = await connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND datname = current_database()"
            )
            row = await found.fetchone()
            if row and row[0]:
                return


async def test_lock_of_a_claim_is_had_by_its_own_token_only(
    store: Store, fresh_database: str
) -> None:
    claim = await store.dispatching()
    effect = (claim.work.effect_id, store.tenant_id)
    lock = "SELECT count(*) FROM effect_broker.lock_claim(%s, %s, %s)"
    with psycopg.connect(fresh_database) as connection:
        held = [
            connection.execute(lock, (*effect, token)).fetchone()
            for token in (claim.token, uuid4())
        ]
    assert held == [(1,), (0,)]
