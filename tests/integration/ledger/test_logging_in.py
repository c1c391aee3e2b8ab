"""Who migrates owns the ledger; everybody else comes in as the application's role."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from effect_broker.embedded import EmbeddedPostgres
from effect_broker.ledger import migrate
from effect_broker.ledger.connection import Connections
from effect_broker.settings import Settings, SettingsInvalid
from effect_broker.wiring import sources
from tests.conformance.ledgers import S, postgres_store, succeeded
from tests.conftest import SERVER_SETTINGS, as_role

PASSWORD, NEXT_PASSWORD = "canary-one", "canary-two"


@pytest.fixture
def server(server_folder: Path) -> Iterator[EmbeddedPostgres]:
    """Yield a server that logs each statement, its database empty."""
    settings = {**SERVER_SETTINGS, "log_statement": "all"}
    with EmbeddedPostgres.start(server_folder, settings=settings) as server:
        yield server


def opens(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def test_migration_gives_the_application_its_password_and_its_next_one(
    server: EmbeddedPostgres,
) -> None:
    first = as_role(server.url(), migrate.APPLICATION, PASSWORD)
    settings = Settings(database_url=server.url(), app_database_url=first)
    assert sources.migrate(settings) == migrate.HEAD
    assert opens(first)
    second = as_role(server.url(), migrate.APPLICATION, NEXT_PASSWORD)
    sources.migrate(replace(settings, app_database_url=second))
    assert opens(second)
    assert not opens(first)
    log = (server.data_dir / "server.log").read_text()
    assert "ALTER ROLE" in log
    assert "canary" not in log, "the server is told a hash, never a password"


@pytest.mark.parametrize("role", ["postgres", "effect_broker_owner"])
def test_way_in_of_another_role_is_refused_before_anything_is_changed(
    server: EmbeddedPostgres, role: str
) -> None:
    settings = Settings(
        database_url=server.url(), app_database_url=as_role(server.url(), role, "x")
    )
    with pytest.raises(SettingsInvalid, match=migrate.APPLICATION):
        sources.migrate(settings)
    assert migrate.current(server.url()) is None
    assert opens(server.url())


async def test_master_user_of_a_managed_server_migrates_and_the_application_works(
    server: EmbeddedPostgres,
) -> None:
    """No superuser can be had there: a role that may make roles and databases must do."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE ROLE master LOGIN CREATEROLE CREATEDB PASSWORD 'm'")
        connection.execute("CREATE DATABASE ledger OWNER master")
    master = as_role(server.url("ledger"), "master", "m")
    app = as_role(master, migrate.APPLICATION, PASSWORD)
    for _ in range(2):
        sources.migrate(Settings(database_url=master, app_database_url=app))
    connections = Connections(app)
    store = postgres_store(server.url("ledger"), connections)
    await store.open()
    claim = await store.dispatching()
    await store.ledger.record([succeeded(claim)])
    assert await store.status(claim.work.effect_id) is S.SUCCEEDED
    await connections.close()
