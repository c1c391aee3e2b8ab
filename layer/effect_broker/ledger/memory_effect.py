"""One effect in memory, and how an event is appended to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from effect_broker.domain.attempt import Attempt
from effect_broker.domain.canonical import canonical
from effect_broker.domain.event import EffectEvent
from effect_broker.domain.intent import Intent
from effect_broker.domain.receipt import Receipt, ReceiptKind
from effect_broker.domain.status import LEASED, EffectStatus, EventType
from effect_broker.domain.work import WorkState
from effect_broker.ledger.chain import FIRST_HEAD, event_digest
from effect_broker.ports import Resolution, Snapshot

_S = EffectStatus

SEND, RECOVER, LEASE, PARKED = range(4)
"""The lanes of waiting work, as in the database."""


@dataclass(slots=True)
class MemoryEffect:
    """Everything that the database keeps of one effect, in one place."""

    intent: Intent
    work: WorkState | None = None
    token: UUID | None = None
    scope_digest: bytes | None = None
    attempts: list[Attempt] = field(default_factory=list)
    events: list[EffectEvent] = field(default_factory=list)
    generations: dict[int, str] = field(default_factory=dict)
    receipt: Receipt | None = None
    compensated_by: UUID | None = None
    resolutions: dict[str, tuple[Resolution, int]] = field(default_factory=dict)
    contradicted: bool = False

    @property
    def live(self) -> WorkState:
        """The work state of an effect that is known to be live."""
        assert self.work is not None
        return self.work

    @property
    def lane(self) -> int | None:
        """Where the effect waits; None once it is terminal."""
        if self.work is None:
            return None
        if self.work.status in LEASED:
            return LEASE
        if self.work.status is _S.OUTCOME_UNKNOWN or self.work.proof_committed:
            return RECOVER
        return PARKED if self.work.status is _S.MANUAL_REVIEW else SEND

    @property
    def status(self) -> EffectStatus:
        """Compensation over terminal row over work row."""
        if self.work is not None:
            return self.work.status
        if self.compensated_by is not None:
            return _S.COMPENSATED
        assert self.receipt is not None
        succeeded = self.receipt.draft.kind is ReceiptKind.SUCCEEDED
        return _S.SUCCEEDED if succeeded else _S.FAILED_FINAL

    @property
    def version(self) -> int:
        """The number of events."""
        return len(self.events)

    @property
    def updated_at(self) -> datetime:
        """The instant of the last event."""
        return self.events[-1].at

    @property
    def downstream_key(self) -> str:
        """The key of the current generation."""
        if self.work is None or self.work.key_generation == 1:
            return self.intent.downstream_key
        return self.generations[self.work.key_generation]

    def due(self, now: datetime) -> bool:
        """Say whether waiting work may be taken."""
        at = self.live.due_at
        return at is not None and at <= now

    def clock(self, now: datetime) -> datetime:
        """Return the effect's time: it never runs backwards."""
        return max(now, self.updated_at) if self.events else now

    def append(
        self,
        type: EventType,
        new: EffectStatus,
        *,
        actor: str,
        at: datetime,
        metadata: Mapping[str, Any],
    ) -> None:
        """Add one line of history; the caller brings the work row to the same version."""
        last = self.events[-1] if self.events else None
        previous = FIRST_HEAD if last is None else last.digest
        old = None if last is None else last.new_status
        digest = event_digest(
            previous,
            effect_id=self.intent.effect_id,
            sequence=self.version + 1,
            at=at,
            type=type,
            old=old,
            new=new,
            actor=actor,
            metadata=canonical(dict(metadata)).decode(),
        )
        self.events.append(
            EffectEvent(
                effect_id=self.intent.effect_id,
                sequence=self.version + 1,
                type=type,
                old_status=old,
                new_status=new,
                actor=actor,
                at=at,
                metadata=dict(metadata),
                previous_digest=previous,
                digest=digest,
            )
        )

    def move(self, **changes: Any) -> None:
        """Change the work row and bring it to the version of the last event."""
        self.work = replace(self.live, version=self.version, **changes)

    def snapshot(self, now: datetime) -> Snapshot:
        """Return the effect as readers see it."""
        return Snapshot(
            intent=self.intent,
            status=self.status,
            version=self.version,
            updated_at=self.updated_at,
            work=self.work,
            reason=self.events[-1].metadata.get("reason", ""),
            now=self.clock(now),
        )
