"""The ledger, the only authority."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from effect_broker.domain.attempt import Attempt
from effect_broker.domain.event import EffectEvent
from effect_broker.domain.intent import Intent
from effect_broker.domain.receipt import Receipt
from effect_broker.ports.work import (
    Claim,
    Claimed,
    ClaimOrder,
    DispatchHold,
    EffectQuery,
    Lapsed,
    Refused,
    Reserved,
    Resolution,
    Snapshot,
    Step,
    StepResult,
)


class Ledger(Protocol):
    """The only authority. Each call is one round trip and at most one commit."""

    async def reserve(self, intents: Sequence[Intent]) -> Sequence[Reserved]:
        """Record intents under their operation keys, or say what stands there; replays
        write nothing.
        """

    async def reserve_leased(
        self, intent: Intent, order: ClaimOrder
    ) -> tuple[Reserved, Claim | None]:
        """Record an intent and start its first attempt in one commit, confirmed before it
        returns; no claim where the key is taken or nothing may be sent now.
        """

    async def find(self, tenant_id: UUID, operation_key: str) -> Reserved | None:
        """Return what stands under an operation key, without writing."""

    async def claim(self, order: ClaimOrder) -> Claimed:
        """Take due effects and start their attempts in one commit, confirmed before it
        returns.
        """

    async def claim_reconciliation(self, order: ClaimOrder) -> Claimed:
        """Take due unknown effects for reconciliation, and unclaimed ones with proof of
        commit.
        """

    async def record(self, steps: Sequence[Step]) -> Sequence[StepResult]:
        """Write decided transitions; a lost claim stores its ending as late evidence
        instead.
        """

    async def resolve(self, step: Step, resolution: Resolution) -> StepResult:
        """Write an operator's decision once; the same decision_id answers what it did."""

    async def resolution(
        self, tenant_id: UUID, effect_id: UUID, decision_id: str
    ) -> tuple[Resolution, int] | None:
        """Return an operator's earlier decision and the version it made."""

    async def compensate(
        self,
        tenant_id: UUID,
        effect_id: UUID,
        compensated_by: UUID,
        *,
        actor: str,
        sealed_reason: bytes,
        data_key_id: str,
        expected_version: int | None = None,
    ) -> StepResult:
        """Link a succeeded effect to the succeeded effect that compensates it."""

    async def renew(
        self, token: UUID, effect_ids: Sequence[UUID], lease: timedelta
    ) -> frozenset[UUID]:
        """Extend leases still held under `token`; what is missing from the answer is
        lost.
        """

    async def expire_leases(
        self, limit: int, *, clock_margin: timedelta
    ) -> Sequence[Lapsed]:
        """Turn lapsed leases into unknown outcomes; never into permission to run
        again.
        """

    async def overdue(self, limit: int, *, clock_margin: timedelta) -> Sequence[Refused]:
        """Return unclaimed effects past their submit deadline, whoever could dispatch
        them.
        """

    async def hold_dispatch(self, reason: str) -> None:
        """Stop every dispatch claim until an operator releases it; a hold that stands is
        kept.
        """

    async def release_dispatch(self, actor: str) -> bool:
        """Let dispatch go on; False where nothing was held."""

    async def dispatch_hold(self) -> DispatchHold | None:
        """Say why dispatch is held, if it is."""

    async def get(self, tenant_id: UUID, effect_id: UUID) -> Snapshot | None:
        """Read an effect."""

    async def attempts(self, tenant_id: UUID, effect_id: UUID) -> Sequence[Attempt]:
        """Read an effect's attempts with their endings, by ordinal."""

    async def events(self, tenant_id: UUID, effect_id: UUID) -> Sequence[EffectEvent]:
        """Read an effect's history, by sequence."""

    async def receipt(self, tenant_id: UUID, effect_id: UUID) -> Receipt | None:
        """Read the terminal row of an effect."""

    async def page(self, tenant_id: UUID, query: EffectQuery) -> Sequence[Snapshot]:
        """List effects by keyset."""


class Maintenance(Protocol):
    """What keeps the ledger's tables in order; safe to do at any time, by anybody."""

    async def make_partitions(self) -> Sequence[str]:
        """Make what is missing of this month's partitions and the next ones; return their
        names.
        """

    async def forget_fences(self) -> int:
        """Remove some fences of claims that settled long ago; return how many."""
