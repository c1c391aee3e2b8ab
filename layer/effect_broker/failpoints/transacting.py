"""Transactions with failpoints before and after their COMMIT."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from effect_broker.domain.outcome import Committed, Outcome
from effect_broker.domain.work import WorkState
from effect_broker.failpoints import Failpoint, Failpoints
from effect_broker.ports import (
    Claim,
    LocalMutation,
    Step,
    StepFor,
    Transacted,
    Transactor,
)


@dataclass(frozen=True, slots=True)
class FailpointTransactor:
    """The same transactor; the target's commit and the receipt's are one here.

    The failpoint before it is reached with the mutation made and the row still locked.
    """

    inner: Transactor
    failpoints: Failpoints

    async def transact(
        self, claim: Claim, mutation: LocalMutation, step_for: StepFor
    ) -> Transacted | Outcome:
        """Run the mutation and record it, between the failpoints of that commit."""

        def step_at_failpoint(outcome: Committed, work: WorkState, now: datetime) -> Step:
            self.failpoints.reach(Failpoint.BEFORE_RECEIPT_COMMIT)
            return step_for(outcome, work, now)

        ended = await self.inner.transact(claim, mutation, step_at_failpoint)
        if isinstance(ended, Transacted):
            self.failpoints.reach(Failpoint.AFTER_TARGET_COMMIT)
            self.failpoints.reach(Failpoint.AFTER_RECEIPT_COMMIT)
        return ended
