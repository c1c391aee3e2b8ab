from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from effect_broker.domain.attempt import EndingKind
from effect_broker.ledger.chain import first_break
from effect_broker.ports import StepResult, StepStatus
from tests.conformance.ledgers import (
    E,
    S,
    Store,
    committed,
    contract,
    ending,
    failed,
    lost,
    retryable,
    step,
    succeeded,
)
from tests.guarantees import guarantee

ABSENT = (EndingKind.REJECTED, EndingKind.NOT_EXECUTED, EndingKind.NOT_SENT)


async def late(store: Store, claim, kind: EndingKind, **changes) -> StepResult:  # type: ignore[no-untyped-def]
    """Write what a fenced sender learned at last, as its dispatcher would."""
    speaks = changes.pop("speaks_for_all", False)
    learned = committed() if kind is EndingKind.COMMITTED else ending(kind, **changes)
    written = lost(claim, speaks_for_all=speaks)
    arrow = replace(written.transition, ending=learned)
    (result,) = await store.ledger.record([replace(written, transition=arrow)])
    return result


@guarantee("fenced-answer-is-evidence")
async def test_a_fenced_answer_is_kept_and_makes_the_effect_due(store: Store) -> None:
    claim = await store.dispatching()
    await store.lapse(claim)
    held = await store.requested(claim.work.effect_id)
    await store.ledger.record(
        [step(held, E.PROBE_INCONCLUSIVE, S.OUTCOME_UNKNOWN, delay=timedelta(hours=9))]
    )
    before = await store.work(claim.work.effect_id)
    result = await late(store, claim, EndingKind.AMBIGUOUS)
    assert (result.status, result.late_recorded) == (StepStatus.FENCED, True)
    work = await store.work(claim.work.effect_id)
    assert work.version == before.version + 1 == result.version
    assert before.due_at is not None
    assert work.due_at is not None
    assert work.due_at < before.due_at
    assert (work.status, work.unproven) == (S.OUTCOME_UNKNOWN, 1)
    (attempt,) = await store.ledger.attempts(store.tenant_id, claim.work.effect_id)
    assert attempt.late
    events = await store.ledger.events(store.tenant_id, claim.work.effect_id)
    assert events[-1].type is E.EVIDENCE_RECORDED
    assert events[-1].metadata == {"kind": "ambiguous", "ordinal": 1}
    assert first_break(events) is None


async def test_the_same_late_answer_twice_is_one(store: Store) -> None:
    claim = await store.dispatching()
    await store.lapse(claim)
    first = await late(store, claim, EndingKind.COMMITTED)
    second = await late(store, claim, EndingKind.COMMITTED)
    assert first == second
    assert (await store.work(claim.work.effect_id)).version == 4


@guarantee("proof-of-commit-blocks")
async def test_late_proof_of_commit_blocks_every_further_attempt(store: Store) -> None:
    claim = await store.dispatching()
    await store.lapse(claim)
    held = await store.reconciling(claim.work.effect_id)
    permitted = step(
        held,
        E.REDISPATCH_PERMITTED,
        S.PREPARED,
        delay=timedelta(0),
        unproven=0,
        proven_through=1,
        redispatches=1,
        unknown=False,
    )
    await store.ledger.record([permitted])
    await late(store, claim, EndingKind.COMMITTED)
    work = await store.work(claim.work.effect_id)
    assert (work.status, work.proof_committed) == (S.PREPARED, True)
    assert (await store.claims()).claims == []
    assert (await store.claims()).refused == []
    named = await store.ledger.claim(store.order(claim.work.effect_id))
    assert named.claims == []
    proven = await store.reconciling(claim.work.effect_id)
    assert proven.work == work
    (result,) = await store.ledger.record([succeeded(proven)])
    assert result.status is StepStatus.APPLIED
    assert await store.status(claim.work.effect_id) is S.SUCCEEDED


@guarantee("proof-of-commit-blocks")
async def test_the_open_attempt_must_use_the_proof_that_came_meanwhile(
    store: Store,
) -> None:
    first = await store.dispatching()
    effect_id = first.work.effect_id
    await store.lapse(first)
    held = await store.reconciling(effect_id)
    await store.ledger.record(
        [
            step(
                held,
                E.REDISPATCH_PERMITTED,
                S.PREPARED,
                delay=timedelta(0),
                redispatches=1,
                unknown=True,
            )
        ]
    )
    second = await store.claim(effect_id)
    assert second.work.unproven == 2
    await late(store, first, EndingKind.COMMITTED)
    for refusal in (retryable(second), failed(second)):
        (stale,) = await store.ledger.record([refusal])
        assert stale.status is StepStatus.STALE
        assert stale.work is not None
        assert stale.now is not None
        assert stale.work.proof_committed
        assert stale.work.status is S.DISPATCHING
        (stands,) = await store.ledger.record([replace(refusal, version=stale.version)])
        assert stands.status is StepStatus.PROOF_STANDS
        assert stands.work == stale.work
    (applied,) = await store.ledger.record([replace(lost(second), version=stale.version)])
    assert applied.status is StepStatus.APPLIED
    work = await store.work(effect_id)
    assert work.proof_committed
    assert (await store.reconciling(effect_id)).work.status is S.RECONCILING


