"""The facade that surfaces call: one method a use case, tenant first in each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from effect_broker.broker.catalog import Catalog
from effect_broker.broker.forking import Forker, SimulatedFork
from effect_broker.broker.inspecting import EffectView, Inspector
from effect_broker.broker.resolving import Finding, Resolver
from effect_broker.broker.submit import Submitter
from effect_broker.domain.attempt import Attempt
from effect_broker.domain.errors import EffectBrokerError
from effect_broker.domain.event import EffectEvent
from effect_broker.domain.intent import EffectRequest, Reservation
from effect_broker.domain.status import TERMINAL
from effect_broker.ports import Clock, EffectQuery, PublishedContract, StepResult

WAIT_MAX: Final = timedelta(seconds=20)
"""The longest an answer may be held back: gateways give up at 29 seconds."""

POLL_SECONDS: Final = 0.1
"""First pause between looks while waiting; grows to a second."""


@dataclass(frozen=True, slots=True)
class EffectBroker:
    """The correctness boundary in process: submit, read, ask, resolve.

    Nothing here sends anything to a target; dispatchers and reconcilers do, under leases.
    """

    submitter: Submitter
    inspector: Inspector
    resolver: Resolver
    catalog: Catalog
    clock: Clock

    async def submit(self, tenant_id: UUID, request: EffectRequest) -> Reservation:
        """Reserve an effect, or return the one its operation key stands for.

        See `Submitter.submit` for what is refused.
        """
        return await self.submitter.submit(tenant_id, request)

    async def submit_many(
        self, tenant_id: UUID, requests: Sequence[EffectRequest]
    ) -> Sequence[Reservation | EffectBrokerError]:
        """Reserve many effects together; see `Submitter.submit_many`."""
        return await self.submitter.submit_many(tenant_id, requests)

    async def get(self, tenant_id: UUID, effect_id: UUID) -> EffectView:
        """Return one effect.

        Raises:
            EffectNotFound: none with this id for this tenant.
        """
        return await self.inspector.effect(tenant_id, effect_id)

    async def wait(
        self, tenant_id: UUID, effect_id: UUID, patience: timedelta
    ) -> EffectView:
        """Return the effect once it is terminal, or as it stands after `timeout`
        (capped).
        """
        until = self.clock.monotonic() + min(patience, WAIT_MAX).total_seconds()
        pause = POLL_SECONDS
        while True:
            view = await self.get(tenant_id, effect_id)
            left = until - self.clock.monotonic()
            if view.snapshot.status in TERMINAL or left <= 0:
                return view
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, 1.0)

    async def attempts(self, tenant_id: UUID, effect_id: UUID) -> Sequence[Attempt]:
        """Return an effect's attempts with their endings, by ordinal."""
        return await self.inspector.attempts(tenant_id, effect_id)

    async def events(self, tenant_id: UUID, effect_id: UUID) -> Sequence[EffectEvent]:
        """Return an effect's history, by sequence."""
        return await self.inspector.events(tenant_id, effect_id)

    async def replay_receipt(self, tenant_id: UUID, effect_id: UUID) -> Mapping[str, Any]:
        """Return the stored receipt as JSON; reaches no target.

        Raises:
            EffectNotFound, ReceiptNotFound: there is none (yet).
        """
        return await self.inspector.receipt(tenant_id, effect_id)

    async def reconcile(
        self, tenant_id: UUID, effect_id: UUID, *, actor: str = "caller"
    ) -> EffectView:
        """Ask for reconciliation and return the effect; never forces a retry."""
        await self.resolver.request(tenant_id, effect_id, actor=actor)
        return await self.get(tenant_id, effect_id)

    async def fork(
        self, tenant_id: UUID, effect_id: UUID, at_sequence: int
    ) -> SimulatedFork:
        """Simulate a fork with the answers on record; see `Forker.simulate`."""
        forker = Forker(self.inspector, self.submitter)
        return await forker.simulate(tenant_id, effect_id, at_sequence)

    async def fork_live(
        self, tenant_id: UUID, effect_id: UUID, operation_key: str, *, actor: str
    ) -> Reservation:
        """Reserve an effect's payload anew under another key; see `Forker.go_live`."""
        forker = Forker(self.inspector, self.submitter)
        return await forker.go_live(tenant_id, effect_id, operation_key, actor=actor)

    async def resolve(
        self, tenant_id: UUID, effect_id: UUID, finding: Finding
    ) -> StepResult:
        """Record an operator's finding; see `Resolver.resolve`."""
        return await self.resolver.resolve(tenant_id, effect_id, finding)

    async def compensate(
        self,
        tenant_id: UUID,
        effect_id: UUID,
        compensated_by: UUID,
        *,
        actor: str,
        reason: str,
        expected_version: int | None = None,
    ) -> StepResult:
        """Link a compensating effect; see `Resolver.compensate`."""
        return await self.resolver.compensate(
            tenant_id,
            effect_id,
            compensated_by,
            actor=actor,
            reason=reason,
            expected_version=expected_version,
        )

    async def page(self, tenant_id: UUID, query: EffectQuery) -> Sequence[EffectView]:
        """Return a page of the tenant's effects, newest first."""
        return await self.inspector.page(tenant_id, query)

    async def tools(self) -> Sequence[PublishedContract]:
        """Return every tool's active contract."""
        return await self.catalog.tools()
