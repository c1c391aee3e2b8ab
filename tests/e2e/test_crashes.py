"""Workers die after the target's commit; the next step is what the target can prove."""

from __future__ import annotations

from datetime import datetime, timedelta

from examples.crash_matrix.stack import Stack
from examples.crash_matrix.user import User
from tests.e2e.acting import (
    an_order,
    held_worker,
    invoke,
    nudge,
    nudges,
    submitted,
    submitted_and_killed,
    swept,
    terminal,
    with_status,
)
from tests.guarantees import guarantee

SETTLEMENT_BOUND = timedelta(seconds=2)  # of demo-charge-lookup
instant = datetime.fromisoformat


@guarantee("expired-lease-is-unknown", "same-downstream-key", "idempotent-inside-horizon")
def test_a_charge_whose_worker_died_is_sent_again_under_its_key_and_stays_one(
    own_stack: Stack, user: User
) -> None:
    order = an_order("demo.charge.keyed")
    effect_id = submitted_and_killed(own_stack, user, order)
    effect = swept(own_stack, lambda: terminal(user, effect_id))
    assert effect["status"] == "succeeded"
    assert [event["type"] for event in effect["history"]] == [
        "EffectReserved",
        "AttemptStarted",
        "OutcomeLost",
        "ReconciliationStarted",
        "RedispatchPermitted",
        "AttemptStarted",
        "ReceiptRecorded",
    ]
    (charge,) = own_stack.target.charges(order.order)
    assert user.receipt(effect_id).body["external_id"] == charge.id
    posts = own_stack.target.posts(order.order)
    assert len(posts) == len(effect["attempts"]) == 2
    assert {post.idempotency_key for post in posts} == {charge.key}


def test_a_charge_whose_worker_died_is_found_by_the_lookup_and_not_sent_again(
    own_stack: Stack, user: User
) -> None:
    order = an_order("demo.charge.lookup")
    effect_id = submitted_and_killed(own_stack, user, order)
    effect = swept(own_stack, lambda: terminal(user, effect_id))
    assert (effect["status"], len(effect["attempts"])) == ("succeeded", 1)
    (charge,) = own_stack.target.charges(order.order)
    receipt = user.receipt(effect_id).body
    assert (receipt["source"], receipt["external_id"]) == ("probe", charge.id)
    assert len(own_stack.target.posts(order.order)) == 1


@guarantee("reconcilable-probes-first", "negative-waits-for-settlement")
def test_a_charge_that_never_arrived_is_sent_again_only_after_settlement(
    own_stack: Stack, user: User
) -> None:
    order = an_order("demo.charge.lookup")
    own_stack.target.fault("drop_before_commit", order=order.order)
    effect_id = submitted(user, order)
    effect = swept(own_stack, lambda: terminal(user, effect_id))
    assert (effect["status"], len(effect["attempts"])) == ("succeeded", 2)
    assert len(own_stack.target.charges(order.order)) == 1
    permitted = next(
        event for event in effect["history"] if event["type"] == "RedispatchPermitted"
    )
    deadline = instant(effect["attempts"][0]["send_deadline"])
    assert permitted["metadata"]["reason"] == "absent_after_settlement"
    assert instant(permitted["at"]) >= deadline + SETTLEMENT_BOUND


@guarantee("unsafe-at-most-once")
def test_a_charge_that_nobody_can_ask_about_is_unknown_until_an_operator_says(
    own_stack: Stack, user: User, operator: User
) -> None:
    order = an_order("demo.charge.plain")
    effect_id = submitted_and_killed(own_stack, user, order)
    effect = swept(own_stack, lambda: with_status(user, effect_id, "outcome_unknown"))
    listed = {e["effect_id"]: e for e in user.effects(status="outcome_unknown")}
    assert listed[effect_id]["contract"]["name"] == "demo-charge-plain"
    assert "fail" not in listed[effect_id]["outcome"].lower()
    assert user.receipt(effect_id).status == 404
    assert user.submit(order).status == 200
    assert len(own_stack.target.posts(order.order)) == 1
    (charge,) = own_stack.target.charges(order.order)
    finding = {
        "decision": "committed",
        "reason": "it stands in the target's list",
        "evidence": {"charge": charge.id},
        "observed_at": charge.created_at,
        "expected_version": effect["version"],
        "decision_id": f"ticket-{order.order}",
        "external_id": charge.id,
    }
    assert user.resolve(effect_id, **finding).status == 403
    assert operator.resolve(effect_id, **finding).body["status"] == "succeeded"
    receipt = user.submit(order).body["receipt"]
    assert (receipt["source"], receipt["external_id"]) == ("operator", charge.id)
    assert len(own_stack.target.posts(order.order)) == 1


def test_one_event_delivered_three_times_sends_what_the_claim_permits(
    own_stack: Stack, user: User
) -> None:
    order = an_order("demo.charge.keyed")
    own_stack.target.fault("hold_after_commit", order=order.order)
    effect_id = submitted(user, order)
    held_worker(own_stack, order).kill()
    own_stack.target.release(order.order)
    event = nudges([nudge(effect_id)])
    for _ in range(2):
        raised, said = invoke(own_stack, "dispatch", event)
        assert not raised
        assert said["batchItemFailures"] == []
    assert len(own_stack.target.posts(order.order)) == 1
    effect = swept(own_stack, lambda: terminal(user, effect_id))
    assert (effect["status"], len(effect["attempts"])) == ("succeeded", 2)
    assert len(own_stack.target.charges(order.order)) == 1


def test_a_reconciler_that_dies_twice_while_it_asks_is_no_end_of_recovery(
    own_stack: Stack, user: User
) -> None:
    order = an_order("demo.charge.lookup")
    target = own_stack.target
    target.fault("drop_after_commit", order=order.order)
    target.fault("hold_after_commit", order=order.order, on="lookup", times=2)
    effect_id = submitted(user, order)
    for _ in range(2):
        swept(
            own_stack, lambda: target.wait_held(order.order, count=0, seconds=0) or None
        )
        held_worker(own_stack, order, function="reconcile").kill()
        target.release(order.order)
    effect = swept(own_stack, lambda: terminal(user, effect_id))
    assert (effect["status"], len(effect["attempts"])) == ("succeeded", 1)
    assert len(target.posts(order.order)) == len(target.charges(order.order)) == 1
