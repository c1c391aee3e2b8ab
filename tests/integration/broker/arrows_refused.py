"""For every arrow of the state table, a history in which it would be wrong, and is
refused.

Most of them are the rules of the design: something is unproved, or not settled, or held
by somebody else, or the class forbids it.
"""

from __future__ import annotations

import pytest

from effect_broker.domain.errors import DecisionRefused, PayloadDrift, VersionConflict
from effect_broker.domain.resolution import Decision
from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.ports import StepStatus
from tests.arrows import Told, refused
from tests.integration.broker.plays import KEY, Play, dispatched, play
from tests.integration.broker.world import World

S = EffectStatus
E = EventType
COMMITS = {"key_records": "commits"}
CAREFUL = {"key_records": "successes"}


@refused("(new) EffectReserved prepared")
async def a_key_that_is_taken(world: World) -> Told:
    it = await play(world)
    told = await it.mark()
    assert (await world.submit(KEY)).replayed
    with pytest.raises(PayloadDrift):
        await world.submit(KEY, amount=999)
    return told


@refused("prepared AttemptStarted dispatching")
async def a_send_against_proof_of_commit(world: World) -> Told:
    it = await play(world, ["commit"])
    async with it.given_up():
        await it.reconcile()
        told = await it.mark()
    assert (await it.dispatch()).attempts == 0
    return told


@refused("retryable AttemptStarted dispatching")
async def a_retry_before_its_backoff(world: World) -> Told:
    it = await dispatched(world, ["reject"], **COMMITS)
    assert (await it.dispatch()).attempts == 0
    return await it.told()


async def _late_nothing(it: Play) -> Told:
    """Reconcile once a late answer came that proves nothing."""
    told = await it.mark()
    await it.reconcile(after=0)
    return told


@refused("prepared ReceiptRecorded succeeded")
async def a_late_answer_that_proves_nothing_before_a_send(world: World) -> Told:
    it = await play(world, ["lose_answer"])
    async with it.given_up():
        await it.reconcile()
    return await _late_nothing(it)


@refused("retryable ReceiptRecorded succeeded")
async def a_late_answer_that_proves_nothing_before_a_retry(world: World) -> Told:
    it = await play(
        world,
        ["lose_answer", "not_executed"],
        "unsafe",
        requeue_after_operator_proof=True,
    )
    async with it.given_up():
        await it.decide(Decision.NOT_COMMITTED)
        await it.dispatch()
    return await _late_nothing(it)


@refused("outcome_unknown ReceiptRecorded succeeded")
async def a_late_answer_that_proves_nothing_of_an_unsafe_effect(world: World) -> Told:
    it = await play(world, ["lose_answer"], "unsafe")
    async with it.given_up():
        pass
    return await _late_nothing(it)


@refused("manual_review ReceiptRecorded succeeded")
async def a_late_answer_that_proves_nothing_in_review(world: World) -> Told:
    it = await play(world, ["lose_answer"], **CAREFUL)
    async with it.given_up():
        await it.reconcile()
    return await _late_nothing(it)


async def _again(it: Play) -> Told:
    """Record a late answer that is recorded already."""
    told = await it.mark()
    found = await it.late_answer_again()
    assert (found.status, found.late_recorded) == (StepStatus.FENCED, True)
    return told


@refused("prepared EvidenceRecorded prepared")
async def one_late_answer_twice_before_a_send(world: World) -> Told:
    it = await play(world, ["commit"])
    async with it.given_up():
        await it.reconcile()
    return await _again(it)


@refused("retryable EvidenceRecorded retryable")
async def one_late_answer_twice_before_a_retry(world: World) -> Told:
    it = await play(
        world, ["commit", "not_executed"], "unsafe", requeue_after_operator_proof=True
    )
    async with it.given_up():
        await it.decide(Decision.NOT_COMMITTED)
        await it.dispatch()
    return await _again(it)


@refused("outcome_unknown EvidenceRecorded outcome_unknown")
async def one_late_answer_twice_while_unknown(world: World) -> Told:
    it = await play(world, ["lose_answer"], "unsafe")
    async with it.given_up():
        pass
    return await _again(it)


