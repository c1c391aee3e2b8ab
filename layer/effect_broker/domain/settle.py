"""What an attempt's outcome leads to. Proof about one attempt is not proof about the
effect.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import assert_never

from effect_broker.domain.contract import EffectContract, KeyRecords, SafetyClass
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    NotSent,
    Outcome,
    Rejected,
)
from effect_broker.domain.receipt import ReceiptDraft, ReceiptKind, ReceiptSource
from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.domain.timing import NO_WAIT, backoff, until_settled
from effect_broker.domain.transition import PARKED, Transition, transition
from effect_broker.domain.work import WorkState

_S = EffectStatus
_E = EventType


def after_outcome(
    contract: EffectContract,
    work: WorkState,
    outcome: Outcome,
    now: datetime,
    *,
    clock_margin: timedelta,
) -> Transition:
    """Say where a dispatching effect goes when its current attempt has ended.

    A commit settles it. A rejection or a not-sent leads onwards only when no earlier
    attempt may have committed and no proof of commit stands; else the effect goes back to
    outcome_unknown. Everything else is ambiguous (design rules 4, 5 and 10).
    """
    match outcome:
        case Committed():
            return transition(work, _E.RECEIPT_RECORDED, _S.SUCCEEDED, reason="committed")
        case Rejected(not_executed=True):
            return _not_executed(contract, work, outcome, now, clock_margin)
        case Rejected():
            return _rejected(contract, work, outcome, now, clock_margin)
        case NotSent():
            return _not_sent(contract, work, outcome, now, clock_margin)
        case Ambiguous(contract_violated=True):
            return transition(
                work,
                _E.CONTRACT_VIOLATED,
                _S.MANUAL_REVIEW,
                reason=outcome.reason,
                unknown=True,
            )
        case Ambiguous():
            return _lost(contract, work, outcome, now, clock_margin)
        case _:
            assert_never(outcome)


def recovery_delay(
    contract: EffectContract,
    work: WorkState,
    now: datetime,
    *,
    clock_margin: timedelta,
) -> timedelta | None:
    """Return the wait until the next recovery step could learn something; None parks.

    An unsafe effect waits for an operator. Where a redispatch under the same key is the
    recovery, the backoff decides; where a probe is, early probes may find presence, and
    one is due as soon as a negative becomes conclusive.
    """
    if work.proof_committed or contract.safety is SafetyClass.TRANSACTIONAL:
        return NO_WAIT
    if contract.safety is SafetyClass.UNSAFE:
        return PARKED
    if contract.redispatches_under_key:
        step = work.redispatches + work.retries
        return backoff(contract, step, seed=work.effect_id)
    wait = backoff(contract, work.probes, seed=work.effect_id)
    settlement = until_settled(work, now, clock_margin=clock_margin)
    return min(wait, settlement) if settlement > NO_WAIT else wait


def _lost(
    contract: EffectContract,
    work: WorkState,
    outcome: Ambiguous,
    now: datetime,
    clock_margin: timedelta,
) -> Transition:
    if outcome.in_progress:
        work = _refund_redispatch(work)
    delay = recovery_delay(contract, work, now, clock_margin=clock_margin)
    if delay is not None and outcome.retry_after is not None:
        delay = max(delay, outcome.retry_after)
    return transition(
        work,
        _E.OUTCOME_LOST,
        _S.OUTCOME_UNKNOWN,
        reason=outcome.reason,
        delay=delay,
        unknown=True,
    )


def _not_executed(
    contract: EffectContract,
    work: WorkState,
    outcome: Rejected,
    now: datetime,
    clock_margin: timedelta,
) -> Transition:
    proven = _prove_current(work)
    if _still_unknown(proven):
        return _back_to_unknown(
            contract,
            proven,
            _E.ATTEMPT_NOT_EXECUTED,
            outcome.reason,
            now,
            clock_margin,
            outcome.retry_after,
        )
    return _retry(
        contract, proven, _E.ATTEMPT_NOT_EXECUTED, outcome.reason, outcome.retry_after
    )


def _not_sent(
    contract: EffectContract,
    work: WorkState,
    outcome: NotSent,
    now: datetime,
    clock_margin: timedelta,
) -> Transition:
    proven = _prove_current(work)
    if _still_unknown(proven):
        return _back_to_unknown(
            contract, proven, _E.ATTEMPT_NOT_SENT, outcome.reason, now, clock_margin, None
        )
    return _retry(contract, proven, _E.ATTEMPT_NOT_SENT, outcome.reason, None)


def _rejected(
    contract: EffectContract,
    work: WorkState,
    outcome: Rejected,
    now: datetime,
    clock_margin: timedelta,
) -> Transition:
    kept = speaks_for_all(contract, outcome)
    proven = _prove_all(work) if kept else _prove_current(work)
    proven = replace(proven, rejections=work.rejections + 1)
    if _still_unknown(proven):
        return _back_to_unknown(
            contract,
            proven,
            _E.ATTEMPT_REJECTED,
            outcome.reason,
            now,
            clock_margin,
            outcome.retry_after,
        )
    return proven_rejection(contract, proven, outcome, kept=kept)


def speaks_for_all(contract: EffectContract, outcome: Rejected) -> bool:
    """Say whether a rejection proves every attempt under the key not committed.

    Only where it comes from the key's own record, and the contract keeps every answer
    there (design rule 5).
    """
    return outcome.from_key_record and contract.key_records is KeyRecords.ALL_ANSWERS


def proven_rejection(
    contract: EffectContract, work: WorkState, outcome: Rejected, *, kept: bool
) -> Transition:
    """Say what a rejection leads to once every attempt is proven not committed.

    Under a key whose answers are all kept, the same key can only replay the refusal: a
    new key generation where the contract allows one, else the failure is final.
    """
    same_key_is_useless = kept and contract.safety is SafetyClass.IDEMPOTENT
    may_renew = work.key_generation < contract.key_generations
    exhausted = work.rejections > contract.retry_limit
    if outcome.final or exhausted or (same_key_is_useless and not may_renew):
        return transition(
            work,
            _E.ATTEMPT_REJECTED,
            _S.FAILED_FINAL,
            reason=outcome.reason,
            receipt=ReceiptDraft(
                kind=ReceiptKind.FAILED_FINAL,
                source=ReceiptSource.ATTEMPT,
                reason=outcome.reason,
            ),
        )
    retried = _retry(
        contract, work, _E.ATTEMPT_REJECTED, outcome.reason, outcome.retry_after
    )
    if same_key_is_useless:
        return replace(
            retried, key_generation=work.key_generation + 1, fresh_horizon=True
        )
    return retried


def _still_unknown(work: WorkState) -> bool:
    return work.unproven > 0 or work.proof_committed


def _prove_current(work: WorkState) -> WorkState:
    """Count the open attempt as proven; earlier ones keep their standing.

    It may be counted already: a late answer from the key's record speaks for it too.
    """
    unproven = max(0, work.unproven - 1)
    proven_through = work.attempts if unproven == 0 else work.proven_through
    return replace(work, unproven=unproven, proven_through=proven_through)


def _refund_redispatch(work: WorkState) -> WorkState:
    """Give back the permission that an attempt did not use; only the wait grows.

    A target that is away, or still busy with the first request, must not push an effect
    into review by using up its redispatches: the horizon and the review age bound it.
    """
    return replace(
        work, redispatches=max(0, work.redispatches - 1), retries=work.retries + 1
    )


def _prove_all(work: WorkState) -> WorkState:
    return replace(work, unproven=0, proven_through=work.attempts)


def _retry(
    contract: EffectContract,
    work: WorkState,
    event: EventType,
    reason: str,
    retry_after: timedelta | None,
) -> Transition:
    wait = backoff(contract, work.retries, seed=work.effect_id)
    return transition(
        work,
        event,
        _S.RETRYABLE,
        reason=reason,
        delay=max(wait, retry_after or NO_WAIT),
        retries=work.retries + 1,
        unknown=False,
        negative=False,
    )


def _back_to_unknown(
    contract: EffectContract,
    work: WorkState,
    event: EventType,
    reason: str,
    now: datetime,
    clock_margin: timedelta,
    retry_after: timedelta | None,
) -> Transition:
    if event is not _E.ATTEMPT_REJECTED:
        work = _refund_redispatch(work)
    delay = recovery_delay(contract, work, now, clock_margin=clock_margin)
    if delay is not None and retry_after is not None:
        delay = max(delay, retry_after)
    return transition(
        work, event, _S.OUTCOME_UNKNOWN, reason=reason, delay=delay, unknown=True
    )
