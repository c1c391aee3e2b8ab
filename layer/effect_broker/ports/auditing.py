"""What an audit reads: the ledger's effects, and the target's own objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.status import EffectStatus


@dataclass(frozen=True, slots=True)
class TargetObject:
    """One object as the target lists it; `key` is the downstream key, where it shows."""

    external_id: str
    key: str | None


@dataclass(frozen=True, slots=True)
class AuditedEffect:
    """An effect that was sent, with every key that its attempts may have carried.

    The target made its object, if any, between `first_started_at` and `last_settled_at`.
    `unknown` says that an attempt is unproved.
    """

    effect_id: UUID
    tenant: str
    operation_key: str
    status: EffectStatus
    unknown: bool
    downstream_keys: Sequence[str]
    external_id: str | None
    first_started_at: datetime
    last_settled_at: datetime


class AuditReads(Protocol):
    """Reads the effects of a contract over all tenants."""

    async def audited(
        self,
        contract_name: str,
        sent_after: datetime,
        sent_before: datetime,
        settlement: timedelta,
    ) -> Sequence[AuditedEffect]:
        """Return what was first sent in a window; archived effects are left out."""


class Lister(Protocol):
    """Reads the target's own list."""

    async def objects(
        self,
        contract: EffectContract,
        created_after: datetime,
        created_before: datetime,
    ) -> Sequence[TargetObject]:
        """Return every object that the target lists for a window.

        Raises:
            ContractInvalid, SecretNotFound: it cannot be asked as described.
            TargetUnreadable: the list was not read to its end.
        """