@pytest.mark.parametrize("kind", ABSENT)
async def test_late_proof_of_absence_is_counted_for_its_attempt(
    store: Store, kind: EndingKind
) -> None:
    claim = await store.dispatching()
    await store.lapse(claim)
    await late(store, claim, kind)
    work = await store.work(claim.work.effect_id)
    assert (work.unproven, work.proven_through, work.proof_committed) == (0, 1, False)


async def test_a_late_answer_from_the_keys_record_speaks_for_every_attempt(
    store: Store,
) -> None:
    first, _ = await _two_unproven(store)
    result = await late(store, first, EndingKind.REJECTED, speaks_for_all=True)
    assert result.late_recorded
    work = await store.work(first.work.effect_id)
    assert (work.unproven, work.proven_through) == (0, 2)


async def test_a_late_answer_alone_speaks_for_its_own_attempt(store: Store) -> None:
    first, second = await _two_unproven(store)
    await late(store, first, EndingKind.REJECTED)
    work = await store.work(first.work.effect_id)
    assert (work.unproven, work.proven_through) == (1, 0)
    await late(store, second, EndingKind.NOT_SENT)
    work = await store.work(first.work.effect_id)
    assert (work.unproven, work.proven_through) == (0, 2)


async def test_the_open_attempt_stays_unproven_whatever_the_record_says(
    store: Store,
) -> None:
    first = await store.dispatching()
    await store.lapse(first)
    await _redispatch(store, first.work.effect_id)
    second = await store.claim(first.work.effect_id)
    await late(store, first, EndingKind.REJECTED, speaks_for_all=True)
    work = await store.work(first.work.effect_id)
    assert (work.status, work.unproven, work.proven_through) == (S.DISPATCHING, 1, 1)
    assert await store.ledger.renew(
        second.token, [work.effect_id], timedelta(seconds=1)
    ) == {work.effect_id}


async def test_proof_about_an_attempt_already_proven_changes_no_count(
    store: Store,
) -> None:
    claim = await store.dispatching()
    await store.lapse(claim)
    held = await store.reconciling(claim.work.effect_id)
    await store.ledger.record(
        [
            step(
                held,
                E.REDISPATCH_PERMITTED,
                S.PREPARED,
                delay=timedelta(hours=1),
                unproven=0,
                proven_through=1,
                redispatches=1,
                unknown=False,
            )
        ]
    )
    before = await store.work(claim.work.effect_id)
    await late(store, claim, EndingKind.REJECTED)
    after = await store.work(claim.work.effect_id)
    assert after == replace(before, version=before.version + 1)


@guarantee("unsafe-at-most-once")
async def test_an_unsafe_effect_moves_by_proof_alone(store: Store) -> None:
    await store.open(contract("unsafe", name="wire"))
    vague, proven = await store.dispatching(), await store.dispatching()
    await store.lapse(vague)
    await late(store, vague, EndingKind.AMBIGUOUS)
    assert (await store.work(vague.work.effect_id)).due_at is None
    await late(store, proven, EndingKind.NOT_SENT)
    assert (await store.work(proven.work.effect_id)).due_at is not None
    claimed = await store.ledger.claim_reconciliation(store.order())
    assert [claim.work.effect_id for claim in claimed.claims] == [proven.work.effect_id]


async def test_evidence_in_manual_review_waits_for_a_person_unless_it_proves_commit(
    store: Store,
) -> None:
    claims = [await store.dispatching() for _ in range(2)]
    for claim in claims:
        await store.ledger.record(
            [step(claim, E.CONTRACT_VIOLATED, S.MANUAL_REVIEW, unknown=True)]
        )
    await late(store, claims[0], EndingKind.REJECTED)
    await late(store, claims[1], EndingKind.COMMITTED)
    assert (await store.work(claims[0].work.effect_id)).due_at is None
    proven = await store.ledger.claim_reconciliation(store.order())
    assert [claim.work.effect_id for claim in proven.claims] == [claims[1].work.effect_id]
    assert proven.claims[0].work.status is S.MANUAL_REVIEW


