"""Reconcile: leased, fenced work that asks the target what became of a lost answer, and
never guesses.

Killed anywhere, its lease ends and the effect is outcome_unknown again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from effect_broker.broker.catalog import Catalog
from effect_broker.broker.clock_watch import ClockWatch
from effect_broker.broker.effects import deadline_after
from effect_broker.broker.measuring import Measuring
from effect_broker.broker.nudging import nudge
from effect_broker.broker.payload import receipt_of_ending, receipt_of_probe
from effect_broker.broker.probing import Probed, Probing
from effect_broker.broker.recording import Pending, Recorder
from effect_broker.broker.scopes import Scopes
from effect_broker.broker.settling import with_new_key
from effect_broker.domain.attempt import Attempt
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import (
    DispatchHeld,
    EffectBrokerError,
    LedgerUnavailable,
)
from effect_broker.domain.outcome import ProbeStatus
from effect_broker.domain.receipt import ReceiptSource
from effect_broker.domain.recovery import (
    ProbeFirst,
    after_probe,
    permitted_recovery,
    proof_of_commit,
)
from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.domain.transition import Transition, transition
from effect_broker.domain.work import WorkState
from effect_broker.ports import (
    Cipher,
    Claim,
    ClaimOrder,
    Clock,
    Deadline,
    KeyDeriver,
    Ledger,
    NewId,
    Nudger,
    Step,
    StepStatus,
)

BATCH_MAX: Final = 20
"""Reconciliations at once: each may hold a probe open for its whole timeout."""

ACTOR: Final = "reconciler"

Failed = tuple[UUID, BaseException]
"""An effect that could not be decided, and why."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """What one pass did; `more` says that due work was left behind."""

    claimed: int = 0
    settled: int = 0
    redispatched: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True)
class _Case:
    claim: Claim
    contract: EffectContract
    attempts: Sequence[Attempt]
    probed: Probed | None = None


class Reconciler:
    """Moves unknown effects on; holds no state between passes."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        catalog: Catalog,
        scopes: Scopes,
        probing: Probing,
        recorder: Recorder,
        cipher: Cipher,
        deriver: KeyDeriver,
        nudger: Nudger,
        clock: Clock,
        measuring: Measuring,
        worker: str,
        clock_margin: timedelta,
        batch_max: int = BATCH_MAX,
        new_id: NewId,
    ) -> None:
        self._ledger = ledger
        self._catalog = catalog
        self._scopes = scopes
        self._probing = probing
        self._recorder = recorder
        self._cipher = cipher
        self._deriver = deriver
        self._nudger = nudger
        self._clock = clock
        self._measuring = measuring
        self._worker = worker
        self._clock_margin = clock_margin
        self._batch_max = batch_max
        self._new_id = new_id
        self._clock_watch = ClockWatch(clock_margin)

    async def run_once(
        self,
        *,
        effect_ids: Sequence[UUID] | None = None,
        budget: timedelta | None = None,
    ) -> ReconcileReport:
        """Claim due unknown effects once and move each as far as the contract permits.

        An effect that cannot be decided (its keys are missing) stops no other.

        Raises:
            LedgerUnavailable: what was claimed and not recorded returns at its lease end.
            DispatchHeld: the ledger's clock has stepped since this process last claimed:
                nothing is decided by it, and dispatch is held until an operator looks.
        """
        terms = await self._scopes.terms()
        read = self._read_clocks()
        order = ClaimOrder(
            token=self._new_id(),
            worker=self._worker,
            limit=self._batch_max,
            terms=terms,
            clock_margin=self._clock_margin,
            budget=budget,
            effect_ids=effect_ids,
        )
        claimed = await self._ledger.claim_reconciliation(order)
        await self._watch_the_clock(claimed.claims, read)
        pending, failed = await self._decide_all(claimed.claims, read)
        results = await self._recorder.record(pending) if pending else []
        self._measuring.steps(results)
        self._measuring.reconciliations(results, self._clock.monotonic() - read.monotonic)
        await nudge(self._nudger, results)
        _raise_or_tell(failed)
        applied = [
            step for step, result in results if result.status is StepStatus.APPLIED
        ]
        return ReconcileReport(
            claimed=len(claimed.claims),
            settled=sum(
                step.transition.new is EffectStatus.SUCCEEDED for step in applied
            ),
            redispatched=sum(
                step.transition.event is EventType.REDISPATCH_PERMITTED
                for step in applied
            ),
            more=claimed.more,
        )

    def _read_clocks(self) -> Deadline:
        return Deadline(
            self._clock.monotonic(), self._clock.boottime(), self._clock.wall()
        )

    async def _watch_the_clock(self, claims: Sequence[Claim], read: Deadline) -> None:
        """Leave what was claimed to its lease where the ledger's clock has stepped: by a
        wrong clock an absence could be believed too early.
        """
        if not claims:
            return
        stepped = self._clock_watch.step(claims[0].now, read, self._read_clocks())
        if stepped is None:
            return
        seconds = stepped.total_seconds()
        reason = f"The ledger's clock stepped by {seconds:+.1f} s."
        await self._ledger.hold_dispatch(reason)
        raise DispatchHeld(reason)

    async def _decide_all(
        self, claims: Sequence[Claim], read: Deadline
    ) -> tuple[Sequence[Pending], Sequence[Failed]]:
        """Decide on every claim; one that cannot be decided stops no other."""
        answers = await asyncio.gather(
            *(self._decide(claim, read) for claim in claims), return_exceptions=True
        )
        pending = [found for found in answers if isinstance(found, Pending)]
        failed = [
            (claim.intent.effect_id, found)
            for claim, found in zip(claims, answers, strict=True)
            if isinstance(found, BaseException)
        ]
        return pending, failed

    async def _decide(self, claim: Claim, read: Deadline) -> Pending:
        contract = await self._catalog.pinned(claim.intent.contract_id)
        case = _Case(claim, contract, await self._attempts(claim))
        decided = permitted_recovery(
            contract,
            claim.work,
            case.attempts,
            claim.now,
            clock_margin=self._clock_margin,
        )
        if isinstance(decided, ProbeFirst):
            deadline = deadline_after(read, contract.probe_timeout.total_seconds())
            probed = await self._probing.probe(claim, contract, case.attempts, deadline)
            case = replace(case, probed=probed)

        async def decide(work: WorkState, now: datetime) -> Transition:
            fresh = replace(case, attempts=await self._attempts(claim))
            return self._transition(fresh, work)

        return Pending(self._step(case, self._transition(case, claim.work)), decide)

    async def _attempts(self, claim: Claim) -> Sequence[Attempt]:
        return await self._ledger.attempts(claim.intent.tenant_id, claim.intent.effect_id)

    def _transition(self, case: _Case, work: WorkState) -> Transition:
        """Decide on `work`; time is the ledger's at the claim, before anything was
        asked.
        """
        claim, contract, probed = case.claim, case.contract, case.probed
        if work.proof_committed:
            return _late_receipt(work, case.attempts)
        if probed is None:
            decided = permitted_recovery(
                contract, work, case.attempts, claim.now, clock_margin=self._clock_margin
            )
            if isinstance(decided, Transition):
                return with_new_key(self._deriver, decided, claim.intent, contract, work)
            return _ask_again(work)
        if probed.violated is not None:
            return transition(
                work,
                EventType.CONTRACT_VIOLATED,
                EffectStatus.MANUAL_REVIEW,
                reason=probed.violated,
                unknown=True,
            )
        return self._after_probe(case, probed, work)

    def _after_probe(self, case: _Case, probed: Probed, work: WorkState) -> Transition:
        claim = case.claim
        decided = after_probe(
            case.contract,
            work,
            probed.result,
            claim.now,
            clock_margin=self._clock_margin,
        )
        if probed.result.status is ProbeStatus.COMMITTED:
            receipt = receipt_of_probe(
                self._cipher,
                claim.intent.tenant_id,
                claim.intent.effect_id,
                probed.result,
            )
            return replace(decided, receipt=receipt)
        return with_new_key(self._deriver, decided, claim.intent, case.contract, work)

    def _step(self, case: _Case, decided: Transition) -> Step:
        claim = case.claim
        self._measuring.redispatch(decided, claim)
        return Step(
            tenant_id=claim.intent.tenant_id,
            effect_id=claim.intent.effect_id,
            version=claim.work.version,
            token=claim.token if claim.work.status is EffectStatus.RECONCILING else None,
            transition=decided,
            actor=ACTOR,
            tool=claim.intent.tool,
        )


def _raise_or_tell(failed: Sequence[Failed]) -> None:
    """Raise what concerns the whole pass; what concerns one effect is told, and its lease
    brings it back.
    """
    for _, error in failed:
        if isinstance(error, LedgerUnavailable) or not isinstance(
            error, EffectBrokerError
        ):
            raise error
    for effect_id, error in failed:
        _log.error("effect %s cannot be reconciled: %s", effect_id, error)


def _late_receipt(work: WorkState, attempts: Sequence[Attempt]) -> Transition:
    """Settle an effect by the proof of commit that a late answer left in the ledger."""
    ending = proof_of_commit(attempts)
    return transition(
        work,
        EventType.RECEIPT_RECORDED,
        EffectStatus.SUCCEEDED,
        reason="late_answer",
        receipt=receipt_of_ending(ending, ReceiptSource.LATE_ANSWER),
    )


def _ask_again(work: WorkState) -> Transition:
    """Evidence moved the effect to where only a probe helps: the next pass asks."""
    return transition(
        work,
        EventType.PROBE_INCONCLUSIVE,
        EffectStatus.OUTCOME_UNKNOWN,
        reason="evidence_arrived",
        delay=timedelta(0),
        unknown=True,
    )