@refused("manual_review EvidenceRecorded manual_review")
async def one_late_answer_twice_in_review(world: World) -> Told:
    it = await play(world, ["lose_answer"], **CAREFUL)
    async with it.given_up():
        await it.reconcile()
    return await _again(it)


@refused("dispatching EvidenceRecorded dispatching")
async def one_late_answer_twice_during_the_next_attempt(world: World) -> Told:
    it = await play(world, ["commit"])
    async with it.given_up():
        await it.reconcile()
        second = it.paused()
        await second.__aenter__()
    told = await _again(it)
    await second.__aexit__(None, None, None)
    return told


@refused("reconciling EvidenceRecorded reconciling")
async def one_late_answer_twice_during_a_lookup(world: World) -> Told:
    it = await play(world, ["lose_answer"], "reconcilable")
    async with it.given_up():
        asking = it.asking()
        await asking.__aenter__()
    told = await _again(it)
    await asking.__aexit__(None, None, None)
    return told


@refused("prepared SendForbidden failed_final")
async def an_end_of_what_is_unproved(world: World) -> Told:
    it = await dispatched(world, ["lose_answer"], submit_deadline="1m")
    await it.reconcile()
    assert await it.status() is S.PREPARED
    await it.reconcile(after=62)
    assert await it.status() is S.MANUAL_REVIEW
    return await it.told()


@refused("retryable SendForbidden failed_final")
async def an_end_at_an_account_that_was_never_asked(world: World) -> Told:
    it = await dispatched(world, ["not_sent"])
    world.target.account = "somebody else's"
    await it.dispatch(after=2)
    assert await it.status() is S.MANUAL_REVIEW
    return await it.told()


@refused("prepared SendForbidden manual_review")
async def a_review_of_what_was_never_sent(world: World) -> Told:
    it = await play(world, submit_deadline="1m")
    await it.reconcile(after=62)
    assert await it.status() is S.FAILED_FINAL
    return await it.told()


@refused("retryable SendForbidden manual_review")
async def a_review_of_what_is_proved(world: World) -> Told:
    it = await dispatched(world, ["not_sent"], submit_deadline="1m")
    await it.reconcile(after=62)
    assert await it.status() is S.FAILED_FINAL
    return await it.told()


@refused("dispatching ReceiptRecorded succeeded")
async def a_worker_that_lost_its_claim(world: World) -> Told:
    it = await play(world, ["commit"], "unsafe")
    async with it.given_up():
        pass
    return await it.told()


async def _beside_an_unproved(world: World, act: str) -> Told:
    it = await dispatched(world, ["lose_request", act], **COMMITS)
    await it.reconcile()
    await it.dispatch()
    assert await it.status() is S.OUTCOME_UNKNOWN
    return await it.told()


@refused("dispatching AttemptRejected retryable")
async def a_refusal_beside_an_unproved_attempt(world: World) -> Told:
    return await _beside_an_unproved(world, "reject")


@refused("dispatching AttemptRejected failed_final")
async def a_refusal_for_good_beside_an_unproved_attempt(world: World) -> Told:
    return await _beside_an_unproved(world, "reject_final")


@refused("dispatching AttemptNotExecuted retryable")
async def a_limit_beside_an_unproved_attempt(world: World) -> Told:
    return await _beside_an_unproved(world, "not_executed")


@refused("dispatching AttemptNotSent retryable")
async def nothing_sent_beside_an_unproved_attempt(world: World) -> Told:
    return await _beside_an_unproved(world, "not_sent")


async def _alone(world: World, act: str) -> Told:
    it = await dispatched(world, [act], **COMMITS)
    assert await it.status() is S.RETRYABLE
    return await it.told()


@refused("dispatching AttemptRejected outcome_unknown")
async def an_unknown_of_what_the_only_answer_proves(world: World) -> Told:
    return await _alone(world, "reject")


@refused("dispatching AttemptNotExecuted outcome_unknown")
async def an_unknown_of_a_request_that_was_turned_away(world: World) -> Told:
    return await _alone(world, "not_executed")


