"""For every arrow of the state table, a history that takes it."""

from __future__ import annotations

from typing import Any

import pytest

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.domain.receipt import ReceiptDraft, ReceiptKind, ReceiptSource
from effect_broker.domain.resolution import Decision
from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.ports import StepStatus
from tests.arrows import Told, taken
from tests.integration.broker.plays import Play, dispatched, play
from tests.integration.broker.test_interruptions import LosingLedger
from tests.integration.broker.world import World

S = EffectStatus
E = EventType
COMMITS = {"key_records": "commits"}
CAREFUL = {"key_records": "successes"}


@taken("(new) EffectReserved prepared", "prepared AttemptStarted dispatching")
@taken("dispatching ReceiptRecorded succeeded")
async def a_charge_without_trouble(world: World) -> Told:
    return await (await dispatched(world)).told()


@taken("prepared EvidenceRecorded prepared", "prepared ReceiptRecorded succeeded")
async def a_late_commit_before_the_next_send(world: World) -> Told:
    it = await play(world, ["commit"])
    async with it.given_up():
        await it.reconcile()
        assert await it.status() is S.PREPARED
    await it.reconcile(after=0)
    return await it.told()


@taken("prepared SendForbidden manual_review")
async def an_unproved_effect_at_another_account(world: World) -> Told:
    it = await dispatched(world, ["lose_answer"])
    await it.reconcile()
    world.target.account = "somebody else's"
    await it.dispatch()
    return await it.told()


@taken("prepared SendForbidden failed_final")
async def an_effect_that_nobody_sent_in_time(world: World) -> Told:
    it = await play(world, submit_deadline="1m")
    await it.reconcile(after=62)
    return await it.told()


@taken("dispatching AttemptRejected retryable", "retryable AttemptStarted dispatching")
async def a_refusal_that_may_be_tried_again(world: World) -> Told:
    it = await dispatched(world, ["reject"], **COMMITS)
    await it.dispatch(after=2)
    return await it.told()


@taken("retryable EvidenceRecorded retryable", "retryable ReceiptRecorded succeeded")
async def a_late_commit_against_a_persons_word(world: World) -> Told:
    it = await play(
        world, ["commit", "not_executed"], "unsafe", requeue_after_operator_proof=True
    )
    async with it.given_up():
        await it.decide(Decision.NOT_COMMITTED)
        await it.dispatch()
        assert await it.status() is S.RETRYABLE
    await it.reconcile(after=0)
    return await it.told()


@taken("retryable SendForbidden manual_review")
async def a_retry_at_another_account(world: World) -> Told:
    it = await dispatched(world, ["reject"], **COMMITS)
    world.target.account = "somebody else's"
    await it.dispatch(after=2)
    return await it.told()


@taken("dispatching AttemptNotSent retryable", "retryable SendForbidden failed_final")
async def a_target_that_was_away_until_the_deadline(world: World) -> Told:
    it = await dispatched(world, ["not_sent"], submit_deadline="1m")
    await it.reconcile(after=62)
    return await it.told()


@taken("dispatching AttemptRejected failed_final")
async def a_refusal_for_good(world: World) -> Told:
    return await (await dispatched(world, ["reject_final"])).told()


@taken("dispatching AttemptNotExecuted retryable")
async def a_limited_caller(world: World) -> Told:
    return await (await dispatched(world, ["not_executed"])).told()


@taken("dispatching OutcomeLost outcome_unknown")
async def a_lost_answer(world: World) -> Told:
    return await (await dispatched(world, ["lose_answer"])).told()


@taken("dispatching ContractViolated manual_review")
async def a_key_that_the_target_knows_with_other_parameters(world: World) -> Told:
    return await (await dispatched(world, ["key_conflict"])).told()


async def _second(world: World, act: str) -> Told:
    """Lose the first request, and let the second end in `act`."""
    it = await dispatched(world, ["lose_request", act], **COMMITS)
    await it.reconcile()
    await it.dispatch()
    return await it.told()


@taken("dispatching AttemptRejected outcome_unknown")
async def a_refusal_beside_an_unproved_attempt(world: World) -> Told:
    return await _second(world, "reject")


@taken("dispatching AttemptNotExecuted outcome_unknown")
async def a_limit_beside_an_unproved_attempt(world: World) -> Told:
    return await _second(world, "not_executed")


@taken("dispatching AttemptNotSent outcome_unknown")
async def nothing_sent_beside_an_unproved_attempt(world: World) -> Told:
    return await _second(world, "not_sent")


