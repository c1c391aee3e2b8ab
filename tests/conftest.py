"""The database that tests of the ledger run on, found or started here.

EFFECT_BROKER_TEST_DATABASE_URL names a server, by a role that may create databases.
Without it EFFECT_BROKER_TEST_POSTGRES chooses: "18" (the default) or "16" embedded, or
"containers", which is the embedded one where Docker does not answer.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import IO
from urllib.parse import quote, urlsplit

import psycopg
import pytest
from psycopg import sql

from effect_broker.embedded import EmbeddedPostgres
from tests.pooler import Pooler, pooler_before

STATE = Path(__file__).parent.parent / ".local" / "tests"
CONTAINER_IMAGE = "postgres:16"
# Tests kill processes, never the power: what the kernel holds is durable enough.
SERVER_SETTINGS = {"fsync": "off", "full_page_writes": "off"}
# Roles are the server's, so that all tests of a run share the application's password.
APPLICATION_PASSWORD = "known to tests only"
RUN_VARIABLE = "EFFECT_BROKER_TEST_RUN"

_run_lock = pytest.StashKey[IO[str]]()
_numbers = count(1)


def pytest_configure(config: pytest.Config) -> None:
    """Give the run, its workers included, a folder of its own; clear away killed runs."""
    if _is_worker():
        return
    STATE.mkdir(parents=True, exist_ok=True)
    for folder in STATE.iterdir():
        _clear_away_if_abandoned(folder)
    os.environ[RUN_VARIABLE] = str(os.getpid())
    _run_folder().mkdir()
    config.stash[_run_lock] = lock = (_run_folder() / "locking").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    # Only a locked file has the name that other runs look for.
    (_run_folder() / "locking").rename(_run_folder() / "run.lock")


def pytest_unconfigure(config: pytest.Config) -> None:
    if _is_worker() or _run_lock not in config.stash:
        return
    if (_run_folder() / "template").exists():
        _drop_databases((_run_folder() / "template").read_text())
    _clear_away(_run_folder())
    config.stash[_run_lock].close()


def pytest_report_header() -> str:
    if "EFFECT_BROKER_TEST_DATABASE_URL" in os.environ:
        return "postgres: the server of EFFECT_BROKER_TEST_DATABASE_URL"
    return f"postgres: {'container' if _in_container() else f'embedded {_version()}'}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Yield the URL of the server's maintenance database, for a role that may do all."""
    given = os.environ.get("EFFECT_BROKER_TEST_DATABASE_URL")
    if given:
        yield given
    elif _in_container():
        from testcontainers.postgres import PostgresContainer

        with PostgresContainer(CONTAINER_IMAGE, driver=None) as container:
            yield container.get_connection_url()
    else:
        # Shared by all workers, and stopped at the end of the run by the process that
        # outlives them.
        yield _embedded(_run_folder() / "postgres").url("postgres")


