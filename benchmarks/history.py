"""Ledgers with a past: finished effects in monthly partitions, and work that is due."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg import sql

from benchmarks.contract import HMAC_KEY_ID
from benchmarks.server import Place
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.registry import PostgresRegistry

SQL: Final = Path(__file__).with_name("sql")
STOCK_AT_ONCE: Final = 500

PARTITIONED: Final = {
    "intents": "effect_intents",
    "attempts": "effect_attempts",
    "endings": "effect_attempt_endings",
    "events": "effect_events",
    "receipts": "effect_receipts",
}

_STOCK: Final = (SQL / "stock.sql").read_bytes()


def add_history(
    place: Place, effects: int, *, months: int, told: Callable[[float], None]
) -> None:
    """Fill the months before this one with finished effects."""
    share = effects // months
    with psycopg.connect(place.url) as connection:
        for number, month in enumerate(_months(months)):
            with connection.transaction():
                _add_month(connection, place, month, number * share, share)
            told((number + 1) / months)
        connection.autocommit = True
        connection.execute(b"ANALYZE")


async def stock(
    place: Place, effects: int, *, told: Callable[[float], None] = lambda _: None
) -> None:
    """Reserve effects that are due, many in a call, made by the server itself."""
    async with await psycopg.AsyncConnection.connect(
        place.url, autocommit=True
    ) as connection:
        await connection.execute(b"SET synchronous_commit = off")
        for first in range(0, effects, STOCK_AT_ONCE):
            parameters = {
                "tenant_id": place.tenant_id,
                "contract_id": place.contract_id,
                "count": min(STOCK_AT_ONCE, effects - first),
            }
            await connection.execute(_STOCK, parameters)
            told(first / effects)


async def add_tenants(place: Place, count: int) -> Sequence[Place]:
    """Create more tenants, and return the same place as each of them sees it."""
    connections = Connections(place.url)
    registry = PostgresRegistry(connections)
    made: list[UUID] = []
    for number in range(count):
        tenant, _ = await registry.create_tenant(f"other-{number}", "Other", HMAC_KEY_ID)
        made.append(tenant.tenant_id)
    await connections.close()
    return [replace(place, tenant_id=tenant_id) for tenant_id in made]


def _months(count: int) -> list[datetime]:
    """Return when each of the months began, the oldest first."""
    month = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    months = []
    for _ in range(count):
        month = (month - timedelta(days=1)).replace(day=1)
        months.append(month)
    return months[::-1]


def _add_month(
    connection: psycopg.Connection[Any],
    place: Place,
    month: datetime,
    first: int,
    count: int,
) -> None:
    """Make a month's rows in tables of its own, and attach them as its partitions."""
    names = {kind: f"{table}_{month:%Y_%m}" for kind, table in PARTITIONED.items()}
    for kind, table in PARTITIONED.items():
        connection.execute(
            sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(
                _table(names[kind]), _table(table)
            )
        )
    made = {kind: _table(name) for kind, name in names.items()}
    rows = sql.SQL((SQL / "history.sql").read_text()).format(**made)
    psycopg.ClientCursor(connection).execute(
        rows,
        {
            "since": month,
            "first": first,
            "count": count,
            "tenant_id": place.tenant_id,
            "contract_id": place.contract_id,
        },
    )
    for kind, table in PARTITIONED.items():
        connection.execute(
            sql.SQL(
                "ALTER TABLE {} ATTACH PARTITION {} FOR VALUES"
                " FROM (effect_broker.month_start({month}))"
                " TO (effect_broker.month_start({next_month}))"
            ).format(
                _table(table),
                made[kind],
                month=sql.Literal(month.date()),
                next_month=sql.Literal((month + timedelta(days=32)).date()),
            )
        )


def _table(name: str) -> sql.Identifier:
    return sql.Identifier("effect_broker", name)
