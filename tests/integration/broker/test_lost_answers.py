"""A lost answer is a value: each class recovers as far as its target can prove, and
no further.
"""

from __future__ import annotations

import pytest

from effect_broker.domain.status import EffectStatus
from tests.guarantees import guarantee
from tests.integration.broker.world import World, contract


async def test_charge_is_dispatched_once_and_its_receipt_is_kept(world: World) -> None:
    await world.open(contract())
    effect = (await world.submit()).effect
    await world.dispatcher().run_once()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert len(world.target.objects) == 1
    receipt = await world.receipt(effect.effect_id)
    assert receipt["external_id"] == world.target.objects[0].id
    assert world.target.requests[0].key == effect.downstream_key


@guarantee("lost-answer-is-unknown", "same-downstream-key", "idempotent-inside-horizon")
async def test_lost_answer_of_an_idempotent_effect_is_sent_again_under_its_key(
    world: World,
) -> None:
    await world.open(contract())
    effect = (await world.submit("order:1:charge:v1", "lose_answer")).effect
    await world.dispatcher().run_once()
    assert await world.status(effect.effect_id) is EffectStatus.OUTCOME_UNKNOWN
    await world.settle()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert len(world.target.objects) == 1
    assert {request.key for request in world.target.requests} == {effect.downstream_key}
    assert len(world.target.requests) == 2


async def test_lost_answer_of_a_reconcilable_effect_is_found_by_the_lookup(
    world: World,
) -> None:
    await world.open(contract("reconcilable"))
    effect = (await world.submit("order:1:charge:v1", "lose_answer")).effect
    await world.dispatcher().run_once()
    assert await world.status(effect.effect_id) is EffectStatus.OUTCOME_UNKNOWN
    await world.settle()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert len(world.target.requests) == 1
    assert (await world.receipt(effect.effect_id))["source"] == "probe"


@guarantee("reconcilable-probes-first", "negative-waits-for-settlement")
async def test_lost_request_of_a_reconcilable_effect_is_sent_again_after_settlement(
    world: World,
) -> None:
    await world.open(contract("reconcilable"))
    effect = (await world.submit("order:1:charge:v1", "lose_request")).effect
    await world.dispatcher().run_once()
    await world.let_pass(10 + 30 - 1)
    await world.reconciler().run_once()
    assert await world.status(effect.effect_id) is EffectStatus.OUTCOME_UNKNOWN
    assert "RedispatchPermitted" not in await world.events(effect.effect_id)
    await world.let_pass(2.5)
    await world.reconciler().run_once()
    assert await world.status(effect.effect_id) is EffectStatus.PREPARED
    await world.dispatcher().run_once()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert len(world.target.objects) == 1


@guarantee("weak-lookup-proves-nothing")
async def test_eventual_lookup_that_finds_nothing_never_permits_a_second_send(
    world: World,
) -> None:
    await world.open(
        contract(
            "reconcilable",
            probe={"consistency": "eventual"},
            unknown_alert_after="1m",
            unknown_review_after="2m",
        )
    )
    world.target.lag_seconds = 10_000
    effect = (await world.submit("order:1:charge:v1", "lose_answer")).effect
    await world.settle(passes=40)
    assert await world.status(effect.effect_id) is EffectStatus.MANUAL_REVIEW
    assert len(world.target.requests) == 1


@guarantee("unsafe-at-most-once")
async def test_lost_answer_of_an_unsafe_effect_waits_for_a_person(world: World) -> None:
    await world.open(contract("unsafe"))
    first = await world.submit("order:1:charge:v1", "lose_answer")
    await world.settle()
    assert await world.status(first.effect.effect_id) is EffectStatus.OUTCOME_UNKNOWN
    again = await world.submit()
    assert again.replayed
    assert again.effect.effect_id == first.effect.effect_id
    await world.settle()
    assert len(world.target.requests) == 1
    assert world.target.requests[0].key is None


async def test_commit_hidden_behind_an_error_is_looked_up_before_any_resend(
    world: World,
) -> None:
    await world.open(contract(key_records="successes", probe={"consistency": "strong"}))
    effect = (await world.submit("order:1:charge:v1", "hide_commit")).effect
    await world.settle()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert len(world.target.requests) == 1


