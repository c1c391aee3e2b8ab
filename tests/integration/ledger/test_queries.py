"""Every named statement is good against the schema, and none of them scans a table."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import pytest_asyncio

from effect_broker.domain.status import EffectStatus
from effect_broker.ids import uuid7
from effect_broker.ledger import queries
from effect_broker.ledger.composite import rows as composite_rows
from effect_broker.ledger.rows import deferral, finishing, new_intent
from tests.conformance.ledgers import (
    MARGIN,
    SCOPE,
    Store,
    failed,
    lost,
    retryable,
    succeeded,
)

NAMED = [
    (table, name) for table in queries.tables() for name in queries.statements(table)
]
RARE_ROWS = (
    "INSERT INTO effect_broker.effect_compensations SELECT gen_random_uuid(),"
    " %(tenant_id)s, gen_random_uuid(), 'a', '', 'k1', now()"
    " FROM generate_series(1, 2000)",
    "INSERT INTO effect_broker.effect_contradictions SELECT gen_random_uuid(), 1,"
    " gen_random_uuid(), now() FROM generate_series(1, 2000)",
    "INSERT INTO effect_broker.effect_resolutions SELECT gen_random_uuid(), 'd',"
    " 'failed', 'a', NULL, now(), 1, '', 'k1' FROM generate_series(1, 2000)",
    "INSERT INTO effect_broker.effect_key_generations SELECT gen_random_uuid(), 2,"
    " now(), 'k' FROM generate_series(1, 2000)",
    "INSERT INTO effect_broker.claim_fences (token, found) SELECT gen_random_uuid(),"
    " false FROM generate_series(1, 2000)",
)
"""What few effects have, made up in bulk: an empty table is always scanned."""

OFFLINE = {"registry", "retention", "doctor", "health", "audit", "keys"}
"""Operators' statements: over few rows, or over everything, knowingly."""

SCAN_ROWS_MAX = 100
"""A table of few rows is read fastest from end to end."""


@pytest.mark.parametrize(("table", "name"), NAMED)
def test_every_statement_can_be_prepared(
    database_url: str, table: str, name: str
) -> None:
    text = queries.statements(table)[name].decode()
    numbers: dict[str, str] = {}

    def placeholder(match: re.Match[str]) -> str:
        return numbers.setdefault(match[1], f"${len(numbers) + 1}")

    text = re.sub(r"%\((\w+)\)s", placeholder, text).replace("%%", "%")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"PREPARE named AS {text}".encode())


@pytest_asyncio.fixture
async def seeded(store: Store, fresh_database: str) -> Store:
    """Yield a store with enough of everything that a scan would cost more."""
    other, _ = await store.registry.create_tenant("other", "Other", "h1")
    for tenant, count in ((store.tenant_id, 500), (other.tenant_id, 4000)):
        intents = [store.intent(tenant_id=tenant) for _ in range(count)]
        for start in range(0, len(intents), 500):
            await store.ledger.reserve(intents[start : start + 500])
    unknown, parked = lost, functools.partial(lost, delay=None)
    for written, count in (
        (succeeded, 900),
        (failed, 40),
        (unknown, 40),
        (parked, 40),
        (retryable, 40),
    ):
        claimed = await store.claims(limit=count)
        await store.ledger.record([written(claim) for claim in claimed.claims])
    await store.claims(limit=100)
    await store.pass_time(timedelta(minutes=1))
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        for rows in RARE_ROWS:
            connection.execute(rows.encode(), {"tenant_id": store.tenant_id})
        connection.execute("ANALYZE")
    return store


def plans(
    connection: psycopg.Connection, statement: bytes, parameters: Any
) -> Iterator[Any]:
    """Run a statement and yield the plan of everything that ran, inside functions too."""
    notices: list[str] = []
    connection.add_notice_handler(
        lambda notice: notices.append(notice.message_primary or "")
    )
    for setting in (
        "LOAD 'auto_explain'",
        "SET auto_explain.log_min_duration = 0",
        "SET auto_explain.log_nested_statements = on",
        "SET auto_explain.log_format = json",
        "SET auto_explain.log_level = notice",
    ):
        connection.execute(setting.encode())
    connection.execute(statement, parameters)
    connection.execute("SELECT 1")  # ends the statement before, which then reports
    for notice in notices:
        found = notice.partition("plan:\n")[2]
        if found:
            yield json.loads(found)


