"""What was written to the write-ahead log between two moments, record by record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import psycopg

_RECORDS: Final = (
    b'SELECT "resource_manager/record_type", count, record_size, fpi_size'
    b" FROM pg_get_wal_stats(%(since)s, %(until)s, true) WHERE count > 0"
)


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes and records between two moments; `images` are full pages, apart from the
    rest.
    """

    bytes: int
    images: int
    commits: int


class WalMeter:
    """Reads the log of a server on a connection of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._since = self._now()

    def restart(self) -> None:
        """Count from now on."""
        self._since = self._now()

    def written(self) -> Written:
        """Return what was written since the start."""
        until = self._now()
        if until == self._since:
            return Written(0, 0, 0)
        with psycopg.connect(self._url, autocommit=True) as connection:
            records = connection.execute(
                _RECORDS, {"since": self._since, "until": until}
            ).fetchall()
        return Written(
            bytes=sum(int(size) for _, _, size, _ in records),
            images=sum(int(size) for _, _, _, size in records),
            commits=sum(
                int(n) for kind, n, _, _ in records if kind == "Transaction/COMMIT"
            ),
        )

    def _now(self) -> str:
        with psycopg.connect(self._url, autocommit=True) as connection:
            row = connection.execute(
                b"SELECT pg_current_wal_insert_lsn()::text"
            ).fetchone()
        assert row is not None
        return str(row[0])
