"""What each outcome leads to, for every class and every standing of earlier attempts."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import IllegalTransition
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    NotSent,
    Outcome,
    Rejected,
)
from effect_broker.domain.receipt import ReceiptKind
from effect_broker.domain.settle import after_outcome, recovery_delay
from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.domain.transition import PARKED, Transition
from tests.guarantees import guarantee
from tests.unit.domain.states import CLASSES, MARGIN, NOW, contract, seconds, work

S = EffectStatus
E = EventType


def after(
    outcome: Outcome, terms: EffectContract | None = None, **state: Any
) -> Transition:
    return after_outcome(
        terms or contract(),
        work("dispatching", **state),
        outcome,
        NOW,
        clock_margin=MARGIN,
    )


OUTCOMES: dict[str, Outcome] = {
    "committed": Committed("id"),
    "rejected": Rejected("r"),
    "rejected_final": Rejected("r", final=True),
    "not_executed": Rejected("r", not_executed=True),
    "not_sent": NotSent("r"),
    "ambiguous": Ambiguous("r"),
    "in_progress": Ambiguous("r", in_progress=True),
    "violated": Ambiguous("r", contract_violated=True),
}
ALONE = {
    "committed": (E.RECEIPT_RECORDED, S.SUCCEEDED),
    "rejected": (E.ATTEMPT_REJECTED, S.RETRYABLE),
    "rejected_final": (E.ATTEMPT_REJECTED, S.FAILED_FINAL),
    "not_executed": (E.ATTEMPT_NOT_EXECUTED, S.RETRYABLE),
    "not_sent": (E.ATTEMPT_NOT_SENT, S.RETRYABLE),
    "ambiguous": (E.OUTCOME_LOST, S.OUTCOME_UNKNOWN),
    "in_progress": (E.OUTCOME_LOST, S.OUTCOME_UNKNOWN),
    "violated": (E.CONTRACT_VIOLATED, S.MANUAL_REVIEW),
}
BESIDE_AN_UNPROVEN_ATTEMPT = ALONE | {
    "rejected": (E.ATTEMPT_REJECTED, S.OUTCOME_UNKNOWN),
    "rejected_final": (E.ATTEMPT_REJECTED, S.OUTCOME_UNKNOWN),
    "not_executed": (E.ATTEMPT_NOT_EXECUTED, S.OUTCOME_UNKNOWN),
    "not_sent": (E.ATTEMPT_NOT_SENT, S.OUTCOME_UNKNOWN),
}


@pytest.mark.parametrize("safety", CLASSES)
@pytest.mark.parametrize("name", OUTCOMES)
def test_outcome_of_the_only_unproven_attempt(safety: str, name: str) -> None:
    decided = after(OUTCOMES[name], contract(safety), attempts=3, proven_through=2)
    assert (decided.event, decided.new) == ALONE[name]


@guarantee("unproved-attempt-blocks-failure")
@pytest.mark.parametrize("safety", CLASSES)
@pytest.mark.parametrize("name", OUTCOMES)
@pytest.mark.parametrize("records", ["commits", "successes", "all_answers"])
def test_outcome_beside_an_earlier_unproven_attempt_never_means_failed(
    safety: str, name: str, records: str
) -> None:
    claims = {"key_records": records} if safety in {"idempotent", "reconcilable"} else {}
    terms = contract(safety, **claims)
    decided = after(OUTCOMES[name], terms, attempts=2, unproven=2)
    assert (decided.event, decided.new) == BESIDE_AN_UNPROVEN_ATTEMPT[name]
    assert decided.unknown or name == "committed"


@pytest.mark.parametrize("safety", CLASSES)
@pytest.mark.parametrize("name", OUTCOMES)
def test_outcome_against_standing_proof_of_commit_never_leads_on(
    safety: str, name: str
) -> None:
    decided = after(OUTCOMES[name], contract(safety), proof_committed=True)
    assert (decided.event, decided.new) == BESIDE_AN_UNPROVEN_ATTEMPT[name]


@guarantee("lost-answer-is-unknown")
@pytest.mark.parametrize("safety", CLASSES)
@pytest.mark.parametrize("unproven", [1, 2, 5])
@pytest.mark.parametrize("proof", [True, False])
@pytest.mark.parametrize("name", ["ambiguous", "in_progress", "violated"])
def test_ambiguity_keeps_every_attempt_unproven_and_listed(
    safety: str, unproven: int, proof: bool, name: str
) -> None:
    decided = after(
        OUTCOMES[name],
        contract(safety),
        attempts=unproven,
        unproven=unproven,
        proof_committed=proof,
        unknown_since=None,
    )
    assert decided.new in {S.OUTCOME_UNKNOWN, S.MANUAL_REVIEW}
    assert decided.unproven == unproven
    assert decided.unknown
    assert decided.receipt is None
    assert decided.rejections == 0
    assert decided.key_generation == 1


@pytest.mark.parametrize("name", ["rejected", "not_executed", "not_sent"])
def test_proof_about_the_open_attempt_counts_that_one_alone(name: str) -> None:
    decided = after(OUTCOMES[name], attempts=3, unproven=3, proven_through=0)
    assert (decided.unproven, decided.proven_through) == (2, 0)
    last = after(OUTCOMES[name], attempts=3, unproven=1, proven_through=2)
    assert (last.unproven, last.proven_through) == (0, 3)
    assert not last.unknown


def test_attempt_that_a_late_answer_already_proved_is_not_counted_twice() -> None:
    decided = after(Rejected("r"), attempts=2, unproven=0, proven_through=2)
    assert (decided.unproven, decided.proven_through) == (0, 2)


def test_answer_from_the_keys_own_record_speaks_for_every_attempt() -> None:
    kept = Rejected("declined", from_key_record=True)
    decided = after(kept, contract(key_records="all_answers"), attempts=3, unproven=3)
    assert decided.new is S.FAILED_FINAL
    assert (decided.unproven, decided.proven_through) == (0, 3)


@pytest.mark.parametrize("records", ["commits", "successes"])
def test_record_that_keeps_no_refusals_speaks_for_nothing(records: str) -> None:
    kept = Rejected("declined", from_key_record=True)
    decided = after(kept, contract(key_records=records), attempts=2, unproven=2)
    assert decided.new is S.OUTCOME_UNKNOWN
    assert decided.unproven == 1


def test_answer_from_in_front_of_the_record_speaks_for_its_attempt_alone() -> None:
    limited = Rejected("429", not_executed=True, from_key_record=True)
    decided = after(limited, contract(key_records="all_answers"), attempts=2, unproven=2)
    assert decided.new is S.OUTCOME_UNKNOWN
    assert decided.unproven == 1


def test_kept_rejection_is_final_without_further_generations() -> None:
    decided = after(
        Rejected("declined", from_key_record=True), contract(key_records="all_answers")
    )
    assert decided.new is S.FAILED_FINAL
    assert decided.receipt is not None
    assert decided.receipt.kind is ReceiptKind.FAILED_FINAL
    assert decided.receipt.reason == "declined"


def test_kept_rejection_is_retried_under_a_new_generation_where_allowed() -> None:
    terms = contract(key_records="all_answers", key_generations=2)
    kept = Rejected("declined", from_key_record=True)
    first = after(kept, terms)
    assert (first.new, first.key_generation) == (S.RETRYABLE, 2)
    assert first.fresh_horizon
    second = after(kept, terms, key_generation=2, rejections=1, attempts=2)
    assert second.new is S.FAILED_FINAL
    assert second.key_generation == 2


@guarantee("new-key-only-after-proof")
@pytest.mark.parametrize("safety", CLASSES)
@pytest.mark.parametrize("name", [n for n in OUTCOMES if not n.startswith("rejected")])
@pytest.mark.parametrize("unproven", [1, 2])
def test_no_new_generation_without_a_proven_rejection(
    safety: str, name: str, unproven: int
) -> None:
    claims: dict[str, Any] = {}
    if safety in {"idempotent", "reconcilable"}:
        claims = {"key_records": "all_answers", "key_generations": 9}
    decided = after(
        OUTCOMES[name], contract(safety, **claims), attempts=2, unproven=unproven
    )
    assert decided.key_generation == 1
    assert not decided.fresh_horizon
    assert decided.downstream_key is None


@pytest.mark.parametrize(
    ("rejections", "status"), [(0, S.RETRYABLE), (1, S.RETRYABLE), (2, S.FAILED_FINAL)]
)
def test_retry_limit_counts_rejections_that_may_be_retried(
    rejections: int, status: EffectStatus
) -> None:
    decided = after(Rejected("r"), contract(retry_limit=2), rejections=rejections)
    assert decided.new is status
    assert decided.rejections == rejections + 1


@pytest.mark.parametrize("name", ["not_executed", "not_sent", "ambiguous", "in_progress"])
def test_what_was_not_executed_uses_up_no_limit(name: str) -> None:
    decided = after(OUTCOMES[name], contract(retry_limit=0), rejections=0)
    assert decided.new is not S.FAILED_FINAL
    assert decided.rejections == 0


def test_unused_redispatch_is_given_back_and_only_the_wait_grows() -> None:
    terms = contract(key_records="commits")
    for name in ("in_progress", "not_sent", "not_executed"):
        decided = after(OUTCOMES[name], terms, attempts=2, unproven=2, redispatches=1)
        assert decided.redispatches == 0, name
        assert decided.retries == 1, name
    lost = after(OUTCOMES["ambiguous"], terms, attempts=2, unproven=2, redispatches=1)
    assert lost.redispatches == 1


def test_first_attempt_in_progress_takes_no_redispatch_below_zero() -> None:
    decided = after(OUTCOMES["in_progress"], contract(key_records="commits"))
    assert decided.redispatches == 0


def test_retry_waits_its_backoff_or_as_long_as_the_target_asks() -> None:
    asked = timedelta(minutes=3)
    assert after(Rejected("r"), retries=1).delay == seconds(2)
    assert after(Rejected("r", retry_after=asked)).delay == asked
    assert after(Rejected("r", not_executed=True, retry_after=asked)).delay == asked
    assert after(Rejected("r", retry_after=seconds(0.1))).delay == seconds(1)
    in_use = Ambiguous("409", in_progress=True, retry_after=asked)
    assert after(in_use, contract(key_records="commits")).delay == asked


def test_retry_after_does_not_wake_what_waits_for_a_person() -> None:
    lost = Ambiguous("503", retry_after=seconds(5))
    assert after(lost, contract("unsafe")).delay is PARKED


@pytest.mark.parametrize("name", [n for n in OUTCOMES if n != "violated"])
def test_unsafe_effect_is_due_again_only_when_nothing_was_sent(name: str) -> None:
    decided = after(OUTCOMES[name], contract("unsafe"))
    if decided.new is S.RETRYABLE:
        assert decided.unproven == 0
    if decided.new is S.OUTCOME_UNKNOWN:
        assert decided.delay is PARKED


def test_only_a_proven_failure_carries_a_receipt_of_failure() -> None:
    for name, unproven in product(OUTCOMES, (1, 2)):
        decided = after(OUTCOMES[name], attempts=unproven, unproven=unproven)
        assert (decided.receipt is not None) == (decided.new is S.FAILED_FINAL)


@pytest.mark.parametrize("status", [s for s in S if s is not S.DISPATCHING])
@pytest.mark.parametrize("name", ["ambiguous", "rejected_final"])
def test_outcome_outside_a_dispatch_is_a_defect(status: EffectStatus, name: str) -> None:
    if status is S.RECONCILING and name == "rejected_final":
        return
    with pytest.raises(IllegalTransition):
        after_outcome(contract(), work(status), OUTCOMES[name], NOW, clock_margin=MARGIN)


DELAYS: list[tuple[EffectContract, dict[str, Any], timedelta | None]] = [
    (contract("transactional"), {}, seconds(0)),
    (contract("unsafe"), {}, PARKED),
    (contract("unsafe"), {"proof_committed": True}, seconds(0)),
    (contract(key_records="commits"), {}, seconds(1)),
    (contract(key_records="commits"), {"redispatches": 1, "retries": 1}, seconds(4)),
    (contract("reconcilable"), {}, seconds(1)),
    (contract("reconcilable"), {"probes": 2}, seconds(4)),
    (
        contract("reconcilable"),
        {"probes": 9, "settlement_at": NOW + seconds(1)},
        seconds(2.001),
    ),
    (
        contract("reconcilable"),
        {"probes": 0, "settlement_at": NOW + seconds(30)},
        seconds(1),
    ),
]


@pytest.mark.parametrize(("terms", "state", "wait"), DELAYS)
def test_recovery_is_due_when_it_could_learn_something(
    terms: EffectContract, state: dict[str, Any], wait: timedelta | None
) -> None:
    unknown = work("dispatching", **state)
    assert recovery_delay(terms, unknown, NOW, clock_margin=MARGIN) == wait
