"""A PostgreSQL of the bench's own, durable to the disk, with a database for each row.

Durability is what is measured: fsync and synchronous_commit are on. What only adds noise
to both sides of a ratio (checkpoints by time) is moved out of the way.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg import sql

from benchmarks import floor
from benchmarks.contract import CONTRACT, HMAC_KEY_ID
from effect_broker.embedded import EmbeddedPostgres
from effect_broker.ledger import migrate
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.registry import PostgresRegistry

SETTINGS: Final = {
    "fsync": "on",
    "synchronous_commit": "on",
    "wal_compression": "off",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    "shared_buffers": "512MB",
    "maintenance_work_mem": "512MB",
    "max_connections": "300",
}
TEMPLATE: Final = "bench_template"


@dataclass(frozen=True, slots=True)
class Place:
    """A migrated database with the floor's tables, one tenant and one contract."""

    url: str
    tenant_id: UUID
    contract_id: int


class Server:
    """One server in one folder, both gone at the end.

    `commit_delay_milliseconds` makes every flush of the log that much slower, as on a
    disk behind a network.
    """

    def __init__(self, folder: Path, *, commit_delay_milliseconds: float = 0) -> None:
        self._folder = folder
        self._numbers = count(1)
        delay = {
            "commit_delay": str(round(commit_delay_milliseconds * 1000)),
            "commit_siblings": "0",
        }
        self._postgres = EmbeddedPostgres.start(folder, settings=SETTINGS | delay)
        self._template = self._make_template()

    def close(self) -> None:
        """Stop the server and remove its folder."""
        self._postgres.stop()
        shutil.rmtree(self._folder)

    @property
    def version(self) -> str:
        """The server's version."""
        return str(self.administer("SHOW server_version")[0][0])

    @contextmanager
    def place(self) -> Iterator[Place]:
        """Yield a database that nobody else uses, dropped at the end."""
        name = f"bench_{next(self._numbers)}"
        self._named("CREATE DATABASE {} TEMPLATE {}", name, TEMPLATE)
        try:
            yield Place(
                self._postgres.url(name),
                self._template.tenant_id,
                self._template.contract_id,
            )
        finally:
            self._named("DROP DATABASE {} WITH (FORCE)", name)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Keep autovacuum and full-page images away, from a fresh checkpoint on.

        For counting what one effect writes: both come and go with the clock, not with
        the effect.
        """
        self.administer("ALTER SYSTEM SET autovacuum = off")
        self.administer("ALTER SYSTEM SET full_page_writes = off")
        self.administer("SELECT pg_reload_conf()")
        self.administer("CHECKPOINT")
        try:
            yield
        finally:
            self.administer("ALTER SYSTEM RESET autovacuum")
            self.administer("ALTER SYSTEM RESET full_page_writes")
            self.administer("SELECT pg_reload_conf()")

    def administer(self, statement: str) -> list[Any]:
        """Run a statement of the server's administrator."""
        return query(self._postgres.url("postgres"), statement)

    def _named(self, statement: str, *names: str) -> None:
        with psycopg.connect(self._postgres.url("postgres"), autocommit=True) as admin:
            admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def _make_template(self) -> Place:
        self._postgres.create_database(TEMPLATE)
        url = self._postgres.url(TEMPLATE)
        migrate.upgrade(url)
        query(url, floor.TABLES.read_text())
        for extension in ("pg_walinspect", "pgstattuple"):
            query(url, f"CREATE EXTENSION {extension}")
        return asyncio.run(_furnish(url))


def query(url: str, statement: str) -> list[Any]:
    """Run one statement on a connection of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


async def _furnish(url: str) -> Place:
    connections = Connections(url)
    registry = PostgresRegistry(connections)
    tenant, _ = await registry.create_tenant("bench", "Bench", HMAC_KEY_ID)
    published, _ = await registry.publish(CONTRACT)
    await connections.close()
    return Place(url, tenant.tenant_id, published.contract_id)
