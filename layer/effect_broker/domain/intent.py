"""What the caller asked: bound to one payload and one contract version, immutable once
reserved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from effect_broker.domain.status import EffectStatus

if TYPE_CHECKING:
    from effect_broker.domain.contract import EffectContract


@dataclass(frozen=True, slots=True)
class EffectRequest:
    """A caller's wish: `operation_key` names the business intent, never an attempt."""

    operation_key: str
    tool: str
    arguments: Mapping[str, Any]
    requested_by: str | None = None
    trace_id: str | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """The stored intent, arguments sealed; what is dispatched is this and nothing else.

    `downstream_key` is generation 1's key, rendered as the contract declares;
    `hmac_key_id` is None where the contract's target knows no key.
    """

    effect_id: UUID
    tenant_id: UUID
    operation_key: str
    tool: str
    request_hash: bytes
    contract_id: int
    contract_name: str
    contract_version: str
    safety: str
    downstream_key: str
    hmac_key_id: str
    arguments_ciphertext: bytes | None
    data_key_id: str
    preview: str
    requested_by: str | None
    trace_id: str | None
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class EffectRecord:
    """An effect as callers and adapters see it: the request in the clear, in memory only.

    `downstream_key` is the one that the current attempt carries.
    """

    effect_id: UUID
    tenant_id: UUID
    request: EffectRequest
    request_hash: bytes
    downstream_key: str
    contract: EffectContract
    status: EffectStatus
    version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Reservation:
    """What `submit` returns: `created` for a new effect, `replayed` for an existing
    one.
    """

    effect: EffectRecord
    created: bool
    replayed: bool
