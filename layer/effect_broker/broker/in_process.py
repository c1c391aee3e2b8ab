"""In process: an effect is reserved already leased, and carried out before the call
returns.

One round trip fewer than submit and dispatch, under the same rules: the reservation and
its first attempt are one confirmed commit, and every later attempt is a worker's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

from effect_broker.broker.dispatch import Dispatcher
from effect_broker.broker.submit import Submitter
from effect_broker.domain.intent import EffectRequest, Reservation
from effect_broker.ports import Nudger, StepStatus


@dataclass(frozen=True, slots=True)
class InProcess:
    """Submits and makes the first attempt at once.

    Workers and reconcilers are needed beside it: they repeat what was not executed, and
    recover what this process left unknown. Build it only in a process of the broker's
    own: an attempt that outlives its send deadline ends the process.
    """

    submitter: Submitter
    dispatcher: Dispatcher
    nudger: Nudger

    async def execute(self, tenant_id: UUID, request: EffectRequest) -> Reservation:
        """Reserve the effect and make its first attempt, or return the one that stands.

        The effect in the answer has the state after the attempt: succeeded, retryable,
        outcome_unknown or another. An effect that may not be sent now, or not by this
        process, is reserved and left to workers. Cancelled, the attempt is recorded as
        what it then proved. Safe to repeat with the same key after any error.

        Raises:
            InvalidOperationKey, InvalidArguments, InvalidJson, UnknownTool, PayloadDrift:
                as `Submitter.submit`; nothing was sent.
            LedgerUnavailable: nothing was sent, or its ending could not be recorded and
                the effect is left to its lease.
            DispatchHeld: this attempt found that the ledger's clock had stepped.
        """
        proposed = await self.submitter.propose(tenant_id, request)
        if isinstance(proposed, Reservation):
            return proposed
        leased = await self.dispatcher.reserve(proposed.intent)
        reservation = await self.submitter.answer(proposed, leased.reserved)
        if not reservation.created:
            return reservation
        if leased.claim is None:
            await self.nudger.dispatch([reservation.effect.effect_id])
            return reservation
        for step, result in await self.dispatcher.carry_out([leased.claim], leased.read):
            if result.status is StepStatus.APPLIED:
                effect = replace(
                    reservation.effect,
                    status=step.transition.new,
                    version=result.version,
                )
                return replace(reservation, effect=effect)
        return reservation