def scanned(plan: Any) -> Iterator[str]:
    """Yield the relations that a plan reads from end to end."""
    if isinstance(plan, list):
        for part in plan:
            yield from scanned(part)
    if isinstance(plan, dict):
        if plan.get("Node Type") == "Seq Scan":
            yield plan["Relation Name"]
        for part in plan.values():
            yield from scanned(part)


def parameters_of(store: Store, claim: Any) -> dict[str, Any]:
    """Return a value for every placeholder of every statement."""
    work = claim.work
    return {
        "tenant_id": store.tenant_id,
        "effect_id": work.effect_id,
        "operation_key": claim.intent.operation_key,
        "decision_id": "ticket-1",
        "after": uuid7(),
        "status": None,
        "tool": None,
        "prefix": None,
        "older_than_ms": 1,
        "limit": 20,
        "lanes": [0],
        "lane": 0,
        "token": uuid4(),
        "worker": "w",
        "contract_ids": [store.contract_id],
        "scope_digests": [SCOPE],
        "margin_ms": 250,
        "budget_ms": 60_000,
        "unsafe_limit": 1,
        "attempt_ids": [uuid7() for _ in range(20)],
        "attempt_id": uuid7(),
        "receipt_id": uuid7(),
        "effect_ids": None,
        "tenants": [store.tenant_id, uuid4()],
        "due_from": None,
        "lease_ms": 1000,
        "reason": "r",
        "actor": "a",
        "intents": composite_rows([new_intent(store.intent()) for _ in range(3)]),
        "intent": new_intent(store.intent()),
        "compensated_by": uuid7(),
        "expected_version": None,
        "sealed": b"",
        "data_key_id": "k1",
        "slug": "acme",
        "name": "Acme",
        "hmac_key_id": "h1",
        "disabled": False,
        "key_id": "k",
        "secret_hash": bytes(32),
        "scopes": ["read"],
        "callback_id": uuid7(),
        "lifetime_ms": None,
        "new_key_id": "k2",
        "overlap_ms": 0,
    }


async def test_no_statement_scans_a_table(seeded: Store, fresh_database: str) -> None:
    store = seeded
    if not _explains_nested(fresh_database):
        pytest.skip("this server comes without auto_explain")
    await store.claims(limit=1)  # looks behind the seeding, then at everything
    done, waiting, late = (await store.claims(limit=3)).claims
    await store.ledger.record([lost(late)])
    large = _large_tables(fresh_database)
    assert {"effect_work", "effect_keys", "effect_compensations"} <= large
    for table, name in NAMED:
        if table in OFFLINE or name in ("resolve_finish", "resolve_defer", "publish"):
            continue
        parameters = parameters_of(store, done)
        if name == "finish":
            steps = [finishing(succeeded(claim), uuid7()) for claim in (done, late)]
            parameters["steps"] = composite_rows(steps)
        if name == "defer":
            steps = [deferral(retryable(claim)) for claim in (waiting, done)]
            parameters["steps"] = composite_rows(steps)
        for status in EffectStatus if name == "page_live" else [None]:
            parameters["status"] = status
            with psycopg.connect(fresh_database, autocommit=False) as connection:
                ran = list(plans(connection, queries.statements(table)[name], parameters))
                connection.rollback()
            assert ran, name
            assert set(scanned(ran)) & large == set(), (name, status)


def _explains_nested(url: str) -> bool:
    with psycopg.connect(url) as connection, suppress(psycopg.errors.UndefinedFile):
        connection.execute("LOAD 'auto_explain'")
        return True
    return False


def _large_tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND reltuples > %s",
            [SCAN_ROWS_MAX],
        )
        return {name for (name,) in found}


def test_a_block_needs_its_sentence(tmp_path: Any, monkeypatch: Any) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "bad.sql").write_text("-- name: one\nSELECT 1;\n")
    monkeypatch.setattr(queries, "files", lambda _package: tmp_path)
    queries.statements.cache_clear()
    with pytest.raises(ValueError, match="without a sentence"):
        queries.statements("bad")
    queries.statements.cache_clear()


async def test_a_named_sweep_is_bounded(seeded: Store) -> None:
    lapsed = await seeded.ledger.expire_leases(7, clock_margin=MARGIN)
    assert len(lapsed) == 7