async def test_commit_hidden_behind_an_error_that_the_key_keeps_is_sent_again(
    world: World,
) -> None:
    await world.open(contract(key_records="commits"))
    effect = (await world.submit("order:1:charge:v1", "hide_commit")).effect
    await world.settle()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert {request.key for request in world.target.requests} == {effect.downstream_key}
    assert len(world.target.requests) == 2
    assert len(world.target.objects) == 1


async def test_commit_hidden_behind_an_error_without_a_lookup_goes_to_review(
    world: World,
) -> None:
    await world.open(contract(key_records="successes"))
    effect = (await world.submit("order:1:charge:v1", "hide_commit")).effect
    await world.settle()
    assert await world.status(effect.effect_id) is EffectStatus.MANUAL_REVIEW
    assert len(world.target.requests) == 1


@guarantee("horizon-forbids-send")
async def test_key_that_may_be_forgotten_is_never_sent_again(world: World) -> None:
    await world.open(contract(key_retention="60s", short_horizon=True))
    effect = (await world.submit("order:1:charge:v1", "lose_answer")).effect
    await world.dispatcher().run_once()
    await world.let_pass(100)
    await world.settle(passes=3)
    assert await world.status(effect.effect_id) is EffectStatus.MANUAL_REVIEW
    assert len(world.target.requests) == 1


async def test_key_that_may_be_forgotten_is_asked_about_where_there_is_a_lookup(
    world: World,
) -> None:
    """P2, with a probe."""
    await world.open(
        contract(key_retention="60s", short_horizon=True, probe={"consistency": "strong"})
    )
    effect = (await world.submit("order:1:charge:v1", "lose_answer")).effect
    await world.dispatcher().run_once()
    await world.let_pass(100)
    await world.settle(passes=3)
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert (await world.receipt(effect.effect_id))["source"] == "probe"
    assert len(world.target.requests) == 1


@guarantee("horizon-forbids-send")
async def test_redispatch_that_was_permitted_inside_the_window_is_not_sent_after_it(
    world: World,
) -> None:
    """C13: a key of ten minutes, permitted in time, and claimed two seconds before its
    end.
    """
    await world.open(contract(key_retention="10m", short_horizon=True))
    effect = (await world.submit("order:1:charge:v1", "lose_answer")).effect
    await world.dispatcher().run_once()
    await world.let_pass(5)
    await world.reconciler().run_once()
    assert await world.status(effect.effect_id) is EffectStatus.PREPARED
    await world.let_pass(600 - 5 - 2)
    report = await world.dispatcher().run_once()
    assert (report.attempts, report.refused) == (0, 1)
    assert await world.status(effect.effect_id) is EffectStatus.MANUAL_REVIEW
    assert len(world.target.requests) == 1
    assert world.meter.counts["sends_prevented_total"] == 1


async def test_target_that_is_still_busy_is_asked_again_under_the_same_key(
    world: World,
) -> None:
    await world.open(contract(redispatch_limit=1))
    effect = (
        await world.submit(
            "order:1:charge:v1", "lose_answer", "in_progress", "in_progress"
        )
    ).effect
    await world.settle()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert len(world.target.objects) == 1
    assert len(world.target.requests) == 4


async def test_key_reused_with_other_parameters_stops_every_further_send(
    world: World,
) -> None:
    await world.open(contract())
    effect = (await world.submit("order:1:charge:v1", "key_conflict")).effect
    await world.settle()
    assert await world.status(effect.effect_id) is EffectStatus.MANUAL_REVIEW
    assert len(world.target.requests) == 1


@guarantee("unproved-attempt-blocks-failure")
@pytest.mark.parametrize("ending", ["reject", "not_executed", "not_sent"])
async def test_later_proof_about_one_attempt_does_not_clear_an_earlier_one(
    world: World, ending: str
) -> None:
    await world.open(contract(key_records="commits", redispatch_limit=1))
    effect = (await world.submit("order:1:charge:v1", "lose_request", ending)).effect
    await world.dispatcher().run_once()
    await world.let_pass(5)
    await world.reconciler().run_once()
    await world.dispatcher().run_once()
    assert len(await world.ledger.attempts(world.tenant.tenant_id, effect.effect_id)) == 2
    assert await world.status(effect.effect_id) is EffectStatus.OUTCOME_UNKNOWN
    assert await world.unknown_since(effect.effect_id) is not None
