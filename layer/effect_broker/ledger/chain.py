"""Recomputes what the ledger's digests cover, field by field, as the database does.

Every field has a fixed width or carries its length, so that no two events share an
encoding. A broken chain shows an accidental edit; whoever may rewrite the database may
rewrite the chain.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from effect_broker.domain.canonical import canonical
from effect_broker.domain.event import EffectEvent
from effect_broker.domain.receipt import Receipt
from effect_broker.domain.status import EffectStatus, EventType

FIRST_HEAD: Final = bytes(32)

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_ABSENT: Final = b"\xff\xff\xff\xff"


def event_digest(
    previous: bytes,
    *,
    effect_id: UUID,
    sequence: int,
    at: datetime,
    type: EventType,
    old: EffectStatus | None,
    new: EffectStatus,
    actor: str,
    metadata: str,
) -> bytes:
    """Return the digest of one event over the digest before it."""
    return hashlib.sha256(
        previous
        + effect_id.bytes
        + struct.pack("!i", sequence)
        + _instant(at)
        + _text(type)
        + _text(old)
        + _text(new)
        + _text(actor)
        + _text(metadata)
    ).digest()


def receipt_digest(receipt: Receipt, contract_id: int) -> bytes:
    """Return the digest of a receipt; the sealed result authenticates itself."""
    draft = receipt.draft
    return hashlib.sha256(
        receipt.receipt_id.bytes
        + receipt.effect_id.bytes
        + receipt.tenant_id.bytes
        + struct.pack("!i", contract_id)
        + _instant(receipt.created_at)
        + _framed(None if draft.target_time is None else _instant(draft.target_time))
        + _text(draft.kind)
        + _text(draft.source)
        + _text(draft.reason)
        + _text(draft.external_id)
        + _text("\n".join(draft.flags))
        + _framed(draft.evidence_digest)
        + _framed(receipt.downstream_key_digest)
    ).digest()


def first_break(events: Sequence[EffectEvent]) -> int | None:
    """Return the sequence at which a history breaks, or None where it holds.

    A break is a gap, a digest that does not cover its event, or a status that does not
    follow from the one before.
    """
    previous, status = FIRST_HEAD, None
    for place, event in enumerate(events, start=1):
        digest = event_digest(
            previous,
            effect_id=event.effect_id,
            sequence=event.sequence,
            at=event.at,
            type=event.type,
            old=event.old_status,
            new=event.new_status,
            actor=event.actor,
            metadata=canonical(dict(event.metadata)).decode(),
        )
        if (event.sequence, event.old_status, event.digest) != (place, status, digest):
            return place
        previous, status = event.digest, event.new_status
    return None


def _instant(at: datetime) -> bytes:
    return struct.pack("!q", (at - _EPOCH) // timedelta(microseconds=1))


def _text(text: str | None) -> bytes:
    return _framed(None if text is None else text.encode())


def _framed(data: bytes | None) -> bytes:
    return _ABSENT if data is None else struct.pack("!i", len(data)) + data
