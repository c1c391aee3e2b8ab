"""The truth, in SQLite: what was charged, what is kept under keys, what was asked.

A charge, the key record that goes with it and the mark in the request log are one
transaction. It is durable against the death of the process, not against power loss.
"""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from .holding import Abandoned
from .instants import now, rendered
from .records import Arrival, Charge, KeyRecord, Search
from .settings import Settings
from .wire import Answer

# AUTOINCREMENT: an id is never used again, so a request from before a reset finds no row.
SCHEMA = """
CREATE TABLE IF NOT EXISTS charges (
    id TEXT PRIMARY KEY, world TEXT NOT NULL, amount INTEGER NOT NULL,
    currency TEXT NOT NULL, order_name TEXT NOT NULL, reference TEXT,
    idempotency_key TEXT, created_at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS key_records (
    idempotency_key TEXT PRIMARY KEY, body_sha256 TEXT NOT NULL,
    status INTEGER NOT NULL, body BLOB NOT NULL, created_at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT, world TEXT NOT NULL, method TEXT NOT NULL,
    path TEXT NOT NULL, order_name TEXT, reference TEXT, idempotency_key TEXT,
    send_deadline TEXT, header_names TEXT NOT NULL, body_sha256 TEXT NOT NULL,
    arrived_at REAL NOT NULL, connection_id TEXT NOT NULL, fault TEXT,
    outcome TEXT NOT NULL DEFAULT 'running', status INTEGER, charge_id TEXT
);
CREATE INDEX IF NOT EXISTS requests_by_order ON requests (order_name);
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, document TEXT NOT NULL);
"""
# The window is half open, so that adjacent windows show each charge once.
SEARCH = """
SELECT * FROM charges WHERE (:world IS NULL OR world = :world)
    AND (:id IS NULL OR id = :id) AND (:order IS NULL OR order_name = :order)
    AND (:reference IS NULL OR reference = :reference)
    AND (:key IS NULL OR idempotency_key = :key)
    AND (:created_after IS NULL OR created_at >= :created_after)
    AND (:created_before IS NULL OR created_at < :created_before)
    AND (:settled_at IS NULL OR created_at <= :settled_at)
ORDER BY rowid
"""
CLEAR = (
    "DELETE FROM charges",
    "DELETE FROM key_records",
    "DELETE FROM requests",
    "DELETE FROM settings",
)


class Store:
    """One connection for all threads: whoever writes has it alone."""

    def __init__(self, database: Path) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(
            database, check_same_thread=False, isolation_level=None
        )
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(SCHEMA)
        self._settings = self._read_settings()

    @property
    def settings(self) -> Settings:
        return self._settings

    def change_settings(self, settings: Settings) -> None:
        with self._transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO settings VALUES ('settings', ?)",
                (json.dumps(asdict(settings)),),
            )
            self._settings = settings

    def commit(
        self, request_id: int, charge: Charge | None, record: KeyRecord | None
    ) -> None:
        """Make the charge and what its key remembers true together.

        Raises:
            Abandoned: the request was cleared by a reset; nothing is written.
        """
        with self._transaction() as db:
            charge_id = charge.id if charge else None
            marked = db.execute(
                "UPDATE requests SET charge_id = ? WHERE id = ?", (charge_id, request_id)
            )
            if marked.rowcount == 0:
                raise Abandoned
            if charge:
                row = tuple(asdict(charge).values())
                db.execute("INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            if record:
                kept = record.answer
                db.execute(
                    "INSERT OR REPLACE INTO key_records VALUES (?, ?, ?, ?, ?)",
                    (record.key, record.body_sha256, kept.status, kept.body, now()),
                )

    def key_record(self, key: str) -> KeyRecord | None:
        """Find what is kept under a key, unless its retention is over."""
        with self._lock:
            row = self._db.execute(
                "SELECT * FROM key_records WHERE idempotency_key = ?", (key,)
            ).fetchone()
        retention = self._settings.retention_seconds
        if row is None or (
            retention is not None and now() >= row["created_at"] + retention
        ):
            return None
        return KeyRecord(key, row["body_sha256"], Answer(row["status"], row["body"]))

    def charges(self, search: Search) -> list[Charge]:
        """List charges in commit order."""
        with self._lock:
            rows = self._db.execute(SEARCH, asdict(search)).fetchall()
        return [Charge(*row) for row in rows]

    def order_asked_by(self, *, key: str | None, reference: str | None) -> str | None:
        """Say for which order a key or reference was last posted, committed or not."""
        with self._lock:
            row = self._db.execute(
                "SELECT order_name FROM requests WHERE method = 'POST'"
                " AND (idempotency_key = ? OR reference = ?) ORDER BY id DESC LIMIT 1",
                (key, reference),
            ).fetchone()
        return None if row is None else row["order_name"]

    def arrived(self, arrival: Arrival) -> int:
        """Log a request that was read in full; give its id."""
        names = json.dumps(arrival.header_names)
        row = {**asdict(arrival), "header_names": names, "arrived_at": now()}
        with self._transaction() as db:
            cursor = db.execute(
                "INSERT INTO requests (world, method, path, order_name, reference,"
                " idempotency_key, send_deadline, header_names, body_sha256,"
                " connection_id, fault, arrived_at) VALUES (:world, :method, :path,"
                " :order, :reference, :key, :send_deadline, :header_names, :body_sha256,"
                " :connection_id, :fault, :arrived_at)",
                row,
            )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def ended(self, request_id: int, outcome: str, status: int | None) -> None:
        with self._transaction() as db:
            db.execute(
                "UPDATE requests SET outcome = ?, status = ? WHERE id = ?",
                (outcome, status, request_id),
            )

    def requests(self, order: str | None) -> list[dict[str, object]]:
        """List the requests seen, oldest first, of one order or of all."""
        with self._lock:
            rows = self._db.execute(
                "SELECT * FROM requests WHERE ? IS NULL OR order_name = ? ORDER BY id",
                (order, order),
            ).fetchall()
        return [_shown(row) for row in rows]

    def reset(self) -> None:
        with self._transaction() as db:
            for statement in CLEAR:
                db.execute(statement)
            self._settings = Settings()

    def _read_settings(self) -> Settings:
        row = self._db.execute("SELECT document FROM settings").fetchone()
        return Settings().changed(json.loads(row["document"])) if row else Settings()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")


def _shown(row: sqlite3.Row) -> dict[str, object]:
    shown = dict(row)
    shown["request_id"] = shown.pop("id")
    shown["order"] = shown.pop("order_name")
    shown["header_names"] = json.loads(row["header_names"])
    shown["arrived_at"] = rendered(row["arrived_at"])
    return shown
