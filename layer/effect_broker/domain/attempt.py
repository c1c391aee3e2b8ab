"""One permitted transmission: its row is committed before any byte, its ending is written
once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from effect_broker.domain.outcome import Evidence


class EndingKind(StrEnum):
    """How an attempt ended, as far as its own sender could tell."""

    COMMITTED = "committed"
    REJECTED = "rejected"
    NOT_EXECUTED = "not_executed"
    NOT_SENT = "not_sent"
    AMBIGUOUS = "ambiguous"


@dataclass(frozen=True, slots=True)
class AttemptEnding:
    """What the sender of one attempt learned; written once, late or in time.

    `result_ciphertext` is the sealed answer of a committed attempt, under the column name
    `result`, so that a receipt made later from this ending can carry it unchanged.
    """

    kind: EndingKind
    reason: str
    final: bool = False
    from_key_record: bool = False
    bytes_may_have_left: bool = True
    external_id: str | None = None
    result_ciphertext: bytes | None = None
    data_key_id: str | None = None
    evidence: Evidence | None = None
    request_digest: bytes | None = None
    response_digest: bytes | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt row with its ending, if it has one."""

    effect_id: UUID
    ordinal: int
    attempt_id: UUID
    worker: str
    version: int
    started_at: datetime
    send_deadline: datetime
    key_generation: int
    scope_digest: bytes
    ended_at: datetime | None = None
    late: bool = False
    ending: AttemptEnding | None = None