@refused("dispatching AttemptNotSent outcome_unknown")
async def an_unknown_of_a_request_that_never_left(world: World) -> Told:
    return await _alone(world, "not_sent")


@refused("dispatching OutcomeLost outcome_unknown")
async def a_lease_that_has_not_ended(world: World) -> Told:
    it = await play(world)
    async with it.paused():
        await world.let_pass(29)
        await world.sweeper.run_once()
    return await it.told()


@refused("dispatching ContractViolated manual_review")
async def an_answer_within_the_contract(world: World) -> Told:
    return await (await dispatched(world, ["hide_commit"])).told()


async def _outdated(it: Play, event: EventType, new: EffectStatus) -> Told:
    found = await it.step(event, new, behind=1)
    assert found.status is not StepStatus.APPLIED
    return await it.told()


@refused("prepared ContractViolated manual_review")
async def a_violation_of_an_older_version(world: World) -> Told:
    it = await dispatched(world, ["lose_answer"])
    await it.reconcile()
    return await _outdated(it, E.CONTRACT_VIOLATED, S.MANUAL_REVIEW)


@refused("retryable ContractViolated manual_review")
async def a_violation_of_an_attempt_that_has_ended(world: World) -> Told:
    it = await dispatched(world, ["not_sent"])
    return await _outdated(it, E.CONTRACT_VIOLATED, S.MANUAL_REVIEW)


@refused("outcome_unknown ContractViolated manual_review")
async def a_violation_found_too_late(world: World) -> Told:
    it = await dispatched(world, ["lose_answer"])
    return await _outdated(it, E.CONTRACT_VIOLATED, S.MANUAL_REVIEW)


@refused("outcome_unknown ReconciliationExhausted manual_review")
async def a_reconciler_that_gives_up_too_late(world: World) -> Told:
    it = await dispatched(world, ["lose_answer"])
    return await _outdated(it, E.RECONCILIATION_EXHAUSTED, S.MANUAL_REVIEW)


@refused("outcome_unknown ReconciliationStarted reconciling")
async def a_lookup_of_what_cannot_be_looked_up(world: World) -> Told:
    it = await dispatched(world, ["lose_answer"], "unsafe")
    await it.reconcile(after=1000)
    return await it.told()


@refused("outcome_unknown ReconciliationRequested outcome_unknown")
async def a_caller_who_asks_about_an_unsafe_effect(world: World) -> Told:
    it = await dispatched(world, ["lose_answer"], "unsafe")
    await world.broker.reconcile(world.tenant.tenant_id, it.effect_id)
    return await it.told()


@refused("manual_review ReconciliationRequested outcome_unknown")
async def a_caller_who_asks_about_an_unsafe_effect_in_review(world: World) -> Told:
    it = await dispatched(world, ["key_conflict"], "unsafe")
    assert await it.status() is S.MANUAL_REVIEW
    await world.broker.reconcile(world.tenant.tenant_id, it.effect_id)
    return await it.told()


@refused("reconciling ReceiptRecorded succeeded")
@refused("reconciling RedispatchPermitted prepared")
@refused("reconciling ReconciliationExhausted manual_review")
@refused("reconciling ContractViolated manual_review")
async def a_lookup_before_settlement(world: World) -> Told:
    world.target.lag_seconds = 30
    it = await dispatched(world, ["lose_answer"], "reconcilable")
    await it.reconcile()
    assert await it.status() is S.OUTCOME_UNKNOWN
    return await it.told()


@refused("reconciling ProbeInconclusive outcome_unknown")
async def a_lookup_that_finds_the_charge(world: World) -> Told:
    it = await dispatched(world, ["lose_answer"], "reconcilable")
    await it.reconcile()
    return await it.told()


@refused("reconciling ReconciliationInterrupted outcome_unknown")
async def a_reconciler_that_still_has_its_lease(world: World) -> Told:
    it = await dispatched(world, ["lose_answer"], "reconcilable")
    await world.let_pass(2)
    async with it.asking():
        await world.let_pass(20)
        await world.sweeper.run_once()
    return await it.told()


