"""What a person may decide, from which status, when, and against which evidence."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import DecisionRefused
from effect_broker.domain.receipt import ReceiptKind, ReceiptSource
from effect_broker.domain.resolution import (
    Decision,
    SendRefusal,
    forbid_send,
    request_reconciliation,
    resolve,
)
from effect_broker.domain.status import RESOLVABLE, EffectStatus, EventType
from effect_broker.domain.transition import Transition
from tests.guarantees import guarantee
from tests.unit.domain.states import CLASSES, MARGIN, NOW, contract, seconds, work

S = EffectStatus
E = EventType
EXPECTED = {
    Decision.COMMITTED: (E.RESOLVED_COMMITTED, S.SUCCEEDED),
    Decision.NOT_COMMITTED: (E.RESOLVED_NOT_COMMITTED, S.PREPARED),
    Decision.FAILED: (E.RESOLVED_FAILED, S.FAILED_FINAL),
}
ABSENCE = (Decision.NOT_COMMITTED, Decision.FAILED)
both_statuses = pytest.mark.parametrize("status", sorted(RESOLVABLE))


def decided(
    decision: Decision,
    terms: EffectContract | None = None,
    *,
    status: EffectStatus = S.OUTCOME_UNKNOWN,
    observed_at: datetime | None = NOW,
    **state: Any,
) -> Transition:
    return resolve(
        terms or contract(),
        work(status, **state),
        decision,
        observed_at,
        NOW,
        clock_margin=MARGIN,
    )


@both_statuses
@pytest.mark.parametrize("decision", Decision)
@pytest.mark.parametrize("safety", CLASSES)
def test_decision_leads_where_the_table_says(
    status: EffectStatus, decision: Decision, safety: str
) -> None:
    terms = contract(safety, requeue_after_operator_proof=True)
    found = decided(decision, terms, status=status)
    assert (found.event, found.new) == EXPECTED[decision]


@pytest.mark.parametrize("status", sorted(set(S) - RESOLVABLE))
@pytest.mark.parametrize("decision", Decision)
def test_nothing_else_can_be_resolved(status: EffectStatus, decision: Decision) -> None:
    with pytest.raises(DecisionRefused):
        decided(decision, status=status)


@guarantee("operator-evidence-is-dated")
@pytest.mark.parametrize("decision", ABSENCE)
@pytest.mark.parametrize("safety", ["idempotent", "reconcilable", "unsafe"])
def test_absence_seen_too_early_is_refused_with_the_earliest_useful_instant(
    decision: Decision, safety: str
) -> None:
    terms = contract(safety, requeue_after_operator_proof=True)
    settlement = NOW - seconds(10)
    for early in (settlement - seconds(60), settlement, settlement + MARGIN):
        with pytest.raises(DecisionRefused) as refused:
            decided(decision, terms, observed_at=early, settlement_at=settlement)
        not_before = refused.value.not_before
        assert not_before is not None
        assert not_before > settlement + MARGIN
        found = decided(decision, terms, observed_at=not_before, settlement_at=settlement)
        assert found.event is EXPECTED[decision][0]


@pytest.mark.parametrize("decision", ABSENCE)
def test_absence_needs_the_moment_of_looking(decision: Decision) -> None:
    with pytest.raises(DecisionRefused, match="observed_at"):
        decided(decision, observed_at=None)


@pytest.mark.parametrize("decision", ABSENCE)
def test_looking_happens_before_deciding(decision: Decision) -> None:
    found = decided(decision, observed_at=NOW + MARGIN)
    assert found.new is EXPECTED[decision][1]
    with pytest.raises(DecisionRefused, match="future"):
        decided(decision, observed_at=NOW + MARGIN + timedelta(milliseconds=1))


@pytest.mark.parametrize("decision", ABSENCE)
@both_statuses
def test_standing_proof_of_commit_forbids_every_contrary_decision(
    decision: Decision, status: EffectStatus
) -> None:
    with pytest.raises(DecisionRefused, match="proof"):
        decided(decision, status=status, proof_committed=True)
    found = decided(Decision.COMMITTED, status=status, proof_committed=True)
    assert found.new is S.SUCCEEDED


def test_commit_may_be_found_at_any_time() -> None:
    early = decided(
        Decision.COMMITTED, observed_at=None, settlement_at=NOW + seconds(100)
    )
    assert early.new is S.SUCCEEDED


@guarantee("unsafe-at-most-once")
def test_what_was_never_sent_needs_no_look() -> None:
    found = decided(
        Decision.FAILED,
        status=S.MANUAL_REVIEW,
        observed_at=None,
        attempts=0,
        unproven=0,
        settlement_at=None,
    )
    assert found.new is S.FAILED_FINAL


def test_unsafe_effect_goes_again_only_where_its_contract_says_so() -> None:
    with pytest.raises(DecisionRefused, match="requeue_after_operator_proof"):
        decided(Decision.NOT_COMMITTED, contract("unsafe"))
    permitted = contract("unsafe", requeue_after_operator_proof=True)
    assert decided(Decision.NOT_COMMITTED, permitted).new is S.PREPARED


def test_requeue_proves_every_attempt_and_starts_its_deadline_anew() -> None:
    found = decided(Decision.NOT_COMMITTED, attempts=3, unproven=2, probes=7)
    assert (found.unproven, found.proven_through) == (0, 3)
    assert not found.unknown
    assert not found.negative
    assert found.probes == 0
    assert found.fresh_deadline == timedelta(hours=1)
    assert found.key_generation == 1


def test_forgotten_key_is_requeued_only_under_a_new_generation() -> None:
    over: dict[str, Any] = {"horizon_at": NOW + seconds(40)}
    with pytest.raises(DecisionRefused, match="forgotten"):
        decided(Decision.NOT_COMMITTED, **over)
    terms = contract(key_records="all_answers", key_generations=2)
    found = decided(Decision.NOT_COMMITTED, terms, **over)
    assert found.key_generation == 2
    assert found.fresh_horizon
    with pytest.raises(DecisionRefused, match="forgotten"):
        decided(Decision.NOT_COMMITTED, terms, key_generation=2, **over)


def test_failure_for_good_has_a_receipt_that_names_the_operator() -> None:
    receipt = decided(Decision.FAILED).receipt
    assert receipt is not None
    assert receipt.kind is ReceiptKind.FAILED_FINAL
    assert receipt.source is ReceiptSource.OPERATOR


@pytest.mark.parametrize("refusal", SendRefusal)
@pytest.mark.parametrize("status", [S.PREPARED, S.RETRYABLE])
@pytest.mark.parametrize("unproven", [0, 1])
@pytest.mark.parametrize("proof", [True, False])
def test_forbidden_send_fails_for_good_only_if_all_is_proven_and_scope_unchanged(
    refusal: SendRefusal, status: EffectStatus, unproven: int, proof: bool
) -> None:
    found = forbid_send(work(status, unproven=unproven, proof_committed=proof), refusal)
    sure = unproven == 0 and not proof and refusal is not SendRefusal.SCOPE_CHANGED
    assert found.event is E.SEND_FORBIDDEN
    assert found.new is (S.FAILED_FINAL if sure else S.MANUAL_REVIEW)
    assert found.reason == refusal
    assert (found.receipt is not None) is sure


def test_key_that_is_over_is_a_persons_matter_where_another_is_allowed() -> None:
    proven = work(S.RETRYABLE, unproven=0)
    over = SendRefusal.HORIZON_OVER
    assert forbid_send(proven, over, key_generations=1).new is S.FAILED_FINAL
    assert forbid_send(proven, over, key_generations=2).new is S.MANUAL_REVIEW
    used_up = replace(proven, key_generation=2)
    assert forbid_send(used_up, over, key_generations=2).new is S.FAILED_FINAL
    late = SendRefusal.SUBMIT_DEADLINE
    assert forbid_send(proven, late, key_generations=2).new is S.FAILED_FINAL


def test_forbidden_send_keeps_an_unproven_effect_listed() -> None:
    assert forbid_send(work(S.PREPARED), SendRefusal.HORIZON_OVER).unknown


def test_reconciliation_can_be_asked_for_but_not_of_an_unsafe_effect() -> None:
    for safety, status in product(CLASSES, S):
        asked = request_reconciliation(contract(safety), work(status))
        if safety == "unsafe" or status not in RESOLVABLE:
            assert asked is None
        else:
            assert asked is not None
            assert asked.new is S.OUTCOME_UNKNOWN
            assert asked.delay == timedelta(0)
            assert asked.unknown


def test_asking_never_permits_a_send_by_itself() -> None:
    asked = request_reconciliation(contract(), work(S.MANUAL_REVIEW, unproven=2))
    assert asked is not None
    assert asked.unproven == 2
    assert asked.redispatches == 0
