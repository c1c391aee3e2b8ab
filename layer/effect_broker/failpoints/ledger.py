"""The ledger with a failpoint before and after each commit that a proof cares about."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from effect_broker.domain.intent import Intent
from effect_broker.domain.status import EventType
from effect_broker.failpoints import Failpoint, Failpoints
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.ports import (
    Claimed,
    ClaimOrder,
    Lapsed,
    Reserved,
    Step,
    StepResult,
)


class FailpointLedger(PostgresLedger):
    """The same ledger; what it writes and returns is untouched."""

    def __init__(self, connections: Connections, failpoints: Failpoints) -> None:
        super().__init__(connections)
        self._failpoints = failpoints

    async def reserve(self, intents: Sequence[Intent]) -> Sequence[Reserved]:
        """Record intents, between the failpoints of the reservation."""
        self._failpoints.reach(Failpoint.BEFORE_RESERVATION_COMMIT)
        reserved = await super().reserve(intents)
        self._failpoints.reach(Failpoint.AFTER_RESERVATION_COMMIT)
        return reserved

    async def claim(self, order: ClaimOrder) -> Claimed:
        """Take due effects; a claim of nothing has no failpoint after it."""
        self._failpoints.reach(Failpoint.BEFORE_ATTEMPT_COMMIT)
        claimed = await super().claim(order)
        if claimed.claims:
            self._failpoints.reach(Failpoint.AFTER_ATTEMPT_COMMIT)
        if any(claim.attempt and claim.attempt.ordinal > 1 for claim in claimed.claims):
            self._failpoints.reach(Failpoint.IN_REDISPATCH)
        return claimed

    async def record(self, steps: Sequence[Step]) -> Sequence[StepResult]:
        """Write decided transitions; the failpoints are those of a receipt."""
        receipt = any(
            step.transition.event is EventType.RECEIPT_RECORDED for step in steps
        )
        if receipt:
            self._failpoints.reach(Failpoint.BEFORE_RECEIPT_COMMIT)
        results = await super().record(steps)
        if receipt:
            self._failpoints.reach(Failpoint.AFTER_RECEIPT_COMMIT)
        return results

    async def expire_leases(
        self, limit: int, *, clock_margin: timedelta
    ) -> Sequence[Lapsed]:
        """End lapsed leases; where none had lapsed, there is no failpoint after it."""
        self._failpoints.reach(Failpoint.BEFORE_SWEEP_COMMIT)
        lapsed = await super().expire_leases(limit, clock_margin=clock_margin)
        if lapsed:
            self._failpoints.reach(Failpoint.AFTER_SWEEP_COMMIT)
        return lapsed