async def _late_beside_an_unproved(world: World, act: str) -> Told:
    """Learn late that one attempt did not commit, with another one unproved."""
    it = await play(world, [act, "lose_request"], **COMMITS, redispatch_limit=1)
    async with it.given_up():
        await it.reconcile()
        await it.dispatch()
    await it.reconcile()
    assert await it.status() is S.MANUAL_REVIEW
    return await it.told()


@refused("reconciling AttemptRejected retryable")
async def a_late_refusal_beside_an_unproved_attempt(world: World) -> Told:
    return await _late_beside_an_unproved(world, "reject")


@refused("reconciling AttemptRejected failed_final")
async def a_late_refusal_for_good_beside_an_unproved_attempt(world: World) -> Told:
    return await _late_beside_an_unproved(world, "reject_final")


@refused("reconciling AttemptNotExecuted retryable")
async def a_late_limit_beside_an_unproved_attempt(world: World) -> Told:
    return await _late_beside_an_unproved(world, "not_executed")


@refused("reconciling AttemptNotSent retryable")
async def a_late_nothing_sent_beside_an_unproved_attempt(world: World) -> Told:
    return await _late_beside_an_unproved(world, "not_sent")


async def _in_review(world: World) -> Play:
    it = await dispatched(world, ["lose_request"], **CAREFUL)
    await it.reconcile()
    assert await it.status() is S.MANUAL_REVIEW
    return it


async def _commit_of_an_older_version(it: Play) -> Told:
    with pytest.raises(VersionConflict):
        await it.commit_by_operator("ch_1", behind=1)
    return await it.told()


@refused("outcome_unknown ResolvedCommitted succeeded")
async def a_commit_found_for_an_older_version(world: World) -> Told:
    return await _commit_of_an_older_version(
        await dispatched(world, ["lose_answer"], "unsafe")
    )


@refused("manual_review ResolvedCommitted succeeded")
async def a_reviewers_commit_for_an_older_version(world: World) -> Told:
    return await _commit_of_an_older_version(await _in_review(world))


@refused("outcome_unknown ResolvedNotCommitted prepared")
@refused("outcome_unknown ResolvedFailed failed_final")
async def an_absence_seen_before_settlement(world: World) -> Told:
    it = await dispatched(
        world, ["lose_request"], "unsafe", requeue_after_operator_proof=True
    )
    await it.refuse(Decision.NOT_COMMITTED)
    await it.refuse(Decision.FAILED)
    return await it.told()


@refused("manual_review ResolvedNotCommitted prepared")
@refused("manual_review ResolvedFailed failed_final")
async def a_reviewers_absence_against_proof_of_commit(world: World) -> Told:
    it = await play(world, ["commit"], **CAREFUL)
    async with it.given_up():
        await it.reconcile()
    await it.refuse(Decision.NOT_COMMITTED)
    await it.refuse(Decision.FAILED)
    return await it.told()


@refused("succeeded CompensationLinked compensated")
async def a_compensation_by_what_has_not_succeeded(world: World) -> Told:
    it = await dispatched(world)
    with pytest.raises(DecisionRefused):
        await it.compensate("lose_answer")
    return await it.told()


async def _late_commit_under_its_own_id(world: World, *, refunded: bool) -> Told:
    it = await play(world, ["commit"], "unsafe")
    async with it.given_up():
        await it.commit_by_operator(world.target.objects[0].id)
        if refunded:
            await it.compensate()
    return await it.told()


@refused("succeeded ContradictionRecorded succeeded")
async def a_late_commit_of_the_charge_that_was_found(world: World) -> Told:
    return await _late_commit_under_its_own_id(world, refunded=False)


@refused("compensated ContradictionRecorded compensated")
async def a_late_commit_of_the_charge_that_was_refunded(world: World) -> Told:
    return await _late_commit_under_its_own_id(world, refunded=True)


@refused("failed_final ContradictionRecorded failed_final")
async def a_late_loss_of_what_a_person_called_failed(world: World) -> Told:
    it = await play(world, ["lose_answer"], "unsafe")
    async with it.given_up():
        await it.decide(Decision.FAILED, after=0)
    return await it.told()