@taken("dispatching EvidenceRecorded dispatching")
async def a_late_answer_during_the_next_attempt(world: World) -> Told:
    it = await play(world, ["commit"])
    async with it.given_up():
        await it.reconcile()
        second = it.paused()
        await second.__aenter__()
    await second.__aexit__(None, None, None)
    return await it.told()


@taken("outcome_unknown ReconciliationStarted reconciling")
@taken("reconciling ReceiptRecorded succeeded")
async def a_lookup_that_finds_the_charge(world: World) -> Told:
    it = await dispatched(world, ["lose_answer"], "reconcilable")
    await it.reconcile()
    return await it.told()


@taken("reconciling RedispatchPermitted prepared")
async def an_absence_after_settlement(world: World) -> Told:
    it = await dispatched(world, ["lose_request"], "reconcilable")
    await it.reconcile(after=60)
    return await it.told()


@taken("reconciling ProbeInconclusive outcome_unknown")
async def an_absence_before_settlement(world: World) -> Told:
    it = await dispatched(world, ["lose_request"], "reconcilable")
    await it.reconcile()
    return await it.told()


@taken("reconciling ReconciliationInterrupted outcome_unknown")
async def a_reconciler_that_died(world: World) -> Told:
    it = await dispatched(world, ["lose_answer"], "reconcilable")
    await world.let_pass(5)
    away = LosingLedger(world.ledger, losses=float("inf"))
    with pytest.raises(LedgerUnavailable):
        await world.reconciler(ledger=away).run_once()
    await world.let_pass(31)
    await world.sweeper.run_once()
    return await it.told()


@taken("reconciling ReconciliationExhausted manual_review")
async def an_unknown_that_nothing_can_settle(world: World) -> Told:
    it = await dispatched(world, ["lose_answer"], **CAREFUL)
    await it.reconcile()
    return await it.told()


@taken("reconciling ContractViolated manual_review")
async def a_lookup_at_another_account(world: World) -> Told:
    it = await dispatched(world, ["lose_request"], "reconcilable")
    world.target.account = "somebody else's"
    await it.reconcile()
    return await it.told()


@taken("reconciling EvidenceRecorded reconciling")
async def a_late_answer_during_a_lookup(world: World) -> Told:
    it = await play(world, ["lose_answer"], "reconcilable")
    async with it.given_up():
        asking = it.asking()
        await asking.__aenter__()
    await asking.__aexit__(None, None, None)
    return await it.told()


async def _late(world: World, act: str) -> Told:
    """Have a fenced worker learn that nothing committed, and reconcile."""
    it = await play(world, [act], **COMMITS)
    async with it.given_up():
        pass
    await it.reconcile()
    return await it.told()


@taken("outcome_unknown EvidenceRecorded outcome_unknown")
@taken("reconciling AttemptRejected retryable")
async def a_late_refusal(world: World) -> Told:
    return await _late(world, "reject")


@taken("reconciling AttemptRejected failed_final")
async def a_late_refusal_for_good(world: World) -> Told:
    return await _late(world, "reject_final")


@taken("reconciling AttemptNotExecuted retryable")
async def a_late_limit(world: World) -> Told:
    return await _late(world, "not_executed")


@taken("reconciling AttemptNotSent retryable")
async def a_late_nothing_sent(world: World) -> Told:
    return await _late(world, "not_sent")


@taken("outcome_unknown ReconciliationRequested outcome_unknown")
async def a_caller_who_asks(world: World) -> Told:
    it = await dispatched(world, ["lose_answer"], "reconcilable")
    await world.broker.reconcile(world.tenant.tenant_id, it.effect_id)
    return await it.told()


async def _reviewed(world: World) -> Play:
    it = await dispatched(world, ["lose_request"], **CAREFUL)
    await it.reconcile()
    assert await it.status() is S.MANUAL_REVIEW
    return it


@taken("manual_review ReconciliationRequested outcome_unknown")
async def a_person_who_asks(world: World) -> Told:
    it = await _reviewed(world)
    await world.broker.reconcile(world.tenant.tenant_id, it.effect_id)
    return await it.told()


@taken("manual_review EvidenceRecorded manual_review")
@taken("manual_review ReceiptRecorded succeeded")
async def a_late_commit_in_review(world: World) -> Told:
    it = await play(world, ["commit"], **CAREFUL)
    async with it.given_up():
        await it.reconcile()
        assert await it.status() is S.MANUAL_REVIEW
    await it.reconcile(after=0)
    return await it.told()


