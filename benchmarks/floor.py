"""The floors: `bare` is one durable insert, `three` has the two other commits as well.

Driven by the same psycopg calls in the same mode as what is measured against them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

from benchmarks.clients import Call

TABLES: Final = Path(__file__).with_name("sql") / "floor.sql"
PAYLOAD_BYTES: Final = 1024
WORKER: Final = "dispatcher-0123456789ab"
ANSWER: Final = '{"id":"ch_3PqT8s2eZvKYlo2C1gQk","status":"succeeded"}'

_RESERVE: Final = (
    b"INSERT INTO floor.reserved (operation_key, payload) VALUES (%(key)s, %(payload)s)"
    b" ON CONFLICT DO NOTHING"
)
_START: Final = (
    b"INSERT INTO floor.started (effect_id, at, worker)"
    b" VALUES (%(id)s, clock_timestamp(), %(worker)s)"
)
_FINISH: Final = (
    b"INSERT INTO floor.finished (effect_id, at, answer)"
    b" VALUES (%(id)s, clock_timestamp(), %(answer)s)"
)


def bare() -> Sequence[Call]:
    """Return one INSERT ON CONFLICT of 1 KB under one unique index."""
    payload = os.urandom(PAYLOAD_BYTES)
    return [Call(_RESERVE, {"key": f"bench:{os.urandom(12).hex()}", "payload": payload})]


def three() -> Sequence[Call]:
    """Return `bare` and two more inserts, each a commit of its own."""
    effect_id = UUID(bytes=os.urandom(16))
    return [
        *bare(),
        Call(_START, {"id": effect_id, "worker": WORKER}),
        Call(_FINISH, {"id": effect_id, "answer": ANSWER}),
    ]
