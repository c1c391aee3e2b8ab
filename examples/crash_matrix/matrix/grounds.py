"""What all cells share: one database server, one target, one maker of processes."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
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

TEMPLATE = "matrix_template"
CONTRACTS = Path(__file__).parent / "contracts.toml"
# Processes are killed here, never the power: what the kernel holds is durable enough.
SERVER_SETTINGS = {"fsync": "off", "full_page_writes": "off"}


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

    server: EmbeddedPostgres
    target: DemoTarget
    nursery: Nursery
    folder: Path

    @property
    def target_port(self) -> int:
        """Where the target listens on this machine."""
        port = urlsplit(self.target.url).port
        assert port is not None
        return port

    @asynccontextmanager
    async def ledger(self, name: str) -> AsyncIterator[str]:
        """Yield the URL of a ledger of one's own, set up and empty."""
        await self._administer("CREATE DATABASE {} TEMPLATE {}", name, TEMPLATE)
        try:
            yield self.server.url(name)
        finally:
            await self._administer("DROP DATABASE {} WITH (FORCE)", name)

    async def _administer(self, statement: str, *names: str) -> None:
        async with await psycopg.AsyncConnection.connect(
            self.server.url("postgres"), autocommit=True
        ) as connection:
            identifiers = map(sql.Identifier, names)
            await connection.execute(sql.SQL(statement).format(*identifiers))


@asynccontextmanager
async def grounds(folder: Path) -> AsyncIterator[Grounds]:
    """Start everything in a folder, which is emptied first, and stop it at the end."""
    _empty(folder)
    async with AsyncExitStack() as stack:
        server = await asyncio.to_thread(
            EmbeddedPostgres.start, folder / "postgres", settings=SERVER_SETTINGS
        )
        stack.push_async_callback(asyncio.to_thread, server.stop)
        target = stack.enter_context(run_target(folder / "target.sqlite"))
        nursery = await stack.enter_async_context(Nursery.open(folder / "nursery.log"))
        await _prepare(server.create_database(TEMPLATE))
        yield Grounds(server, target, nursery, folder)


def _empty(folder: Path) -> None:
    """Clear away what an earlier run left, a server that still runs included."""
    if server := EmbeddedPostgres.found_in(folder / "postgres"):
        server.stop()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


async def _prepare(url: str) -> None:
    """Bring the template to the schema, with the tenant and the contracts in it."""
    await asyncio.to_thread(upgrade, url)
    settings = Settings(database_url=url, keyring=KEYRING)
    core = Core(settings, NullMeter())
    try:
        hmac_keys = Keyring.from_json(KEYRING).hmac_keys
        administration = Administration(core.registry, hmac_keys)
        await administration.create_tenant(TENANT, "The matrix")
        await administration.publish(CONTRACTS)
    finally:
        await core.connections.close()
