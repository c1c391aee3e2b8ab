from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from effect_broker.domain.attempt import EndingKind
from effect_broker.domain.receipt import ReceiptKind
from effect_broker.ids import uuid7
from effect_broker.ledger.chain import first_break, receipt_digest
from effect_broker.ledger.rows import REASON_LENGTH_MAX
from effect_broker.ports import Claim, Step, StepStatus
from tests.conformance.ledgers import (
    E,
    S,
    Store,
    contract,
    ending,
    failed,
    lost,
    retryable,
    step,
    succeeded,
)
from tests.guarantees import guarantee


async def test_a_commit_makes_a_receipt_and_ends_the_effect(store: Store) -> None:
    claim = await store.dispatching()
    written = succeeded(claim)
    (result,) = await store.ledger.record([written])
    assert (result.status, result.version) == (StepStatus.APPLIED, 3)
    receipt = await store.ledger.receipt(store.tenant_id, claim.work.effect_id)
    assert receipt is not None
    assert receipt.draft == written.transition.receipt
    assert (receipt.contract_name, receipt.contract_version) == ("payments-charge", "1")
    key = claim.intent.downstream_key.encode()
    assert receipt.downstream_key_digest == hashlib.sha256(key).digest()
    assert receipt.digest == receipt_digest(receipt, claim.intent.contract_id)
    (attempt,) = await store.ledger.attempts(store.tenant_id, claim.work.effect_id)
    assert attempt.ending == written.transition.ending
    assert (attempt.late, attempt.ended_at) == (False, receipt.created_at)
    snapshot = await store.ledger.get(store.tenant_id, claim.work.effect_id)
    assert snapshot is not None
    assert (snapshot.status, snapshot.version, snapshot.work, snapshot.reason) == (
        S.SUCCEEDED,
        3,
        None,
        "because",
    )


async def test_a_refusal_for_good_makes_a_receipt_too(store: Store) -> None:
    claim = await store.dispatching()
    await store.ledger.record([failed(claim)])
    receipt = await store.ledger.receipt(store.tenant_id, claim.work.effect_id)
    assert receipt is not None
    assert receipt.draft.kind is ReceiptKind.FAILED_FINAL
    assert await store.status(claim.work.effect_id) is S.FAILED_FINAL


async def test_a_deferral_sets_the_counters_and_the_next_instant(store: Store) -> None:
    claim = await store.dispatching()
    await store.ledger.record([retryable(claim, delay=timedelta(minutes=3))])
    work = await store.work(claim.work.effect_id)
    events = await store.ledger.events(store.tenant_id, claim.work.effect_id)
    assert (work.status, work.version) == (S.RETRYABLE, 3)
    assert (work.unproven, work.proven_through, work.rejections, work.retries) == (
        0,
        1,
        1,
        1,
    )
    assert work.due_at == events[-1].at + timedelta(minutes=3)
    assert work.settlement_at == claim.work.settlement_at
    assert work.horizon_at == claim.work.horizon_at


async def test_a_lost_answer_is_unknown_since_it_was_lost(store: Store) -> None:
    claim = await store.dispatching()
    await store.ledger.record([lost(claim, delay=None)])
    work = await store.work(claim.work.effect_id)
    assert (work.status, work.due_at, work.unproven) == (S.OUTCOME_UNKNOWN, None, 1)
    since = work.unknown_since
    assert since is not None
    await store.pass_time(timedelta(minutes=1))
    reconciling = step(
        await store.requested(claim.work.effect_id),
        E.PROBE_INCONCLUSIVE,
        S.OUTCOME_UNKNOWN,
        delay=timedelta(0),
        probes=1,
        unknown=True,
        negative=True,
    )
    await store.ledger.record([reconciling])
    work = await store.work(claim.work.effect_id)
    assert work.unknown_since is not None
    assert work.negative_at is not None
    assert work.unknown_since < work.negative_at
    assert work.probes == 1


async def test_a_redispatch_restarts_what_its_transition_says(store: Store) -> None:
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
        negative=False,
        fresh_deadline=timedelta(hours=2),
    )
    await store.ledger.record([permitted])
    work = await store.work(claim.work.effect_id)
    events = await store.ledger.events(store.tenant_id, claim.work.effect_id)
    assert (work.status, work.unknown_since, work.negative_at) == (S.PREPARED, None, None)
    assert work.submit_until == events[-1].at + timedelta(hours=2)
    assert (work.redispatches, work.unproven) == (1, 0)
    assert (await store.claim(claim.work.effect_id)).work.attempts == 2


