"""Accidental edits are found, by Python and by the database alike."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from effect_broker.domain.errors import EffectNotFound
from effect_broker.ids import uuid7
from effect_broker.ledger.chain import event_digest
from effect_broker.ledger.connection import Call
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.ledger.queries import statements
from effect_broker.ledger.retention import PostgresRetention
from tests.conformance.ledgers import E, S, Store, lost, retryable, succeeded


@pytest.fixture
def ledger(store: Store) -> PostgresLedger:
    assert isinstance(store.ledger, PostgresLedger)
    return store.ledger


async def _worked(store: Store) -> tuple[object, object]:
    done = await store.dispatching()
    await store.ledger.record([retryable(done)])
    again = await store.claim(done.work.effect_id)
    await store.ledger.record([succeeded(again)])
    live = await store.dispatching()
    await store.ledger.record([lost(live, delay=timedelta(0))])
    return done.work.effect_id, live.work.effect_id


async def test_an_untouched_ledger_holds(store: Store, ledger: PostgresLedger) -> None:
    for effect_id in await _worked(store):
        assert await ledger.verify(store.tenant_id, effect_id) is None  # type: ignore[arg-type]
    assert await PostgresRetention(ledger._connections).check() == {}
    with pytest.raises(EffectNotFound):
        await ledger.verify(store.tenant_id, uuid7())
    with pytest.raises(EffectNotFound):
        await ledger.verify(uuid7(), effect_id)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (
            "UPDATE effect_broker.effect_events SET actor = 'x' WHERE sequence = 2",
            "sequence 2",
        ),
        (
            "UPDATE effect_broker.effect_events SET metadata = '{}' WHERE sequence = 3",
            "sequence 3",
        ),
        (
            "UPDATE effect_broker.effect_events SET at = at + interval '1 us'"
            " WHERE sequence = 1",
            "sequence 1",
        ),
        ("DELETE FROM effect_broker.effect_events WHERE sequence = 2", "sequence 2"),
    ],
)
async def test_an_edited_history_is_found(
    store: Store, ledger: PostgresLedger, fresh_database: str, edit: str, found: str
) -> None:
    done, live = await _worked(store)
    _edit(fresh_database, "effect_events", edit)
    for effect_id in (done, live):
        broken = await ledger.verify(store.tenant_id, effect_id)  # type: ignore[arg-type]
        assert broken is not None
        assert found in broken
        (row,) = await ledger._connections.fetch(
            Call(
                statements("effects")["broken_events"],
                {"tenant_id": store.tenant_id, "effect_id": effect_id},
            )
        )
        assert row.sequence in (2, 3) if "DELETE" in edit else str(row.sequence) in found
    assert "broken_chains" in await PostgresRetention(ledger._connections).check()


async def test_a_cut_history_and_an_edited_receipt_are_found(
    store: Store, ledger: PostgresLedger, fresh_database: str
) -> None:
    done, live = await _worked(store)
    _edit(
        fresh_database,
        "effect_events",
        f"DELETE FROM effect_broker.effect_events WHERE effect_id = '{live}'"
        " AND sequence = 3",
    )
    _edit(
        fresh_database,
        "effect_receipts",
        "UPDATE effect_broker.effect_receipts SET external_id = 'ch_forged'",
    )
    broken = await ledger.verify(store.tenant_id, live)  # type: ignore[arg-type]
    assert broken == "The history does not end where the effect stands."
    broken = await ledger.verify(store.tenant_id, done)  # type: ignore[arg-type]
    assert broken == "The receipt does not bear its digest."
    assert "stray_heads" in await PostgresRetention(ledger._connections).check()


async def test_lost_rows_are_found(
    store: Store, ledger: PostgresLedger, fresh_database: str
) -> None:
    await _worked(store)
    retention = PostgresRetention(ledger._connections)
    for table, check in (
        ("effect_receipts", "neither_live_nor_ended"),
        ("effect_attempts", "endings_without_attempt"),
        ("effect_keys", "intents_without_key"),
        ("effect_intents", "rows_without_intent"),
    ):
        _edit(fresh_database, table, f"DELETE FROM effect_broker.{table}")
        assert check in await retention.check()


async def test_both_sides_agree_on_any_text(store: Store, ledger: PostgresLedger) -> None:
    """Fields that run into each other, and text beyond ASCII, digest alike and apart."""
    seen = set()
    for actor, metadata in (
        ("a", '{"b":1}'),
        ("a{", '"b":1}'),
        ("\u00e9\U0001f600", "{}"),
        ("x" * 1000, "{}"),
    ):
        effect_id = uuid7()
        (row,) = await ledger._connections.fetch(
            Call(
                b"SELECT now() AS at, effect_broker.event_digest("
                b" effect_broker.first_head(), %(id)s::uuid, 7, now(), 'OutcomeLost',"
                b" NULL, 'prepared', %(actor)s::text, %(metadata)s::text) AS digest",
                {"id": effect_id, "actor": actor, "metadata": metadata},
            )
        )
        here = event_digest(
            bytes(32),
            effect_id=effect_id,
            sequence=7,
            at=row.at,
            type=E.OUTCOME_LOST,
            old=None,
            new=S.PREPARED,
            actor=actor,
            metadata=metadata,
        )
        assert row.digest == here
        seen.add(here)
    assert len(seen) == 4


def _edit(url: str, table: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        names = connection.execute(
            "SELECT relname FROM pg_class"
            " WHERE relname LIKE %s AND relkind IN ('r', 'p')",
            [f"{table}%"],
        ).fetchall()
        for (name,) in names:
            connection.execute(
                f"ALTER TABLE effect_broker.{name} DISABLE TRIGGER ALL".encode()
            )
        assert connection.execute(statement.encode()).rowcount > 0