@taken("outcome_unknown ResolvedCommitted succeeded")
async def a_person_who_found_the_charge(world: World) -> Told:
    it = await dispatched(world, ["lose_answer"], "unsafe")
    await it.decide(Decision.COMMITTED)
    return await it.told()


@taken("outcome_unknown ResolvedNotCommitted prepared")
async def a_person_who_found_nothing_and_sends_again(world: World) -> Told:
    it = await dispatched(
        world, ["lose_request"], "unsafe", requeue_after_operator_proof=True
    )
    await it.decide(Decision.NOT_COMMITTED)
    return await it.told()


@taken("outcome_unknown ResolvedFailed failed_final")
async def a_person_who_found_nothing_and_ends_it(world: World) -> Told:
    it = await dispatched(world, ["lose_request"], "unsafe")
    await it.decide(Decision.FAILED)
    return await it.told()


@taken("manual_review ResolvedCommitted succeeded")
async def a_reviewer_who_found_the_charge(world: World) -> Told:
    it = await _reviewed(world)
    await it.decide(Decision.COMMITTED)
    return await it.told()


@taken("manual_review ResolvedNotCommitted prepared")
async def a_reviewer_who_sends_again(world: World) -> Told:
    it = await _reviewed(world)
    await it.decide(Decision.NOT_COMMITTED)
    return await it.told()


@taken("manual_review ResolvedFailed failed_final")
async def a_reviewer_who_ends_it(world: World) -> Told:
    it = await _reviewed(world)
    await it.decide(Decision.FAILED)
    return await it.told()


@taken("succeeded CompensationLinked compensated")
async def a_charge_that_was_refunded(world: World) -> Told:
    it = await dispatched(world)
    await it.compensate()
    return await it.told()


@taken("succeeded ContradictionRecorded succeeded")
async def a_late_commit_under_another_id(world: World) -> Told:
    it = await play(world, ["commit"], "unsafe")
    async with it.given_up():
        await it.commit_by_operator("another charge")
    return await it.told()


@taken("failed_final ContradictionRecorded failed_final")
async def a_late_commit_of_what_a_person_called_failed(world: World) -> Told:
    it = await play(world, ["commit"], "unsafe")
    async with it.given_up():
        await it.decide(Decision.FAILED, after=0)
    return await it.told()


@taken("compensated ContradictionRecorded compensated")
async def a_late_commit_under_another_id_after_the_refund(world: World) -> Told:
    it = await play(world, ["commit"], "unsafe")
    async with it.given_up():
        await it.commit_by_operator("another charge")
        await it.compensate()
    return await it.told()


async def _by_hand(it: Play, event: EventType, new: EffectStatus, **more: Any) -> Told:
    assert (await it.step(event, new, **more)).status is StepStatus.APPLIED
    return await it.told()


@taken("prepared ContractViolated manual_review")
async def a_violation_found_before_the_first_send(world: World) -> Told:
    return await _by_hand(await play(world), E.CONTRACT_VIOLATED, S.MANUAL_REVIEW)


@taken("retryable ContractViolated manual_review")
async def a_violation_found_between_attempts(world: World) -> Told:
    it = await dispatched(world, ["not_sent"])
    return await _by_hand(it, E.CONTRACT_VIOLATED, S.MANUAL_REVIEW)


@taken("outcome_unknown ContractViolated manual_review")
async def a_violation_found_while_unknown(world: World) -> Told:
    it = await dispatched(world, ["lose_answer"])
    return await _by_hand(it, E.CONTRACT_VIOLATED, S.MANUAL_REVIEW)


@taken("outcome_unknown ReconciliationExhausted manual_review")
async def an_unknown_that_is_given_up_while_nobody_holds_it(world: World) -> Told:
    it = await dispatched(world, ["lose_answer"])
    return await _by_hand(it, E.RECONCILIATION_EXHAUSTED, S.MANUAL_REVIEW)


@taken("outcome_unknown ReceiptRecorded succeeded")
async def an_unknown_that_is_proved_while_nobody_holds_it(world: World) -> Told:
    it = await dispatched(world, ["lose_answer"])
    proof = ReceiptDraft(ReceiptKind.SUCCEEDED, ReceiptSource.PROBE, "found")
    return await _by_hand(it, E.RECEIPT_RECORDED, S.SUCCEEDED, receipt=proof)
