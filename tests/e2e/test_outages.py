"""Nudges get lost, batches hold nonsense, the ledger goes away: nothing is sent twice."""

from __future__ import annotations

import json

import pytest

from effect_broker.embedded import EmbeddedPostgres
from examples.crash_matrix.stack import Stack
from examples.crash_matrix.user import Order, User
from tests.e2e.acting import (
    an_order,
    invoke,
    nudge,
    nudges,
    nudges_lost,
    settled,
    stands_at,
    submitted,
)
from tests.guarantees import guarantee

SWEEP = {"operation": "sweep"}


def test_an_effect_whose_nudge_was_lost_is_found_by_the_sweep(
    own_stack: Stack, user: User
) -> None:
    order = an_order()
    with nudges_lost(own_stack):
        effect_id = submitted(user, order)
    own_stack.sweep("dispatch")
    assert settled(user, effect_id)["status"] == "succeeded"
    assert len(own_stack.target.charges(order.order)) == 1


@guarantee("lost-answer-is-unknown")
@pytest.mark.parametrize(
    ("tool", "status", "attempts"),
    [
        ("demo.charge.keyed", "succeeded", 2),
        ("demo.charge.lookup", "succeeded", 1),
        ("demo.charge.plain", "outcome_unknown", 1),
    ],
)
def test_a_lost_answer_is_settled_by_nudges_as_far_as_the_target_can_prove(
    stack: Stack, user: User, tool: str, status: str, attempts: int
) -> None:
    order = an_order(tool)
    stack.target.fault("drop_after_commit", order=order.order)
    effect_id = submitted(user, order)
    stands_at(user, effect_id, status)
    assert len(user.effect(effect_id)["attempts"]) == attempts
    assert user.submit(order).body["effect_id"] == effect_id
    assert len(stack.target.posts(order.order)) == attempts
    assert len(stack.target.charges(order.order)) == 1


def test_a_batch_hands_back_only_the_nudge_that_nobody_can_read(
    own_stack: Stack, user: User
) -> None:
    orders = [an_order() for _ in range(7)]
    lost, drifted = an_order("demo.charge.plain"), an_order()
    own_stack.target.fault("drop_after_commit", order=lost.order)
    own_stack.target.fault(
        "status", order=drifted.order, status=409, code="idempotency_key_reuse"
    )
    with nudges_lost(own_stack):
        effects = {order: submitted(user, order) for order in [*orders, lost, drifted]}
        bodies = ["{no nudge", *(nudge(effect_id) for effect_id in effects.values())]
        first = invoke(own_stack, "dispatch", nudges(bodies))
        _assert_outcomes(user, effects, orders, lost, drifted)
        again = invoke(own_stack, "dispatch", nudges(bodies))
    for raised, said in (first, again):
        assert not raised
        assert said["batchItemFailures"] == [{"itemIdentifier": "0"}]
    _assert_outcomes(user, effects, orders, lost, drifted)
    for order in effects:
        assert len(own_stack.target.posts(order.order)) == 1


def _assert_outcomes(
    user: User,
    effects: dict[Order, str],
    orders: list[Order],
    lost: Order,
    drifted: Order,
) -> None:
    """Wait for each, since the minute's own sweep may have got hold of some."""
    expected = dict.fromkeys(orders, "succeeded")
    expected |= {lost: "outcome_unknown", drifted: "manual_review"}
    for order, status in expected.items():
        stands_at(user, effects[order], status)


@guarantee("no-ledger-no-dispatch")
def test_without_its_ledger_the_broker_takes_nothing_and_sends_nothing(
    own_stack: Stack, user: User
) -> None:
    order, waiting = an_order(), an_order()
    with nudges_lost(own_stack):
        waiting_id = submitted(user, waiting)
    server = EmbeddedPostgres.found_in(own_stack.workspace.postgres)
    assert server is not None
    server.stop()
    try:
        refused = user.submit(order)
        ready = user.call("GET", "/readyz")
        event = {"operation": "submit", **order.submission}
        direct = invoke(own_stack, "submit", event, alias="tenant-demo")
        workers = [invoke(own_stack, name, SWEEP) for name in ("dispatch", "reconcile")]
    finally:
        server.restart()
    for answer in (refused, ready):
        assert (answer.status, answer.body["code"]) == (503, "ledger_unavailable")
    assert int(refused.headers["retry-after"]) > 0
    for raised, said in (direct, *workers):
        assert raised
        assert json.loads(said["errorMessage"])["code"] == "ledger_unavailable"
    assert own_stack.target.requests(order.order) == []
    assert own_stack.target.requests(waiting.order) == []
    own_stack.sweep("dispatch")
    assert settled(user, waiting_id)["status"] == "succeeded"
    assert settled(user, submitted(user, order))["status"] == "succeeded"
    assert len(own_stack.target.charges(order.order)) == 1