async def test_steps_of_both_kinds_go_in_one_call_and_answer_in_order(
    store: Store,
) -> None:
    claims = [await store.dispatching() for _ in range(4)]
    steps = [succeeded(claims[2]), lost(claims[0]), failed(claims[3]), lost(claims[1])]
    results = await store.ledger.record(steps)
    assert [result.effect_id for result in results] == [
        written.effect_id for written in steps
    ]
    assert {result.status for result in results} == {StepStatus.APPLIED}
    assert [await store.status(claim.work.effect_id) for claim in claims] == [
        S.OUTCOME_UNKNOWN,
        S.OUTCOME_UNKNOWN,
        S.SUCCEEDED,
        S.FAILED_FINAL,
    ]


async def _with_second_key(store: Store) -> Claim:
    """Claim an effect whose target was given another key after proof of non-commit."""
    first = await store.dispatching()
    rejected = retryable(first, key_generation=2, downstream_key="second-key")
    await store.ledger.record([rejected])
    return await store.claim(first.work.effect_id)


@pytest.mark.parametrize("others", [0, 3], ids=["alone", "in a batch"])
async def test_an_effect_ends_in_the_same_rows_alone_and_in_a_batch(
    store: Store, others: int
) -> None:
    for claim, make in (
        (await store.dispatching(), succeeded),
        (await store.dispatching(), failed),
        (await _with_second_key(store), succeeded),
    ):
        written, effect_id = make(claim), claim.work.effect_id
        batch = [make(await store.dispatching()) for _ in range(others)]
        results = await store.ledger.record([*batch, written])
        assert {result.status for result in results} == {StepStatus.APPLIED}
        assert results[-1].version == claim.work.version + 1
        receipt = await store.ledger.receipt(store.tenant_id, effect_id)
        assert receipt is not None
        assert receipt.draft == written.transition.receipt
        assert (
            receipt.downstream_key_digest
            == hashlib.sha256(claim.downstream_key.encode()).digest()
        )
        attempts = await store.ledger.attempts(store.tenant_id, effect_id)
        assert attempts[-1].ending == written.transition.ending
        assert (attempts[-1].late, attempts[-1].ended_at) == (False, receipt.created_at)
        events = await store.ledger.events(store.tenant_id, effect_id)
        assert first_break(events) is None
        assert events[-1].type is written.transition.event
        assert events[-1].at == receipt.created_at
        assert receipt.digest == receipt_digest(receipt, claim.intent.contract_id)


async def test_a_lost_step_in_a_batch_of_endings_stops_no_other(store: Store) -> None:
    lapsed = await store.dispatching()
    await store.lapse(lapsed)
    claims = [await store.dispatching(), lapsed, await store.dispatching()]
    results = await store.ledger.record([succeeded(claim) for claim in claims])
    assert [result.status for result in results] == [
        StepStatus.APPLIED,
        StepStatus.FENCED,
        StepStatus.APPLIED,
    ]
    assert [result.late_recorded for result in results] == [False, True, False]
    assert (await store.work(lapsed.work.effect_id)).proof_committed


async def test_a_step_repeated_after_an_unknown_commit_has_been_applied(
    store: Store,
) -> None:
    ending_step = succeeded(await store.dispatching())
    waiting_step = retryable(await store.dispatching())
    first = await store.ledger.record([ending_step, waiting_step])
    again = await store.ledger.record([ending_step, waiting_step])
    assert first == again
    assert [result.version for result in again] == [3, 3]
    assert not any(result.late_recorded for result in again)
    moved_on = await store.claim(waiting_step.effect_id)
    (third,) = await store.ledger.record([waiting_step])
    assert (third.status, third.version) == (StepStatus.APPLIED, 3)
    assert await store.work(waiting_step.effect_id) == moved_on.work


