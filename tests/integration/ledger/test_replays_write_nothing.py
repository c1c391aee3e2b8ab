"""A replay or a conflict takes no transaction id and writes no log."""

from __future__ import annotations

import json
from collections.abc import Mapping

import psycopg
import pytest

from effect_broker.domain.intent import Intent
from effect_broker.ledger.composite import rows as composite_rows
from effect_broker.ledger.queries import statements
from effect_broker.ledger.rows import new_intent
from tests.conformance.ledgers import Store, succeeded
from tests.guarantees import guarantee


def write_ahead_bytes(
    url: str, statement: bytes, parameters: Mapping[str, object]
) -> int:
    """Run a statement and return how much log it wrote, asserting that it took no id."""
    with psycopg.connect(url) as connection:
        for _ in range(3):  # the first run may set hint bits of what others wrote
            row = connection.execute(
                b"EXPLAIN (ANALYZE, WAL, FORMAT json) " + statement, parameters
            ).fetchone()
        assert row is not None
        taken = connection.execute("SELECT pg_current_xact_id_if_assigned()").fetchone()
        assert taken == (None,)
        explained = row[0] if isinstance(row[0], list) else json.loads(row[0])
        return int(explained[0]["Plan"]["WAL Bytes"])


@guarantee("replay-answers-the-same")
@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("count", [1, 20])
async def test_replays_and_conflicts_write_nothing(
    store: Store, fresh_database: str, ended: bool, count: int
) -> None:
    intents = [store.intent(f"order:{number}") for number in range(count)]
    await store.ledger.reserve(intents)
    if ended:
        claimed = await store.claims(limit=100)
        await store.ledger.record([succeeded(claim) for claim in claimed.claims])
    for again in (
        intents,
        [store.intent(intent.operation_key) for intent in intents],
        [
            store.intent(intent.operation_key, request_hash=bytes(32))
            for intent in intents
        ],
    ):
        assert _written(fresh_database, again) == 0
    assert _written(fresh_database, [store.intent("order:new")], may_write=True) > 0


def _written(url: str, intents: list[Intent], *, may_write: bool = False) -> int:
    statement = statements("effect_work")["reserve"]
    parameters: dict[str, object] = {"intents": composite_rows(map(new_intent, intents))}
    if not may_write:
        return write_ahead_bytes(url, statement, parameters)
    with pytest.raises(AssertionError):
        write_ahead_bytes(url, statement, parameters)
    return 1


async def test_empty_claims_and_reads_write_nothing(
    store: Store, fresh_database: str
) -> None:
    reserved = await store.reserve()
    effect = {"tenant_id": store.tenant_id, "effect_id": reserved.intent.effect_id}
    for table in ("effects", "pages"):
        for statement in statements(table).values():
            parameters = effect | {
                "operation_key": "order:1",
                "after": None,
                "status": None,
                "tool": None,
                "prefix": None,
                "older_than_ms": None,
                "limit": 10,
                "lanes": [0],
            }
            assert write_ahead_bytes(fresh_database, statement, parameters) == 0
