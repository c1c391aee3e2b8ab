"""What may be done about an effect whose outcome was lost: pure code over the pinned
contract and the ledger's state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from effect_broker.domain.attempt import Attempt, AttemptEnding, EndingKind
from effect_broker.domain.contract import EffectContract, SafetyClass
from effect_broker.domain.outcome import ProbeResult, ProbeStatus, Rejected
from effect_broker.domain.settle import (
    proven_rejection,
    recovery_delay,
    speaks_for_all,
)
from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.domain.timing import NO_WAIT, backoff, horizon_over, settled
from effect_broker.domain.transition import Transition, transition
from effect_broker.domain.work import WorkState

_S = EffectStatus
_E = EventType

_PROVES_ABSENCE = frozenset(
    {EndingKind.REJECTED, EndingKind.NOT_EXECUTED, EndingKind.NOT_SENT}
)


@dataclass(frozen=True, slots=True)
class ProbeFirst:
    """Ask the target before anything else; then `after_probe` decides."""


@dataclass(frozen=True, slots=True)
class TakeProof:
    """Proof of commit stands in the ledger: settle the effect with this ending."""

    ending: AttemptEnding


Recovery = Transition | ProbeFirst | TakeProof


def permitted_recovery(
    contract: EffectContract,
    work: WorkState,
    attempts: Sequence[Attempt],
    now: datetime,
    *,
    clock_margin: timedelta,
) -> Recovery:
    """Say what a reconciler that holds `work` (RECONCILING) may do.

    Stored proof of commit wins. Where every attempt is proven not committed, the stored
    rejection decides. An unsafe effect is never redispatched, whatever a probe would say.
    A key that ties every commit to itself permits a redispatch inside its horizon; all
    else asks the target, or waits for a person.
    """
    if work.proof_committed:
        return TakeProof(proof_of_commit(attempts))
    if work.unproven == 0:
        over = horizon_over(contract, work, now, clock_margin=clock_margin)
        decided = _after_late_proof(contract, work, attempts)
        return _under_a_new_key(contract, work, decided) if over else decided
    if contract.safety is SafetyClass.UNSAFE:
        return _inconclusive(contract, work, now, "evidence_proves_nothing", clock_margin)
    if contract.safety is SafetyClass.TRANSACTIONAL:
        if work.redispatches >= contract.redispatch_limit:
            return _exhausted(work, "redispatch_limit")
        return _redispatch(contract, work, "no_receipt_under_the_row_lock")
    over = horizon_over(contract, work, now, clock_margin=clock_margin)
    if contract.redispatches_under_key and not over:
        if _tried(work) and _too_old(contract, work, now) and contract.probe is None:
            return _exhausted(work, "unknown_review_after")
        if work.redispatches < contract.redispatch_limit:
            return replace(
                _redispatch(contract, work, "same_key_inside_its_horizon"),
                unproven=work.unproven,
                proven_through=work.proven_through,
                unknown=True,
            )
        if contract.probe is None:
            return _exhausted(work, "redispatch_limit")
    if contract.probe is not None:
        return ProbeFirst()
    return _exhausted(work, "horizon_over" if over else "no_lookup")


def after_probe(
    contract: EffectContract,
    work: WorkState,
    probe: ProbeResult,
    asked_at: datetime,
    *,
    clock_margin: timedelta,
) -> Transition:
    """Say where a reconciling effect goes after the target was asked at `asked_at`.

    `asked_at` is the ledger's clock before the probe was sent. Presence is believed at
    any time. Absence is believed only from a lookup declared strongly consistent, after
    the settlement bound of every attempt, and after a second look where the contract
    wants one; before that a negative is silence (design rule 7).
    """
    if probe.status is ProbeStatus.COMMITTED:
        return transition(
            work, _E.RECEIPT_RECORDED, _S.SUCCEEDED, reason="probe_found_it"
        )
    if probe.status is ProbeStatus.UNKNOWN:
        return _inconclusive(contract, work, asked_at, "probe_unknown", clock_margin)
    if contract.probe is None or not contract.probe.strongly_consistent:
        return _inconclusive(
            contract, work, asked_at, "lookup_proves_presence_only", clock_margin
        )
    if not settled(work, asked_at, clock_margin=clock_margin):
        return _inconclusive(contract, work, asked_at, "not_settled", clock_margin)
    if not _looked_twice(contract, work, asked_at):
        return _second_look(contract, work, asked_at)
    return _proven_absent(contract, work, asked_at, clock_margin)


def _looked_twice(contract: EffectContract, work: WorkState, asked_at: datetime) -> bool:
    if contract.probe_gap == NO_WAIT:
        return True
    return (
        work.negative_at is not None and asked_at >= work.negative_at + contract.probe_gap
    )


def _second_look(
    contract: EffectContract, work: WorkState, asked_at: datetime
) -> Transition:
    first = work.negative_at or asked_at
    return transition(
        work,
        _E.PROBE_INCONCLUSIVE,
        _S.OUTCOME_UNKNOWN,
        reason="second_look_due",
        delay=max(NO_WAIT, first + contract.probe_gap - asked_at),
        probes=work.probes + 1,
        negative=True,
    )


def _proven_absent(
    contract: EffectContract,
    work: WorkState,
    asked_at: datetime,
    clock_margin: timedelta,
) -> Transition:
    if work.redispatches >= contract.redispatch_limit:
        return _exhausted(work, "redispatch_limit")
    permitted = _redispatch(contract, work, "absent_after_settlement")
    if not horizon_over(contract, work, asked_at, clock_margin=clock_margin):
        return permitted
    if work.key_generation >= contract.key_generations:
        return _exhausted(work, "horizon_over")
    return replace(permitted, key_generation=work.key_generation + 1, fresh_horizon=True)


def _redispatch(contract: EffectContract, work: WorkState, reason: str) -> Transition:
    return transition(
        work,
        _E.REDISPATCH_PERMITTED,
        _S.PREPARED,
        reason=reason,
        delay=NO_WAIT,
        redispatches=work.redispatches + 1,
        probes=0,
        unproven=0,
        proven_through=work.attempts,
        unknown=False,
        negative=False,
        fresh_deadline=contract.submit_deadline,
    )


def _exhausted(work: WorkState, reason: str) -> Transition:
    return transition(
        work, _E.RECONCILIATION_EXHAUSTED, _S.MANUAL_REVIEW, reason=reason, unknown=True
    )


def _inconclusive(
    contract: EffectContract,
    work: WorkState,
    now: datetime,
    reason: str,
    clock_margin: timedelta,
) -> Transition:
    if contract.safety is not SafetyClass.UNSAFE and _too_old(contract, work, now):
        return _exhausted(work, "unknown_review_after")
    asked = replace(work, probes=work.probes + 1)
    return transition(
        asked,
        _E.PROBE_INCONCLUSIVE,
        _S.OUTCOME_UNKNOWN,
        reason=reason,
        unknown=True,
        delay=_next_look(contract, asked, now, clock_margin),
    )


def _next_look(
    contract: EffectContract,
    work: WorkState,
    now: datetime,
    clock_margin: timedelta,
) -> timedelta | None:
    if contract.safety is SafetyClass.UNSAFE or contract.probe is None:
        return recovery_delay(contract, work, now, clock_margin=clock_margin)
    wait = backoff(contract, work.probes, seed=work.effect_id)
    if settled(work, now, clock_margin=clock_margin) or work.settlement_at is None:
        return wait
    return min(wait, work.settlement_at + clock_margin - now + timedelta(milliseconds=1))


def _under_a_new_key(
    contract: EffectContract, work: WorkState, decided: Transition
) -> Transition:
    """Start a key generation for a retry whose key is over, where the contract has one
    left: every attempt under the old one is proven not committed (design rule 8).
    """
    renewed = decided.key_generation > work.key_generation
    left = work.key_generation < contract.key_generations
    if decided.new is not _S.RETRYABLE or renewed or not left:
        return decided
    return replace(decided, key_generation=work.key_generation + 1, fresh_horizon=True)


def _tried(work: WorkState) -> bool:
    return work.redispatches + work.retries > 0


def _too_old(contract: EffectContract, work: WorkState, now: datetime) -> bool:
    since = work.unknown_since
    return since is not None and now > since + contract.unknown_review_after


def proof_of_commit(attempts: Sequence[Attempt]) -> AttemptEnding:
    """Return the stored ending that proves the commit; the earliest attempt's, if several
    do.
    """
    return next(
        attempt.ending
        for attempt in attempts
        if attempt.ending is not None and attempt.ending.kind is EndingKind.COMMITTED
    )


def _last_proof_of_absence(attempts: Sequence[Attempt]) -> Attempt | None:
    latest_first = sorted(attempts, key=lambda attempt: attempt.ordinal, reverse=True)
    return next(
        (
            attempt
            for attempt in latest_first
            if attempt.ending is not None and attempt.ending.kind in _PROVES_ABSENCE
        ),
        None,
    )


def _after_late_proof(
    contract: EffectContract, work: WorkState, attempts: Sequence[Attempt]
) -> Transition:
    """Every attempt is proven not committed by stored endings; the last such decides.

    An attempt without one was spoken for by the key's own record. A rejection that came
    in time was counted when it came.
    """
    last = _last_proof_of_absence(attempts)
    ending = last.ending if last is not None else None
    if last is not None and ending is not None and ending.kind is EndingKind.REJECTED:
        outcome = Rejected(
            ending.reason, final=ending.final, from_key_record=ending.from_key_record
        )
        counted = replace(work, rejections=work.rejections + last.late)
        kept = speaks_for_all(contract, outcome)
        return proven_rejection(contract, counted, outcome, kept=kept)
    event = (
        _E.ATTEMPT_NOT_EXECUTED
        if ending is not None and ending.kind is EndingKind.NOT_EXECUTED
        else _E.ATTEMPT_NOT_SENT
    )
    return transition(
        work,
        event,
        _S.RETRYABLE,
        reason="late_answer",
        unknown=False,
        negative=False,
        delay=backoff(contract, work.retries, seed=work.effect_id),
        retries=work.retries + 1,
    )