@guarantee("every-transition-is-a-swap")
async def test_of_two_who_held_one_version_one_writes(store: Store) -> None:
    claim = await store.dispatching()
    (first,) = await store.ledger.record([lost(claim)])
    (second,) = await store.ledger.record([succeeded(claim)])
    assert (first.status, second.status) == (StepStatus.APPLIED, StepStatus.FENCED)
    assert await store.status(claim.work.effect_id) is S.OUTCOME_UNKNOWN


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside-another"])
@pytest.mark.parametrize("forged", [True, False], ids=["another-token", "no-token"])
@pytest.mark.parametrize("written", [succeeded, failed, lost, retryable])
async def test_another_token_writes_nothing(
    store: Store, written: Callable[[Claim], Step], forged: bool, beside: bool
) -> None:
    claim, other = await store.dispatching(), await store.dispatching()
    steps = [replace(written(claim), token=uuid4() if forged else None)]
    steps += [written(other)] if beside else []
    result, *rest = await store.ledger.record(steps)
    assert result.status is StepStatus.FENCED
    assert [it.status for it in rest] == [StepStatus.APPLIED] * beside
    assert (await store.work(claim.work.effect_id)).status is S.DISPATCHING


@guarantee("tenant-from-credential")
async def test_another_tenants_step_is_fenced_and_leaves_nothing(store: Store) -> None:
    claim = await store.dispatching()
    for written in (succeeded(claim), lost(claim)):
        (result,) = await store.ledger.record([replace(written, tenant_id=uuid4())])
        assert (result.status, result.version) == (StepStatus.FENCED, 0)
        assert not result.late_recorded
    assert await store.work(claim.work.effect_id) == claim.work


async def test_a_step_on_an_effect_that_does_not_exist_is_fenced(store: Store) -> None:
    claim = await store.dispatching()
    (result,) = await store.ledger.record([replace(lost(claim), effect_id=uuid7())])
    assert (result.status, result.version) == (StepStatus.FENCED, 0)


async def test_a_terminal_step_without_a_receipt_is_a_defect(store: Store) -> None:
    claim = await store.dispatching()
    with pytest.raises(ValueError, match="needs a receipt"):
        await store.ledger.record([step(claim, E.RECEIPT_RECORDED, S.SUCCEEDED)])
    assert await store.work(claim.work.effect_id) == claim.work


async def test_a_targets_odd_text_does_not_lose_the_outcome(store: Store) -> None:
    claim = await store.dispatching()
    odd = step(
        claim,
        E.OUTCOME_LOST,
        S.OUTCOME_UNKNOWN,
        unknown=True,
        ending=ending(
            EndingKind.AMBIGUOUS,
            reason="r" * (REASON_LENGTH_MAX + 1),
            evidence={"note": 'quote " backslash \\ comma , {brace} \U0001f600'},
        ),
    )
    await store.ledger.record([odd])
    (attempt,) = await store.ledger.attempts(store.tenant_id, claim.work.effect_id)
    assert attempt.ending is not None
    assert odd.transition.ending is not None
    assert attempt.ending.evidence == odd.transition.ending.evidence
    assert len(attempt.ending.reason) == REASON_LENGTH_MAX


async def test_every_history_chains_and_numbers_its_versions(store: Store) -> None:
    claim = await store.dispatching()
    await store.ledger.record([retryable(claim)])
    await store.lapse(await store.claim(claim.work.effect_id))
    held = await store.reconciling(claim.work.effect_id)
    await store.ledger.record([succeeded(held)])
    events = await store.ledger.events(store.tenant_id, claim.work.effect_id)
    assert [event.sequence for event in events] == list(range(1, 8))
    assert first_break(events) is None
    assert [event.type for event in events] == [
        E.EFFECT_RESERVED,
        E.ATTEMPT_STARTED,
        E.ATTEMPT_REJECTED,
        E.ATTEMPT_STARTED,
        E.OUTCOME_LOST,
        E.RECONCILIATION_STARTED,
        E.RECEIPT_RECORDED,
    ]
    assert events == sorted(events, key=lambda event: event.sequence)
    edited = [*events[:2], replace(events[2], actor="somebody else"), *events[3:]]
    assert first_break(edited) == 3


async def test_requeued_work_may_choose_its_scope_anew(store: Store) -> None:
    await store.open(contract(name="p2"))
    claim = await store.dispatching()
    await store.ledger.record(
        [step(claim, E.CONTRACT_VIOLATED, S.MANUAL_REVIEW, unknown=True)]
    )
    work = await store.work(claim.work.effect_id)
    requeued = step(
        replace(claim, work=work),
        E.RESOLVED_NOT_COMMITTED,
        S.PREPARED,
        delay=timedelta(0),
        unproven=0,
        proven_through=1,
        unknown=False,
    )
    await store.ledger.record([requeued])
    again = await store.claim(claim.work.effect_id)
    assert again.work.attempts == 2
