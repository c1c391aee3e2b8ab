"""The deployed HTTP API, used as `curl` would use it with the values of `.local/env`."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from examples.crash_matrix.stack import Stack
from examples.crash_matrix.user import User
from tests.e2e.acting import an_order, invoke, settled, submitted
from tests.guarantees import guarantee

# What a caller may wait for a promise that nothing has to be sent for.
ANSWER_SECONDS_MAX = 2.0


def test_a_submitted_effect_is_charged_once_and_has_a_receipt(
    stack: Stack, user: User
) -> None:
    order = an_order()
    answer = user.submit(order)
    effect_id = answer.body["effect_id"]
    assert answer.status == 202
    assert answer.headers["location"] == f"/v1/effects/{effect_id}"
    assert answer.body["replayed"] is False
    assert settled(user, effect_id)["status"] == "succeeded"
    (charge,) = stack.target.charges(order.order)
    receipt = user.receipt(effect_id)
    assert receipt.status == 200
    assert receipt.body["external_id"] == charge.id
    assert receipt.body["output"]["amount"] == order.amount == charge.amount


@guarantee("one-intent-per-key")
def test_ten_submissions_at_once_are_one_effect_and_one_charge(
    stack: Stack, user: User
) -> None:
    order = an_order()
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(user.submit, [order] * 10))
    assert sorted(answer.status for answer in answers) == [200] * 9 + [202]
    (effect_id,) = {answer.body["effect_id"] for answer in answers}
    assert settled(user, effect_id)["status"] == "succeeded"
    assert len(stack.target.posts(order.order)) == 1


def test_an_answer_waits_for_the_receipt_if_asked_to(stack: Stack, user: User) -> None:
    order = an_order()
    headers = {"Prefer": "wait=20"}
    answer = user.call("POST", "/v1/effects", json=order.submission, headers=headers)
    assert answer.status == 202
    assert answer.headers["preference-applied"] == "wait=20"
    assert answer.body["status"] == "succeeded"
    (charge,) = stack.target.charges(order.order)
    assert answer.body["receipt"]["external_id"] == charge.id


@guarantee("replay-answers-the-same")
def test_an_identical_submission_is_answered_with_the_same_receipt(
    stack: Stack, user: User
) -> None:
    order = an_order()
    effect_id = submitted(user, order)
    settled(user, effect_id)
    again = user.submit(order)
    assert (again.status, again.body["replayed"]) == (200, True)
    assert again.body["effect_id"] == effect_id
    assert again.body["receipt"] == user.receipt(effect_id).body
    assert len(stack.target.posts(order.order)) == 1


@guarantee("drift-is-refused")
def test_changed_arguments_are_refused_and_charge_nothing(
    stack: Stack, user: User
) -> None:
    order = an_order()
    effect_id = submitted(user, order)
    settled(user, effect_id)
    drifted = user.submit(replace(order, amount=order.amount + 1, currency="USD"))
    assert (drifted.status, drifted.body["code"]) == (409, "payload_drift")
    assert drifted.headers["content-type"] == "application/problem+json"
    assert drifted.body["effect_id"] == effect_id
    assert drifted.body["effect_status"] == "succeeded"
    assert drifted.body["differing_fields"] == ["amount", "currency"]
    (charge,) = stack.target.charges(order.order)
    assert (charge.amount, charge.currency) == (order.amount, order.currency)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"operation_key": "a:1", "operation_key": "b:1"}', 400, "invalid_json"),
        (b'{"amount": NaN}', 400, "invalid_json"),
        (b'{"amount": "\\ud800"}', 400, "invalid_json"),
        (b'{"tool": "t", "arguments": {}}', 400, "invalid_operation_key"),
        (
            b'{"operation_key": "a:1", "tool": "no.tool", "arguments": {}}',
            404,
            "unknown_tool",
        ),
        (b'{"a": "' + b"a" * (300 * 1024) + b'"}', 413, "request_too_large"),
    ],
)
def test_a_body_that_cannot_be_meant_is_a_problem_through_the_gateway_too(
    stack: Stack, user: User, body: bytes, status: int, code: str
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = user.call("POST", "/v1/effects", content=body, headers=headers)
    assert (answer.status, answer.body["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_wrong_key_opens_nothing(stack: Stack) -> None:
    order = an_order()
    with User(stack.url, "ebk_nobody_secret") as stranger:
        answer = stranger.submit(order)
    assert (answer.status, answer.body["code"]) == (401, "unauthenticated")
    assert stack.target.requests(order.order) == []


def test_an_answer_does_not_wait_for_a_slow_target(stack: Stack, user: User) -> None:
    order = an_order()
    stack.target.fault("hold_before_commit", order=order.order)
    user.call("GET", "/v1/tools")
    began = time.monotonic()
    effect_id = submitted(user, order)
    stack.target.wait_held(order.order)
    again = user.submit(order)
    took = time.monotonic() - began
    assert (again.status, again.body["effect_id"]) == (200, effect_id)
    assert again.body["terminal"] is False
    assert again.body["receipt"] is None
    assert took < ANSWER_SECONDS_MAX
    stack.target.release(order.order)
    assert settled(user, effect_id)["status"] == "succeeded"
    assert len(stack.target.charges(order.order)) == 1


def test_a_workflow_submits_through_its_tenants_alias_and_no_other(
    stack: Stack, user: User
) -> None:
    order = an_order()
    event = {"operation": "submit", **order.submission}
    raised, said = invoke(stack, "submit", event, alias="live")
    assert raised
    assert "forbidden" in said["errorMessage"]
    raised, said = invoke(stack, "submit", event, alias="tenant-demo")
    assert not raised
    assert settled(user, said["effect_id"])["status"] == "succeeded"
    assert len(stack.target.charges(order.order)) == 1
