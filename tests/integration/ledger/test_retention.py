"""Old effects leave tombstones; what they were is still answered."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from effect_broker.domain.attempt import EndingKind
from effect_broker.domain.errors import Conflict, NotFound
from effect_broker.ids import uuid7
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.ledger.retention import PostgresRetention
from effect_broker.ports import Claim, EffectQuery, Sealed, Step
from tests.conformance.ledgers import S, Store, lost, succeeded
from tests.conformance.test_ledger_evidence import late
from tests.conformance.test_ledger_operating import DECISION, resolved
from tests.guarantees import guarantee

OLD_MONTH = date(2024, 3, 1)


def id_of(day: date) -> UUID:
    """Return an effect id as it was made on a day."""
    instant = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    milliseconds = int(instant.timestamp() * 1000)
    return UUID(int=(uuid7().int & ((1 << 80) - 1)) | milliseconds << 80)


@pytest.fixture
def retention(store: Store) -> PostgresRetention:
    assert isinstance(store.ledger, PostgresLedger)
    return PostgresRetention(store.ledger._connections)


@pytest.fixture
def old_month(fresh_database: str) -> date:
    """Make the partitions of a month that was over long ago."""
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute(
            "DO $$ DECLARE t text; BEGIN"
            " FOREACH t IN ARRAY effect_broker.partitioned_tables() LOOP"
            "  EXECUTE format('CREATE TABLE effect_broker.%s_2024_03 PARTITION OF"
            "   effect_broker.%s FOR VALUES FROM (%L) TO (%L)', t, t,"
            "   effect_broker.month_start('2024-03-01'),"
            "   effect_broker.month_start('2024-04-01'));"
            "  EXECUTE format('ALTER TABLE effect_broker.%s_2024_03"
            "   OWNER TO effect_broker_owner', t);"
            " END LOOP; END $$"
        )
    return OLD_MONTH


async def _old_success(store: Store, operation_key: str) -> Claim:
    intent = store.intent(operation_key, effect_id=id_of(date(2024, 3, 15)))
    claim = await store.dispatching(intent)
    await store.ledger.record([succeeded(claim)])
    return claim


def _sealing(step: Step) -> Step:
    draft = step.transition.receipt
    assert draft is not None
    sealed = replace(draft, result_ciphertext=b"sealed", data_key_id="k1")
    return replace(step, transition=replace(step.transition, receipt=sealed))


async def test_partitions_of_the_next_months_are_made_once(
    store: Store, retention: PostgresRetention
) -> None:
    before = await retention.months()
    assert len(before) == 4  # the migration made this month and the next three
    assert await retention.make_partitions(4)
    assert await retention.make_partitions(4) == []
    assert len(await retention.months()) == 5
    assert await asyncio.gather(*(retention.make_partitions(6) for _ in range(3)))
    claim = await store.dispatching()
    await store.ledger.record([succeeded(claim)])


async def test_new_effects_lie_in_their_months(
    store: Store, retention: PostgresRetention, fresh_database: str
) -> None:
    claim = await store.dispatching()
    await store.ledger.record([succeeded(claim)])
    with psycopg.connect(fresh_database) as connection:
        for table in ("effect_intents", "effect_events", "effect_receipts"):
            row = connection.execute(
                f"SELECT count(*) FROM effect_broker.{table}_default".encode()
            ).fetchone()
            assert row == (0,)


@guarantee("one-intent-per-key", "replay-answers-the-same")
async def test_an_archived_effect_still_answers_replays_and_conflicts(
    store: Store, retention: PostgresRetention, old_month: date
) -> None:
    claim = await _old_success(store, "order:1")
    receipt = await store.ledger.receipt(store.tenant_id, claim.work.effect_id)
    before = await store.ledger.get(store.tenant_id, claim.work.effect_id)
    assert before is not None
    assert receipt is not None
    assert await retention.archive_month(old_month) == 1
    await retention.drop_archived_month(old_month)
    replay = await store.reserve(store.intent("order:1"))
    assert (replay.created, replay.status, replay.version) == (False, S.SUCCEEDED, 3)
    assert replay.intent.request_hash == claim.intent.request_hash
    assert replay.intent == replace(
        claim.intent, arguments_ciphertext=None, data_key_id="", preview=""
    )
    after = await store.ledger.get(store.tenant_id, claim.work.effect_id)
    assert after is not None
    assert replace(after, intent=before.intent, now=before.now) == before
    pruned = replace(receipt.draft, result_ciphertext=None, data_key_id=None)
    assert await store.ledger.receipt(store.tenant_id, claim.work.effect_id) == replace(
        receipt, draft=pruned
    )
    assert await store.ledger.find(store.tenant_id, "order:1") == replay
    assert await retention.check() == {}


async def test_a_month_with_a_live_effect_is_not_archived(
    store: Store, retention: PostgresRetention, old_month: date
) -> None:
    await _old_success(store, "order:1")
    live = store.intent("order:2", effect_id=id_of(date(2024, 3, 20)))
    claim = await store.dispatching(live)
    with pytest.raises(Conflict, match="is live"):
        await retention.archive_month(old_month)
    month = await retention.month(old_month)
    assert (month.archived, month.over, month.live) == (False, True, 1)
    await store.ledger.record([succeeded(claim)])
    assert await retention.archive_month(old_month) == 2
    month = await retention.month(old_month)
    assert (month.archived, month.live) == (True, 0)


async def test_neither_this_month_nor_an_unknown_one_is_archived(
    store: Store, retention: PostgresRetention
) -> None:
    months = await retention.months()
    with pytest.raises(Conflict):
        await retention.archive_month(months[0].month)
    with pytest.raises(NotFound):
        await retention.archive_month(date(1999, 1, 1))
    with pytest.raises(NotFound):
        await retention.drop_archived_month(months[0].month)


async def test_a_month_is_dropped_only_with_all_its_tombstones(
    store: Store, retention: PostgresRetention, old_month: date, fresh_database: str
) -> None:
    await _old_success(store, "order:1")
    await retention.archive_month(old_month)
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute(
            "ALTER TABLE effect_broker.effect_tombstones DISABLE TRIGGER ALL"
        )
        connection.execute("DELETE FROM effect_broker.effect_tombstones")
    with pytest.raises(Conflict, match="no tombstone"):
        await retention.drop_archived_month(old_month)


async def test_payloads_are_pruned_and_identity_stays(
    store: Store, retention: PostgresRetention, fresh_database: str
) -> None:
    done, open_claim = await store.dispatching(), await store.dispatching()
    await store.ledger.record([succeeded(done)])
    assert [n async for n in retention.prune(timedelta(hours=1))] == [0]
    assert [n async for n in retention.prune(timedelta(0))] == [1]
    assert sum([n async for n in retention.prune(timedelta(0))]) == 0
    replay = await store.reserve(store.intent(done.intent.operation_key))
    assert replay.intent == replace(done.intent, arguments_ciphertext=None, preview="")
    receipt = await store.ledger.receipt(store.tenant_id, done.work.effect_id)
    assert receipt is not None
    assert receipt.draft.result_ciphertext is None
    assert receipt.draft.external_id == "ch_1"
    live = await store.ledger.get(store.tenant_id, open_claim.work.effect_id)
    assert live is not None
    assert live.intent == open_claim.intent
    assert isinstance(store.ledger, PostgresLedger)
    assert await store.ledger.verify(store.tenant_id, done.work.effect_id) is None
    assert await retention.check() == {}


async def test_young_receipt_keeps_its_result_beside_an_old_one(
    store: Store, retention: PostgresRetention
) -> None:
    old, young = await store.dispatching(), await store.dispatching()
    steps = [_sealing(succeeded(claim)) for claim in (old, young)]
    await store.ledger.record(steps[:1])
    await asyncio.sleep(3)
    await store.ledger.record(steps[1:])
    assert [n async for n in retention.prune(timedelta(seconds=2))] == [1]
    kept = [
        await store.ledger.receipt(store.tenant_id, claim.work.effect_id)
        for claim in (old, young)
    ]
    results = [it.draft.result_ciphertext for it in kept if it is not None]
    assert results == [None, b"sealed"]


async def test_month_with_a_waiting_task_token_is_not_archived(
    store: Store, retention: PostgresRetention, old_month: date
) -> None:
    claim = await _old_success(store, "order:1")
    token = Sealed(b"sealed", "k1")
    await store.callbacks.keep(store.tenant_id, claim.work.effect_id, uuid7(), token)
    with pytest.raises(Conflict, match="is live"):
        await retention.archive_month(old_month)


@guarantee("tenant-from-credential")
async def test_archived_receipt_is_not_found_by_another_tenant(
    store: Store, retention: PostgresRetention, old_month: date
) -> None:
    claim = await _old_success(store, "order:1")
    await retention.archive_month(old_month)
    await retention.drop_archived_month(old_month)
    assert await store.ledger.receipt(store.tenant_id, claim.work.effect_id)
    assert await store.ledger.receipt(uuid4(), claim.work.effect_id) is None


@guarantee("one-intent-per-key")
async def test_pruning_beside_many_submits_leaves_one_effect(
    store: Store, retention: PostgresRetention, fresh_database: str
) -> None:
    first = await store.dispatching(store.intent("order:1"))
    await store.ledger.record([succeeded(first)])
    connections = Connections(fresh_database, limit=10)
    ledger = PostgresLedger(connections)

    async def sweep() -> None:
        for _ in range(20):
            assert [n async for n in retention.prune(timedelta(0))]

    answers = await asyncio.gather(
        sweep(), *(ledger.reserve([store.intent("order:1")]) for _ in range(100))
    )
    assert {answer[0].intent.effect_id for answer in answers[1:] if answer} == {
        first.work.effect_id
    }
    found = await store.ledger.page(store.tenant_id, EffectQuery())
    assert len(found) == 1
    await connections.close()


async def test_a_rotation_seals_everything_anew_and_nothing_twice(
    store: Store, retention: PostgresRetention
) -> None:
    done = await store.dispatching()
    await store.ledger.record([succeeded(done)])
    claim = await store.dispatching()
    await store.ledger.record([lost(claim, delay=None)])
    seen = await store.unheld(claim.work.effect_id)
    await store.ledger.resolve(resolved(seen), DECISION)
    await store.ledger.compensate(
        store.tenant_id,
        done.work.effect_id,
        claim.work.effect_id,
        actor="a",
        sealed_reason=b"why",
        data_key_id="k1",
    )
    late_claim = await store.dispatching()
    await store.lapse(late_claim)
    await late(store, late_claim, EndingKind.COMMITTED)
    assert (await retention.keys_in_use())[0] == {"k1"}
    values = [
        value
        async for values in retention.sealed_under_other_keys("k2")
        for value in values
    ]
    assert sorted(value.place for value in values) == [
        "arguments",
        "arguments",
        "arguments",
        "compensation",
        "ending",
        "receipt",
        "resolution",
    ]
    assert {value.tenant_id for value in values} == {store.tenant_id}
    anew = [b"anew:" + value.ciphertext for value in values]
    assert await retention.reseal(values, anew, "k2") == len(values)
    assert await retention.reseal(values, [b"too late"] * len(values), "k2") == 0
    assert [values async for values in retention.sealed_under_other_keys("k2")] == []
    data, hmac = await retention.keys_in_use()
    assert data == {"k2"}
    assert hmac == {"h1"}
    receipt = await store.ledger.receipt(store.tenant_id, done.work.effect_id)
    assert receipt is not None
    assert receipt.draft.result_ciphertext == b"anew:sealed"
    assert isinstance(store.ledger, PostgresLedger)
    assert await store.ledger.verify(store.tenant_id, done.work.effect_id) is None


async def test_fences_are_forgotten_after_a_day(
    store: Store, retention: PostgresRetention, fresh_database: str
) -> None:
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO effect_broker.claim_fences SELECT gen_random_uuid(), false,"
            " now() - age FROM unnest(ARRAY[interval '2 days', interval '1 hour']) age"
        )
    assert await retention.forget_fences() == 1
    assert await retention.forget_fences() == 0
