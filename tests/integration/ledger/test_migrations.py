"""One schema, however it came to be."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.ledger import migrate
from tests.integration.ledger.schema_dump import DUMPED_MAJOR, SCHEMA, dump


def _major(url: str) -> int:
    with psycopg.connect(url) as connection:
        return connection.info.server_version // 10_000


def test_the_dumped_schema_is_what_the_migrations_make(empty_database: str) -> None:
    if _major(empty_database) != DUMPED_MAJOR:
        pytest.skip("another server's dump has another form")
    migrate.upgrade(empty_database, partitions=False)
    assert dump(empty_database) == SCHEMA.read_text()


def test_the_revision_of_this_release_is_the_newest() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate.migrations_folder()))
    assert ScriptDirectory.from_config(config).get_heads() == [migrate.HEAD]


def test_migrating_twice_changes_nothing(empty_database: str) -> None:
    assert migrate.current(empty_database) is None
    migrate.upgrade(empty_database)
    assert migrate.current(empty_database) == migrate.HEAD
    migrate.upgrade(empty_database)
    assert migrate.current(empty_database) == migrate.HEAD


def test_migrators_at_once_make_one_schema(empty_database: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(migrate.upgrade, [empty_database] * 4))
    assert migrate.current(empty_database) == migrate.HEAD


def test_the_printed_statements_make_the_same_schema(
    empty_database: str, fresh_database: str
) -> None:
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(migrate.offline_sql().encode())
    assert migrate.current(empty_database) == migrate.HEAD
    migrate.make_partitions(empty_database)
    if _major(empty_database) == DUMPED_MAJOR:
        assert dump(empty_database) == dump(fresh_database)


def test_a_database_that_is_away_is_said_to_be() -> None:
    url = "postgresql://nobody:none@127.0.0.1:1/none"
    for call in (migrate.upgrade, migrate.current, migrate.make_partitions):
        with pytest.raises(LedgerUnavailable):
            call(url)


def test_importing_the_revision_costs_no_migration_library() -> None:
    import subprocess
    import sys

    loaded = (
        "import sys; from effect_broker.ledger import postgres;"
        " sys.exit(any(n in sys.modules for n in ('alembic', 'sqlalchemy')))"
    )
    assert subprocess.run([sys.executable, "-c", loaded]).returncode == 0
