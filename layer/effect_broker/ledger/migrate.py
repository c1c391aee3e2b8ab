"""Brings a database to the schema of this release, and says which schema it has.

Alembic and SQLAlchemy are imported inside the functions that migrate: nobody else pays
for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import sql

from effect_broker.domain.errors import LedgerUnavailable

if TYPE_CHECKING:
    from alembic.config import Config

HEAD: Final = "0001"
"""The revision that this release works with."""

APPLICATION: Final = "effect_broker_app"
"""The role of every process but the one that migrates: it may run the steps, and read."""

MONTHS_AHEAD: Final = 3
"""How many months' partitions stand ready: a deploy or a sweep makes the next."""

_LOCK: Final = 0x6566_6665_6374
"""Any number of migrators may start at once; one works, the others find it done."""

_PACKAGED: Final = Path(__file__).parent.parent / "_migrations"
_CHECKED_OUT: Final = Path(__file__).parents[3] / "migrations"


def upgrade(url: str, *, partitions: bool = True) -> None:
    """Apply every missing migration to the database at a libpq URL.

    Then make the partitions of the months to come, unless the caller keeps them away.

    Raises:
        LedgerUnavailable: the database cannot be reached.
    """
    from alembic import command

    with _connection(url) as config:
        command.upgrade(config, "head")
    if partitions:
        make_partitions(url)


def make_partitions(url: str) -> list[str]:
    """Make what is missing of this month's partitions and the next ones, and name it.

    Raises:
        LedgerUnavailable: the database cannot be reached.
    """
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            made = connection.execute(
                "SELECT effect_broker.make_partitions(%s)", [MONTHS_AHEAD]
            )
            return [name for (name,) in made]
    except psycopg.OperationalError as error:
        raise LedgerUnavailable("The ledger's database cannot be reached.") from error


def set_application_password(url: str, password: str) -> None:
    """Let the application's role in with a password; the server sees only its hash.

    Raises:
        LedgerUnavailable: the database cannot be reached.
    """
    try:
        with psycopg.connect(url) as connection:
            # Two migrators at once would update one row of the catalog at the same time.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            hashed = connection.pgconn.encrypt_password(
                password.encode(), APPLICATION.encode(), b"scram-sha-256"
            )
            connection.execute(
                sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(
                    sql.Identifier(APPLICATION), sql.Literal(hashed.decode())
                )
            )
    except psycopg.OperationalError as error:
        raise LedgerUnavailable("The ledger's database cannot be reached.") from error


def offline_sql() -> str:
    """Return the statements of every migration, for a database that others change."""
    from io import StringIO

    from alembic import command
    from alembic.config import Config

    out = StringIO()
    config = Config(output_buffer=out)
    config.set_main_option("script_location", str(migrations_folder()))
    command.upgrade(config, "head", sql=True)
    return out.getvalue()


def current(url: str) -> str | None:
    """Return the revision that a database stands at; None before the first migration.

    Raises:
        LedgerUnavailable: the database cannot be reached.
    """
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            found = connection.execute(
                "SELECT to_regclass('effect_broker.schema_revision') IS NOT NULL"
            ).fetchone()
            if not found or not found[0]:
                return None
            row = connection.execute(
                "SELECT version_num FROM effect_broker.schema_revision"
            ).fetchone()
            return row[0] if row else None
    except psycopg.OperationalError as error:
        raise LedgerUnavailable("The ledger's database cannot be reached.") from error


def migrations_folder() -> Path:
    """Return the folder of the migrations: beside the package, or in the checkout."""
    return _PACKAGED if _PACKAGED.exists() else _CHECKED_OUT


@contextmanager
def _connection(url: str) -> Iterator[Config]:
    """Yield Alembic's configuration on one locked connection."""
    from alembic.config import Config
    from sqlalchemy import create_engine, pool, text
    from sqlalchemy.exc import OperationalError

    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    engine = create_engine(
        "postgresql+psycopg://",
        poolclass=pool.NullPool,
        creator=lambda: psycopg.connect(url),
    )
    try:
        with engine.connect() as connection, connection.begin():
            connection.execute(
                text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK}
            )
            config.attributes["connection"] = connection
            yield config
    except OperationalError as error:
        raise LedgerUnavailable("The ledger's database cannot be reached.") from error
