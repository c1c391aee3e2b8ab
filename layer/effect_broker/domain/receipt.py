"""Immutable terminal proof: one row for each effect that succeeded or failed for good."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class ReceiptKind(StrEnum):
    """What a receipt proves."""

    SUCCEEDED = "succeeded"
    FAILED_FINAL = "failed_final"


class ReceiptSource(StrEnum):
    """Who showed the proof."""

    ATTEMPT = "attempt"
    PROBE = "probe"
    LATE_ANSWER = "late_answer"
    OPERATOR = "operator"
    LEDGER = "ledger"


@dataclass(frozen=True, slots=True)
class ReceiptDraft:
    """The part of a receipt that the decider knows; the ledger adds ids, time and
    digest.
    """

    kind: ReceiptKind
    source: ReceiptSource
    reason: str = ""
    external_id: str | None = None
    result_ciphertext: bytes | None = None
    data_key_id: str | None = None
    evidence_digest: bytes | None = None
    target_time: datetime | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """A stored receipt; its digest covers every other field."""

    receipt_id: UUID
    effect_id: UUID
    tenant_id: UUID
    draft: ReceiptDraft
    contract_name: str
    contract_version: str
    downstream_key_digest: bytes
    digest: bytes
    created_at: datetime