@pytest.fixture(scope="session")
def migrated_template(postgres: str) -> str:
    """Return the name of a database with every migration applied, to be cloned."""
    from effect_broker.ledger import migrate

    name = f"{_prefix()}_template"
    made = _run_folder() / "template"
    with (_run_folder() / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists() or _in_container():
            _administer(postgres, "CREATE DATABASE {}", name)
            migrate.upgrade(url_of(postgres, name))
            migrate.set_application_password(postgres, APPLICATION_PASSWORD)
            made.write_text(postgres)
    return name


@pytest.fixture(scope="module")
def database_url(postgres: str, migrated_template: str) -> Iterator[str]:
    """Yield a migrated database that the tests of one module share."""
    with _clone(postgres, migrated_template) as url:
        yield url


@pytest.fixture
def fresh_database(postgres: str, migrated_template: str) -> Iterator[str]:
    """Yield a migrated database of this test alone."""
    with _clone(postgres, migrated_template) as url:
        yield url


@pytest.fixture
def application_url(fresh_database: str) -> str:
    """Return the fresh database's URL for the role that the deployed broker has."""
    return as_role(fresh_database, "effect_broker_app", APPLICATION_PASSWORD)


@pytest.fixture
def empty_database(postgres: str) -> Iterator[str]:
    """Yield a database without any migration."""
    with _clone(postgres, "template1") as url:
        yield url


@pytest.fixture(scope="session")
def pooler(postgres: str) -> Iterator[Pooler]:
    """Yield a pgbouncer before the server, its password in hand."""
    with pooler_before(postgres, _run_folder() / f"pooler-{_worker()}") as pooler:
        yield pooler


@pytest.fixture
def server_folder() -> Iterator[Path]:
    """Yield a folder for a server of this test alone, removed after it.

    It lies outside pytest's own temporary folders: each later run of pytest closes those
    to the user that a server of root runs as.
    """
    folder = _run_folder() / f"private-{_worker()}-{next(_numbers)}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def private_postgres(server_folder: Path) -> Iterator[EmbeddedPostgres]:
    """Yield a server that this test may kill and restart, its database migrated."""
    from effect_broker.ledger import migrate

    with _embedded(server_folder) as server:
        migrate.upgrade(server.url())
        yield server


def as_role(url: str, role: str, password: str) -> str:
    """Return the URL of the same database for another role."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{role}:{quote(password)}@{place}").geturl()


def url_of(server: str, database: str) -> str:
    """Return the URL of another database on the same server."""
    return urlsplit(server)._replace(path=f"/{database}").geturl()


@contextmanager
def _clone(server: str, template: str) -> Iterator[str]:
    name = f"{_prefix()}_{_worker()}_{next(_numbers)}"
    _administer(server, "CREATE DATABASE {} TEMPLATE {}", name, template)
    yield url_of(server, name)
    _administer(server, "DROP DATABASE {} WITH (FORCE)", name)


def _administer(server: str, statement: str, *names: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def _drop_databases(server: str) -> None:
    """Leave nothing of this run on a server that lives on."""
    if "EFFECT_BROKER_TEST_DATABASE_URL" not in os.environ:
        return
    with psycopg.connect(server) as connection:
        names = connection.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, %s)",
            [f"{_prefix()}_"],
        ).fetchall()
    for (name,) in names:
        _administer(server, "DROP DATABASE {} WITH (FORCE)", name)


def _embedded(folder: Path) -> EmbeddedPostgres:
    return EmbeddedPostgres.start(folder, version=_version(), settings=SERVER_SETTINGS)


def _version() -> str:
    asked = os.environ.get("EFFECT_BROKER_TEST_POSTGRES", "18")
    return "18" if asked == "containers" else asked


@cache
def _in_container() -> bool:
    if os.environ.get("EFFECT_BROKER_TEST_POSTGRES") != "containers":
        return False
    docker = shutil.which("docker")
    if docker is None:
        return False
    return subprocess.run([docker, "info"], capture_output=True).returncode == 0


def _is_worker() -> bool:
    return "PYTEST_XDIST_WORKER" in os.environ


def _worker() -> str:
    return os.environ.get("PYTEST_XDIST_WORKER", "main")


def _run_folder() -> Path:
    return STATE / os.environ[RUN_VARIABLE]


def _prefix() -> str:
    return f"effect_broker_test_{os.environ[RUN_VARIABLE]}"


def _clear_away_if_abandoned(folder: Path) -> None:
    """Remove the folder of a run that ended without doing so, seen by its free lock."""
    try:
        with (folder / "run.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _clear_away(folder)
    except (FileNotFoundError, BlockingIOError):
        # Not locked yet, gone meanwhile, or in use.
        return


def _clear_away(folder: Path) -> None:
    for marker in folder.glob("**/cluster"):
        if server := EmbeddedPostgres.found_in(marker.parent):
            server.stop()
    shutil.rmtree(folder)
