"""One line of an effect's history: appended in the commit of its transition, never
changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from effect_broker.domain.status import EffectStatus, EventType


@dataclass(frozen=True, slots=True)
class EffectEvent:
    """A stored event; `sequence` equals the version that it made, from 1 without gaps.

    `metadata` holds sanitised facts only. `digest` covers every other field and the
    previous digest, so that an accidental edit is found; it is no protection against a
    database administrator.
    """

    effect_id: UUID
    sequence: int
    type: EventType
    old_status: EffectStatus | None
    new_status: EffectStatus
    actor: str
    at: datetime
    metadata: Mapping[str, Any]
    previous_digest: bytes
    digest: bytes
