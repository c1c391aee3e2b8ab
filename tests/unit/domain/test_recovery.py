"""What ambiguity permits, for every class, claim and standing; what a lookup proves."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from effect_broker.domain.attempt import EndingKind
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.outcome import ProbeResult, ProbeStatus
from effect_broker.domain.recovery import (
    ProbeFirst,
    Recovery,
    TakeProof,
    after_probe,
    permitted_recovery,
    proof_of_commit,
)
from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.domain.transition import PARKED, Transition
from tests.guarantees import guarantee
from tests.unit.domain.states import (
    CLASSES,
    MARGIN,
    NOW,
    attempt,
    contract,
    seconds,
    work,
)

S = EffectStatus
E = EventType
STRONG, EVENTUAL = {"consistency": "strong"}, {"consistency": "eventual"}


def recovery(
    terms: EffectContract, *endings: EndingKind | None, **state: Any
) -> Recovery:
    attempts = [attempt(n, kind) for n, kind in enumerate(endings or (None,), 1)]
    return permitted_recovery(
        terms, work("reconciling", **state), attempts, NOW, clock_margin=MARGIN
    )


def arrow(decided: Recovery) -> tuple[EventType, EffectStatus, str]:
    assert isinstance(decided, Transition)
    return decided.event, decided.new, decided.reason


def probed(
    status: ProbeStatus, terms: EffectContract, asked_at: Any = NOW, **state: Any
) -> Transition:
    return after_probe(
        terms,
        work("reconciling", **state),
        ProbeResult(status),
        asked_at,
        clock_margin=MARGIN,
    )


REDISPATCH = (E.REDISPATCH_PERMITTED, S.PREPARED)
EXHAUSTED = (E.RECONCILIATION_EXHAUSTED, S.MANUAL_REVIEW)
INCONCLUSIVE = (E.PROBE_INCONCLUSIVE, S.OUTCOME_UNKNOWN)
OVER: dict[str, Any] = {"horizon_at": NOW + seconds(40)}
USED_UP: dict[str, Any] = {"redispatches": 3}
STANDINGS: list[dict[str, Any]] = [{}, OVER, USED_UP]

DECISIONS: list[tuple[str, EffectContract, dict[str, Any], Any]] = [
    (
        "transactional asks its own ledger",
        contract("transactional"),
        {},
        (*REDISPATCH, "no_receipt_under_the_row_lock"),
    ),
    (
        "transactional that loses every worker goes to a person",
        contract("transactional"),
        USED_UP,
        (*EXHAUSTED, "redispatch_limit"),
    ),
    (
        "unsafe waits for a person",
        contract("unsafe"),
        {},
        (*INCONCLUSIVE, "evidence_proves_nothing"),
    ),
    (
        "unsafe is not looked up even where a lookup is declared",
        contract("unsafe", probe=STRONG),
        {},
        (*INCONCLUSIVE, "evidence_proves_nothing"),
    ),
    (
        "unsafe never ages into review",
        contract("unsafe"),
        {"unknown_since": NOW - timedelta(days=30)},
        (*INCONCLUSIVE, "evidence_proves_nothing"),
    ),
    *(
        (
            f"the key may be sent again where {records} are kept",
            contract(key_records=records),
            {},
            (*REDISPATCH, "same_key_inside_its_horizon"),
        )
        for records in ("all_answers", "commits")
    ),
    *(
        (
            f"the key is not sent after its horizon where {records} are kept",
            contract(key_records=records),
            OVER,
            (*EXHAUSTED, "horizon_over"),
        )
        for records in ("all_answers", "commits", "successes")
    ),
    (
        "the lookup is asked after the horizon",
        contract(key_records="commits", probe=STRONG),
        OVER,
        ProbeFirst(),
    ),
    (
        "redispatches are counted",
        contract(key_records="commits"),
        USED_UP,
        (*EXHAUSTED, "redispatch_limit"),
    ),
    (
        "the lookup is asked once redispatches are used up",
        contract(key_records="commits", probe=EVENTUAL),
        USED_UP,
        ProbeFirst(),
    ),
    (
        "a hidden commit is not risked where only successes are kept",
        contract(key_records="successes"),
        {},
        (*EXHAUSTED, "no_lookup"),
    ),
    (
        "where only successes are kept the lookup comes first",
        contract(key_records="successes", probe=STRONG),
        {},
        ProbeFirst(),
    ),
    ("reconcilable asks", contract("reconcilable"), {}, ProbeFirst()),
    (
        "reconcilable asks whatever is claimed about its key",
        contract("reconcilable", key_records="commits"),
        {},
        ProbeFirst(),
    ),
    (
        "reconcilable asks also when redispatches are used up",
        contract("reconcilable"),
        USED_UP,
        ProbeFirst(),
    ),
    (
        "a key that goes on losing its answers ends in review",
        contract(key_records="commits"),
        {"unknown_since": NOW - timedelta(hours=25), "retries": 5},
        (*EXHAUSTED, "unknown_review_after"),
    ),
    (
        "an effect that nobody looked after is tried once before review",
        contract(key_records="commits"),
        {"unknown_since": NOW - timedelta(hours=23, minutes=30)},
        (*REDISPATCH, "same_key_inside_its_horizon"),
    ),
]


@guarantee(
    "idempotent-inside-horizon", "reconcilable-probes-first", "unsafe-at-most-once"
)
@pytest.mark.parametrize(
    ("terms", "state", "expected"),
    [pytest.param(*row[1:], id=row[0]) for row in DECISIONS],
)
def test_what_ambiguity_permits(
    terms: EffectContract, state: dict[str, Any], expected: Any
) -> None:
    decided = recovery(terms, **state)
    if isinstance(expected, tuple):
        assert arrow(decided) == expected
    else:
        assert decided == expected


@pytest.mark.parametrize("safety", CLASSES)
@pytest.mark.parametrize("state", [{}, OVER, USED_UP, {"unproven": 0}], ids=repr)
def test_stored_proof_of_commit_wins_in_every_class(
    safety: str, state: dict[str, Any]
) -> None:
    decided = recovery(
        contract(safety),
        EndingKind.REJECTED,
        EndingKind.COMMITTED,
        None,
        proof_committed=True,
        **state,
    )
    assert isinstance(decided, TakeProof)
    assert decided.ending.kind is EndingKind.COMMITTED


def test_earliest_proof_is_taken_where_several_stand() -> None:
    attempts = [
        attempt(1, EndingKind.COMMITTED, external_id="first"),
        attempt(2, EndingKind.COMMITTED, external_id="second"),
    ]
    assert proof_of_commit(attempts).external_id == "first"


@guarantee("new-key-only-after-proof")
def test_same_key_redispatch_proves_nothing_and_stays_listed() -> None:
    decided = recovery(contract(key_records="commits"), attempts=2, unproven=2)
    assert isinstance(decided, Transition)
    assert (decided.unproven, decided.proven_through) == (2, 0)
    assert decided.unknown
    assert decided.redispatches == 1
    assert decided.key_generation == 1
    assert not decided.fresh_horizon


def test_generation_is_never_minted_out_of_ambiguity() -> None:
    for safety, records, state in product(
        ("idempotent", "reconcilable"),
        ("all_answers", "commits"),
        STANDINGS,
    ):
        terms = contract(safety, key_records=records, key_generations=9, probe=STRONG)
        decided = recovery(terms, **state)
        if isinstance(decided, Transition):
            assert decided.key_generation == 1
            assert not decided.fresh_horizon


@pytest.mark.parametrize(
    ("kind", "event", "status"),
    [
        (EndingKind.REJECTED, E.ATTEMPT_REJECTED, S.RETRYABLE),
        (EndingKind.NOT_EXECUTED, E.ATTEMPT_NOT_EXECUTED, S.RETRYABLE),
        (EndingKind.NOT_SENT, E.ATTEMPT_NOT_SENT, S.RETRYABLE),
    ],
)
@pytest.mark.parametrize("safety", CLASSES)
def test_late_proof_about_every_attempt_leads_on(
    safety: str, kind: EndingKind, event: EventType, status: EffectStatus
) -> None:
    decided = recovery(
        contract(safety), EndingKind.NOT_SENT, kind, attempts=2, unproven=0
    )
    assert isinstance(decided, Transition)
    assert (decided.event, decided.new) == (event, status)
    assert not decided.unknown


def test_late_final_rejection_is_final() -> None:
    decided = permitted_recovery(
        contract("unsafe"),
        work("reconciling", unproven=0),
        [attempt(1, EndingKind.REJECTED, final=True)],
        NOW,
        clock_margin=MARGIN,
    )
    assert isinstance(decided, Transition)
    assert decided.new is S.FAILED_FINAL
    assert decided.receipt is not None


@pytest.mark.parametrize(
    ("records", "status"), [("all_answers", S.FAILED_FINAL), ("commits", S.RETRYABLE)]
)
def test_late_rejection_from_the_record_is_judged_as_one_in_time(
    records: str, status: EffectStatus
) -> None:
    decided = permitted_recovery(
        contract(key_records=records),
        work("reconciling", attempts=2, unproven=0),
        [attempt(1, EndingKind.REJECTED, from_key_record=True), attempt(2)],
        NOW,
        clock_margin=MARGIN,
    )
    assert isinstance(decided, Transition)
    assert (decided.event, decided.new) == (E.ATTEMPT_REJECTED, status)


@pytest.mark.parametrize("last", [None, EndingKind.AMBIGUOUS])
def test_attempt_that_was_spoken_for_does_not_hide_the_rejection(
    last: EndingKind | None,
) -> None:
    decided = recovery(
        contract("reconcilable"), EndingKind.REJECTED, last, attempts=2, unproven=0
    )
    assert arrow(decided)[0] is E.ATTEMPT_REJECTED


PRESENCE_PROVES: list[tuple[EffectContract, dict[str, Any]]] = [
    (contract("reconcilable"), {"settlement_at": NOW + seconds(100)}),
    (contract("reconcilable", probe=EVENTUAL), {}),
    (contract("reconcilable", probe_gap="60s"), {}),
    (contract(key_records="successes", probe=EVENTUAL), OVER),
    (contract(key_records="commits", probe=STRONG), USED_UP),
]


@pytest.mark.parametrize(("terms", "state"), PRESENCE_PROVES)
def test_presence_is_believed_at_any_time(
    terms: EffectContract, state: dict[str, Any]
) -> None:
    decided = probed(ProbeStatus.COMMITTED, terms, **state)
    assert (decided.event, decided.new) == (E.RECEIPT_RECORDED, S.SUCCEEDED)


@guarantee("negative-waits-for-settlement")
@pytest.mark.parametrize(
    ("asked_after_settlement", "expected"),
    [
        (-seconds(1), INCONCLUSIVE),
        (seconds(0), INCONCLUSIVE),
        (MARGIN, INCONCLUSIVE),
        (MARGIN + timedelta(milliseconds=1), REDISPATCH),
        (seconds(2), REDISPATCH),
    ],
)
def test_absence_is_believed_only_after_the_bound_and_the_margin(
    asked_after_settlement: timedelta, expected: tuple[EventType, EffectStatus]
) -> None:
    decided = probed(
        ProbeStatus.NOT_COMMITTED,
        contract("reconcilable"),
        settlement_at=NOW - asked_after_settlement,
    )
    assert (decided.event, decided.new) == expected


@guarantee("weak-lookup-proves-nothing")
@pytest.mark.parametrize("age", [timedelta(minutes=5), timedelta(days=365)])
def test_lagging_lookup_never_permits_a_requeue(age: timedelta) -> None:
    decided = probed(
        ProbeStatus.NOT_COMMITTED,
        contract("reconcilable", probe=EVENTUAL),
        settlement_at=NOW - age,
        unknown_since=NOW - seconds(10),
    )
    assert (decided.event, decided.new) == INCONCLUSIVE
    assert decided.reason == "lookup_proves_presence_only"
    assert decided.unproven == 1


@pytest.mark.parametrize("status", [ProbeStatus.UNKNOWN, ProbeStatus.NOT_COMMITTED])
@pytest.mark.parametrize("age_hours", [23, 25])
def test_inconclusive_effect_goes_to_a_person_at_the_review_age(
    status: ProbeStatus, age_hours: int
) -> None:
    decided = probed(
        status,
        contract("reconcilable", probe=EVENTUAL),
        unknown_since=NOW - timedelta(hours=age_hours),
    )
    expected = EXHAUSTED if age_hours > 24 else INCONCLUSIVE
    assert (decided.event, decided.new) == expected
    assert decided.unknown


def test_silence_of_the_lookup_is_no_absence() -> None:
    decided = probed(ProbeStatus.UNKNOWN, contract("reconcilable"))
    assert (decided.event, decided.new) == INCONCLUSIVE
    assert decided.probes == 1
    assert not decided.negative


def test_early_negative_is_asked_again_as_soon_as_it_can_be_believed() -> None:
    decided = probed(
        ProbeStatus.NOT_COMMITTED,
        contract("reconcilable"),
        probes=9,
        settlement_at=NOW + seconds(3),
    )
    assert decided.delay == seconds(4.001)


def test_second_look_a_gap_later_where_the_target_deserves_it() -> None:
    terms = contract("reconcilable", probe_gap="60s")
    first = probed(ProbeStatus.NOT_COMMITTED, terms)
    assert (first.event, first.new) == INCONCLUSIVE
    assert first.negative
    assert first.delay == seconds(60)
    early = probed(ProbeStatus.NOT_COMMITTED, terms, negative_at=NOW - seconds(59))
    assert (early.event, early.new) == INCONCLUSIVE
    assert early.delay == seconds(1)
    second = probed(ProbeStatus.NOT_COMMITTED, terms, negative_at=NOW - seconds(60))
    assert (second.event, second.new) == REDISPATCH
    assert not second.negative


def test_believed_absence_proves_every_attempt_and_keeps_the_key() -> None:
    decided = probed(
        ProbeStatus.NOT_COMMITTED, contract("reconcilable"), attempts=3, unproven=2
    )
    assert (decided.unproven, decided.proven_through) == (0, 3)
    assert not decided.unknown
    assert decided.redispatches == 1
    assert decided.probes == 0
    assert decided.key_generation == 1
    assert decided.fresh_deadline == timedelta(hours=1)


def test_believed_absence_after_the_horizon_needs_another_generation() -> None:
    one = contract(key_records="commits", probe=STRONG)
    assert probed(ProbeStatus.NOT_COMMITTED, one, **OVER).reason == "horizon_over"
    two = contract(key_records="commits", probe=STRONG, key_generations=2)
    renewed = probed(ProbeStatus.NOT_COMMITTED, two, **OVER)
    assert (renewed.event, renewed.new) == REDISPATCH
    assert renewed.key_generation == 2
    assert renewed.fresh_horizon
    again = probed(ProbeStatus.NOT_COMMITTED, two, key_generation=2, **OVER)
    assert (again.event, again.new) == EXHAUSTED


@guarantee("new-key-only-after-proof")
@pytest.mark.parametrize("kind", [EndingKind.NOT_SENT, EndingKind.NOT_EXECUTED])
def test_proven_effect_whose_key_is_over_goes_on_under_another_generation(
    kind: EndingKind,
) -> None:
    proven: dict[str, Any] = {"unproven": 0, "proven_through": 1}
    two = contract(key_records="all_answers", key_generations=2)
    renewed = recovery(two, kind, **proven, **OVER)
    assert isinstance(renewed, Transition)
    assert (renewed.new, renewed.key_generation) == (S.RETRYABLE, 2)
    assert renewed.fresh_horizon
    for terms, state in (
        (two, proven),
        (two, proven | OVER | {"key_generation": 2}),
        (contract(key_records="all_answers"), proven | OVER),
    ):
        kept = recovery(terms, kind, **state)
        assert isinstance(kept, Transition)
        assert kept.key_generation == state.get("key_generation", 1)
        assert not kept.fresh_horizon


def test_redispatch_limit_holds_also_after_believed_absence() -> None:
    decided = probed(ProbeStatus.NOT_COMMITTED, contract("reconcilable"), **USED_UP)
    assert (decided.event, decided.new) == EXHAUSTED


@pytest.mark.parametrize("safety", CLASSES)
@pytest.mark.parametrize("unproven", [1, 2])
@pytest.mark.parametrize("state", STANDINGS, ids=repr)
def test_recovery_alone_never_ends_in_failure(
    safety: str, unproven: int, state: dict[str, Any]
) -> None:
    decided = recovery(contract(safety), attempts=2, unproven=unproven, **state)
    if isinstance(decided, Transition):
        assert decided.new is not S.FAILED_FINAL
        assert decided.receipt is None


def test_unsafe_effect_is_parked_again_after_evidence_that_proves_nothing() -> None:
    decided = recovery(contract("unsafe"), EndingKind.AMBIGUOUS)
    assert isinstance(decided, Transition)
    assert decided.delay is PARKED
    assert decided.unproven == 1