async def test_a_parked_deferral_of_a_proven_effect_is_due_at_once(store: Store) -> None:
    first = await store.dispatching()
    await store.lapse(first)
    held = await store.reconciling(first.work.effect_id)
    await late(store, first, EndingKind.COMMITTED)
    stale = step(held, E.RECONCILIATION_EXHAUSTED, S.MANUAL_REVIEW, unknown=True)
    (result,) = await store.ledger.record([stale])
    assert result.status is StepStatus.STALE
    (result,) = await store.ledger.record([replace(stale, version=result.version)])
    assert result.status is StepStatus.APPLIED
    assert (await store.work(first.work.effect_id)).due_at is not None


@guarantee("contradiction-is-recorded")
async def test_late_commit_of_a_failed_effect_is_a_contradiction(store: Store) -> None:
    first, second = await _two_unproven(store)
    held = await store.reconciling(first.work.effect_id)
    unproved = failed(replace(held, attempt=second.attempt))
    gone = replace(unproved, transition=replace(unproved.transition, ending=None))
    await store.ledger.record([gone])
    assert await store.status(first.work.effect_id) is S.FAILED_FINAL
    result = await late(store, first, EndingKind.COMMITTED)
    assert (result.status, result.late_recorded, result.contradicted) == (
        StepStatus.FENCED,
        True,
        True,
    )
    assert await store.status(first.work.effect_id) is S.FAILED_FINAL
    events = await store.ledger.events(store.tenant_id, first.work.effect_id)
    assert events[-1].type is E.CONTRADICTION_RECORDED
    assert (events[-1].old_status, events[-1].new_status) == (
        S.FAILED_FINAL,
        S.FAILED_FINAL,
    )
    assert first_break(events) is None
    (listed,) = await store.ledger.contradictions(store.tenant_id)
    assert listed.intent.effect_id == first.work.effect_id


async def test_late_commit_under_another_identity_is_a_contradiction(
    store: Store,
) -> None:
    first, second = await _two_unproven(store)
    held = await store.reconciling(first.work.effect_id)
    await store.ledger.record([succeeded(held, external_id="ch_other")])
    assert (await late(store, first, EndingKind.COMMITTED)).contradicted
    again = await late(store, second, EndingKind.REJECTED)
    assert (again.late_recorded, again.contradicted) == (True, False)


async def test_late_commit_of_the_same_object_only_ends_its_attempt(
    store: Store,
) -> None:
    first, _ = await _two_unproven(store)
    held = await store.reconciling(first.work.effect_id)
    (settled,) = await store.ledger.record([succeeded(held, external_id="ch_1")])
    result = await late(store, first, EndingKind.COMMITTED)
    assert (result.late_recorded, result.contradicted) == (True, False)
    assert result.version == settled.version
    assert await store.ledger.contradictions(store.tenant_id) == []


async def test_an_ending_of_an_attempt_that_never_was_is_not_kept(store: Store) -> None:
    claim = await store.dispatching()
    await store.lapse(claim)
    assert claim.attempt is not None
    forged = replace(claim.attempt, attempt_id=claim.token)
    result = await late(store, replace(claim, attempt=forged), EndingKind.COMMITTED)
    assert (result.status, result.late_recorded) == (StepStatus.FENCED, False)
    assert not (await store.work(claim.work.effect_id)).proof_committed


async def _redispatch(store: Store, effect_id) -> None:  # type: ignore[no-untyped-def]
    held = await store.reconciling(effect_id)
    await store.ledger.record(
        [
            step(
                held,
                E.REDISPATCH_PERMITTED,
                S.PREPARED,
                delay=timedelta(0),
                redispatches=1,
                unknown=True,
            )
        ]
    )


async def _two_unproven(store: Store):  # type: ignore[no-untyped-def]
    first = await store.dispatching()
    await store.lapse(first)
    await _redispatch(store, first.work.effect_id)
    second = await store.claim(first.work.effect_id)
    await store.lapse(second)
    assert (await store.work(first.work.effect_id)).unproven == 2
    return first, second


async def test_late_commit_contradicts_no_receipt_without_an_identity(
    store: Store,
) -> None:
    first, _ = await _two_unproven(store)
    held = await store.reconciling(first.work.effect_id)
    (settled,) = await store.ledger.record([succeeded(held, external_id=None)])
    result = await late(store, first, EndingKind.COMMITTED)
    assert (result.late_recorded, result.contradicted) == (True, False)
    assert result.version == settled.version
    assert await store.ledger.contradictions(store.tenant_id) == []
