"""What a person may decide about an effect, and what the broker does when it may not
send.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum

from effect_broker.domain.contract import EffectContract, SafetyClass
from effect_broker.domain.errors import DecisionRefused
from effect_broker.domain.receipt import ReceiptDraft, ReceiptKind, ReceiptSource
from effect_broker.domain.status import RESOLVABLE, EffectStatus, EventType
from effect_broker.domain.timing import NO_WAIT, horizon_over, settled
from effect_broker.domain.transition import Transition, transition
from effect_broker.domain.work import WorkState

_S = EffectStatus
_E = EventType


class Decision(StrEnum):
    """An operator's finding about the target."""

    COMMITTED = "committed"
    NOT_COMMITTED = "not_committed"
    FAILED = "failed"


class SendRefusal(StrEnum):
    """Why a due effect may not be sent."""

    HORIZON_OVER = "horizon_over"
    SUBMIT_DEADLINE = "submit_deadline"
    SCOPE_CHANGED = "scope_changed"
    ADAPTER_GONE = "adapter_gone"


def resolve(
    contract: EffectContract,
    work: WorkState,
    decision: Decision,
    observed_at: datetime | None,
    now: datetime,
    *,
    clock_margin: timedelta,
) -> Transition:
    """Turn an operator's finding into a transition.

    Nobody has looked in the future. A finding of absence counts only if the target was
    looked at after every request had settled (design rule 6), and never against proof of
    commit that stands in the ledger. An unsafe effect goes again only where its contract
    says so; an expired key only under a new generation.

    Raises:
        DecisionRefused: the decision is not allowed, or not yet (`not_before`).
    """
    if work.status not in RESOLVABLE:
        raise DecisionRefused(f"An effect that is {work.status} cannot be resolved.")
    if observed_at is not None and observed_at > now + clock_margin:
        raise DecisionRefused("observed_at lies in the future of the ledger's clock.")
    if decision is Decision.COMMITTED:
        return transition(work, _E.RESOLVED_COMMITTED, _S.SUCCEEDED, reason="operator")
    _check_absence(work, observed_at, clock_margin)
    if decision is Decision.FAILED:
        return transition(
            work,
            _E.RESOLVED_FAILED,
            _S.FAILED_FINAL,
            reason="operator",
            unproven=0,
            proven_through=work.attempts,
            unknown=False,
            receipt=_failed("operator", ReceiptSource.OPERATOR),
        )
    return _requeue(contract, work, now, clock_margin)


def _check_absence(
    work: WorkState,
    observed_at: datetime | None,
    clock_margin: timedelta,
) -> None:
    if work.proof_committed:
        raise DecisionRefused(
            "The ledger holds proof that this effect committed; only 'committed' is open."
        )
    if work.attempts == 0:
        return
    if observed_at is None:
        raise DecisionRefused(
            "observed_at is required: the moment at which the target was looked at."
        )
    if work.settlement_at is not None and not settled(
        work, observed_at, clock_margin=clock_margin
    ):
        earliest = work.settlement_at + clock_margin + timedelta(milliseconds=1)
        raise DecisionRefused(
            "A request could still have been on its way when the target was looked at;"
            f" look again at {earliest.isoformat()} or later.",
            not_before=earliest,
        )


def _requeue(
    contract: EffectContract, work: WorkState, now: datetime, clock_margin: timedelta
) -> Transition:
    if (
        contract.safety is SafetyClass.UNSAFE
        and not contract.requeue_after_operator_proof
    ):
        raise DecisionRefused(
            "The contract does not permit a requeue (requeue_after_operator_proof)."
        )
    requeued = transition(
        work,
        _E.RESOLVED_NOT_COMMITTED,
        _S.PREPARED,
        reason="operator",
        delay=NO_WAIT,
        unproven=0,
        proven_through=work.attempts,
        probes=0,
        unknown=False,
        negative=False,
        fresh_deadline=contract.submit_deadline,
    )
    if not horizon_over(contract, work, now, clock_margin=clock_margin):
        return requeued
    if work.key_generation >= contract.key_generations:
        raise DecisionRefused(
            "The target has forgotten this effect's key and the contract allows no new"
            " one; resolve it as committed or failed."
        )
    return replace(requeued, key_generation=work.key_generation + 1, fresh_horizon=True)


def forbid_send(
    work: WorkState, refusal: SendRefusal, *, key_generations: int = 1
) -> Transition:
    """Say where a due effect goes that may not be sent.

    It failed for good only if every attempt is proven not committed and the target's
    scope is unchanged; else a person decides. So does one where only the key is over and
    the contract allows another (`key_generations`): not_committed starts that key, and so
    does whoever asks for reconciliation.
    """
    proven = work.unproven == 0 and not work.proof_committed
    renewable = (
        refusal is SendRefusal.HORIZON_OVER and work.key_generation < key_generations
    )
    if proven and not renewable and refusal is not SendRefusal.SCOPE_CHANGED:
        return transition(
            work,
            _E.SEND_FORBIDDEN,
            _S.FAILED_FINAL,
            reason=refusal,
            receipt=_failed(refusal, ReceiptSource.LEDGER),
        )
    return transition(work, _E.SEND_FORBIDDEN, _S.MANUAL_REVIEW, reason=refusal)


def request_reconciliation(
    contract: EffectContract, work: WorkState
) -> Transition | None:
    """Make an unknown or reviewed effect due now; None where asking changes nothing.

    An unsafe effect cannot be looked up: only evidence moves it.
    """
    if contract.safety is SafetyClass.UNSAFE or work.status not in RESOLVABLE:
        return None
    return transition(
        work,
        _E.RECONCILIATION_REQUESTED,
        _S.OUTCOME_UNKNOWN,
        reason="requested",
        delay=NO_WAIT,
        unknown=True,
    )


def _failed(reason: str, source: ReceiptSource) -> ReceiptDraft:
    return ReceiptDraft(kind=ReceiptKind.FAILED_FINAL, source=source, reason=reason)
