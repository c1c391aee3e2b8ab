"""The live part of an effect, as decisions see it: one immutable snapshot of its work
row.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from effect_broker.domain.status import EffectStatus


@dataclass(frozen=True, slots=True)
class WorkState:
    """A live effect's counters and instants, read together under one version.

    `unproven` counts attempts that may have committed, the open one included;
    `proven_through` is the highest ordinal up to which every attempt is proven not
    committed. `settlement_at` is the latest `send_deadline + settlement_bound` over all
    attempts, `horizon_at` the end of the current key generation (None: no horizon, or not
    yet started). `negative_at` is the ledger instant of a first conclusive negative that
    waits for its second read; `unknown_since` stands while any lapsed attempt is
    unproved. Instants are the ledger's, in UTC.
    """

    effect_id: UUID
    tenant_id: UUID
    status: EffectStatus
    version: int
    attempts: int
    unproven: int
    proven_through: int
    rejections: int
    retries: int
    redispatches: int
    probes: int
    key_generation: int
    proof_committed: bool
    due_at: datetime | None
    settlement_at: datetime | None
    horizon_at: datetime | None
    submit_until: datetime
    negative_at: datetime | None
    unknown_since: datetime | None
    created_at: datetime
