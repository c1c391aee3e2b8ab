"""What all cells share: one database server, one target, one maker of processes."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from effect_broker.cipher import Keyring
from effect_broker.embedded import EmbeddedPostgres
from effect_broker.ledger.migrate import upgrade
from effect_broker.settings import Settings
from effect_broker.surfaces.admin import Administration
from effect_broker.telemetry import NullMeter
from effect_broker.wiring.core import Core
from examples.crash_matrix.matrix.children import Nursery
from examples.crash_matrix.matrix.process import TENANT
from examples.crash_matrix.target.client import DemoTarget, run_target

TEMPLATE = "template"
ROLE = "effect_broker_app"
BUSINESS_TABLE = """
    CREATE TABLE public.charges (
        id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        order_name text NOT NULL,
        amount integer NOT NULL,
        currency text NOT NULL,
        downstream_key text NOT NULL,
        made_at timestamptz NOT NULL DEFAULT clock_timestamp()
    );
    GRANT INSERT, SELECT ON public.charges TO effect_broker_app
"""
"""The transactional target: a table of the application, beside the ledger."""
CONTRACTS = Path(__file__).parent / "contracts.toml"
# Processes are killed here, never the power: what the kernel holds is durable enough.
SERVER_SETTINGS = {"fsync": "off", "full_page_writes": "off"}


_migrating = threading.Lock()


def _key(name: str) -> str:
    return base64.b64encode(hashlib.sha256(name.encode()).digest()).decode()


KEYRING = json.dumps(
    {
        "data_keys": {"k1": _key("data")},
        "active_data_key": "k1",
        "hmac_keys": {"h1": _key("hmac")},
    }
)


@dataclass(frozen=True)
class Grounds:
    """The server, the target and the nursery, while they run."""

    server: Server
    target: DemoTarget
    nursery: Nursery
    folder: Path
    application: str
    """User and password of the processes' role, as in a URL."""

    @property
    def target_port(self) -> int:
        """Where the target listens on this machine."""
        return _port(self.target.url)

    @asynccontextmanager
    async def ledger(self, name: str) -> AsyncIterator[str]:
        """Yield the URL of a ledger of one's own, set up and empty."""
        async with self.server.database(name, template=TEMPLATE) as url:
            yield url


@dataclass(frozen=True)
class Server:
    """A database server, by the URL of a database for a role that may make others.

    Names of what is made here are this object's own: the server may have other guests.
    """

    url: str
    prefix: str = field(default_factory=lambda: f"matrix_{secrets.token_hex(4)}")

    @property
    def port(self) -> int:
        """Where it listens on this machine."""
        return _port(self.url)

    @asynccontextmanager
    async def database(
        self, name: str, *, template: str | None = None
    ) -> AsyncIterator[str]:
        """Make a database, empty or like another, and drop it at the end."""
        mine = sql.Identifier(self._mine(name))
        make = sql.SQL("CREATE DATABASE {}").format(mine)
        if template is not None:
            make += sql.SQL(" TEMPLATE {}").format(sql.Identifier(self._mine(template)))
        await self._administer(make)
        try:
            yield urlsplit(self.url)._replace(path=f"/{self._mine(name)}").geturl()
        finally:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(mine)
            await self._administer(drop)

    @asynccontextmanager
    async def application(self) -> AsyncIterator[str]:
        """Make a login with the rights and the settings of the application's role, and
        drop it at the end; yield user and password as in a URL.
        """
        name, password = self._mine("app"), secrets.token_hex(8)
        role = sql.Identifier(name)
        make = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} IN ROLE {}").format(
            role, sql.Literal(password), sql.Identifier(ROLE)
        )
        await self._administer(make)
        try:
            for setting in await self._settings():
                parameter, _, value = setting.partition("=")
                alike = sql.SQL("ALTER ROLE {} SET {} = {}").format(
                    role, sql.Identifier(parameter), sql.Literal(value)
                )
                await self._administer(alike)
            yield f"{name}:{password}"
        finally:
            await self._administer(sql.SQL("DROP ROLE {}").format(role))

    async def _settings(self) -> list[str]:
        """Return the settings of the application's role: a member does not inherit
        them.
        """
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            found = await connection.execute(
                "SELECT unnest(s.setconfig) FROM pg_db_role_setting s"
                " JOIN pg_roles r ON r.oid = s.setrole"
                " WHERE r.rolname = %s AND s.setdatabase = 0",
                [ROLE],
            )
            return [setting for (setting,) in await found.fetchall()]

    def _mine(self, name: str) -> str:
        return f"{self.prefix}_{name}"

    async def _administer(self, statement: sql.Composed) -> None:
        async with await psycopg.AsyncConnection.connect(
            self.url, autocommit=True
        ) as connection:
            await connection.execute(statement)


@asynccontextmanager
async def grounds(
    folder: Path, server_url: str | None = None, *, mutant: str | None = None
) -> AsyncIterator[Grounds]:
    """Start everything in a folder, which is emptied first, and stop it at the end.

    With `server_url` that server is used, which must be on this machine. A mutant is
    planted in every process of the broker.
    """
    _empty(folder)
    async with AsyncExitStack() as stack:
        if server_url is None:
            own = await asyncio.to_thread(
                EmbeddedPostgres.start, folder / "postgres", settings=SERVER_SETTINGS
            )
            stack.push_async_callback(asyncio.to_thread, own.stop)
            server_url = own.url("postgres")
        server = Server(server_url)
        target = stack.enter_context(run_target(folder / "target.sqlite"))
        # As the contract says: the key is tied to the charge itself.
        target.settings(key_records="commits")
        log = folder / "nursery.log"
        nursery = await stack.enter_async_context(Nursery.open(log, mutant))
        await _prepare(await stack.enter_async_context(server.database(TEMPLATE)))
        application = await stack.enter_async_context(server.application())
        yield Grounds(server, target, nursery, folder, application)


def _port(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


def _empty(folder: Path) -> None:
    """Clear away what an earlier run left, a server that still runs included."""
    if server := EmbeddedPostgres.found_in(folder / "postgres"):
        server.stop()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _upgrade(url: str) -> None:
    """Migrate one after the other: Alembic keeps its context in one place."""
    with _migrating:
        upgrade(url)


async def _prepare(url: str) -> None:
    """Bring the template to the schema, with the tenant, the contracts and the business
    table in it.
    """
    await asyncio.to_thread(_upgrade, url)
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(BUSINESS_TABLE)
    settings = Settings(database_url=url, keyring=KEYRING)
    core = Core(settings, NullMeter())
    try:
        hmac_keys = Keyring.from_json(KEYRING).hmac_keys
        administration = Administration(core.registry, hmac_keys)
        await administration.create_tenant(TENANT, "The matrix")
        await administration.publish(CONTRACTS)
    finally:
        await core.connections.close()
