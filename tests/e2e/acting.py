"""What the tests do to the deployed broker and its target."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import uuid4

from examples.crash_matrix.scene import poll
from examples.crash_matrix.stack import Function, Stack
from examples.crash_matrix.user import Order, User
from examples.crash_matrix.workers import Worker, holder

SETTLED_SECONDS_MAX = 20.0
# A lease, its margin, and a cold worker on a busy machine.
RECOVERED_SECONDS_MAX = 40.0
SWEEP_SECONDS = 1.0

T = TypeVar("T")


def an_order(tool: str = "demo.charge.keyed") -> Order:
    """Return an order that the ledger has never seen."""
    return Order(tool, f"e2e-{uuid4().hex[:12]}")


def submitted(user: User, order: Order) -> str:
    """Submit for the first time, and return the effect's id."""
    answer = user.submit(order)
    assert answer.status == 202, answer.body
    return str(answer.body["effect_id"])


def settled(user: User, effect_id: str) -> dict[str, Any]:
    """Wait, as a caller would, until an effect is terminal."""
    return reached(lambda: terminal(user, effect_id), SETTLED_SECONDS_MAX)


def terminal(user: User, effect_id: str) -> dict[str, Any] | None:
    """Return the effect if it is terminal."""
    effect = user.effect(effect_id)
    return effect if effect["terminal"] else None


def stands_at(user: User, effect_id: str, status: str) -> None:
    """Wait until an effect has a status."""
    reached(lambda: with_status(user, effect_id, status), SETTLED_SECONDS_MAX)


def with_status(user: User, effect_id: str, status: str) -> dict[str, Any] | None:
    """Return the effect if it stands there."""
    effect = user.effect(effect_id)
    return effect if effect["status"] == status else None


def reached(ask: Callable[[], T | None], seconds_max: float) -> T:
    """Wait until there is an answer."""
    answer = poll(ask, seconds_max)
    assert answer is not None, f"not reached within {seconds_max} s"
    return answer


def swept(stack: Stack, ask: Callable[[], T | None]) -> T:
    """Send sweeps as the schedule does, only more often, until there is an answer."""
    deadline = time.monotonic() + RECOVERED_SECONDS_MAX
    while time.monotonic() < deadline:
        stack.sweep("reconcile")
        answer = poll(ask, SWEEP_SECONDS)
        if answer is not None:
            return answer
    raise AssertionError(f"not reached within {RECOVERED_SECONDS_MAX} s")


def held_worker(stack: Stack, order: Order, *, function: Function = "dispatch") -> Worker:
    """Return the worker to which the target owes an answer."""
    stack.target.wait_held(order.order, seconds=SETTLED_SECONDS_MAX)
    return holder(stack, function, order.order)


def submitted_and_killed(stack: Stack, user: User, order: Order) -> str:
    """Submit, and kill the worker between the target's commit and its answer."""
    stack.target.fault("hold_after_commit", order=order.order)
    effect_id = submitted(user, order)
    held_worker(stack, order).kill()
    stack.target.release(order.order)
    assert len(stack.target.charges(order.order)) == 1
    return effect_id


def invoke(
    stack: Stack, function: Function, event: object, *, alias: str = "live"
) -> tuple[bool, Any]:
    """Invoke a function directly; return whether it raised, and what it said."""
    answer = stack.aws("lambda").invoke(
        FunctionName=f"{stack.name_of(function)}:{alias}", Payload=json.dumps(event)
    )
    said = json.loads(answer["Payload"].read())
    return "FunctionError" in answer, said


def nudges(bodies: Sequence[str]) -> dict[str, object]:
    """Return the event of an SQS batch; message ids count from 0."""
    return {
        "Records": [
            {"messageId": str(number), "eventSource": "aws:sqs", "body": body}
            for number, body in enumerate(bodies)
        ]
    }


def nudge(effect_id: str) -> str:
    """Return the body of a nudge."""
    return json.dumps({"effect_id": effect_id})


@contextmanager
def nudges_lost(stack: Stack) -> Iterator[None]:
    """Lose every nudge to dispatch that is sent within the block."""
    functions, url = stack.aws("lambda"), stack.values["DISPATCH_QUEUE_URL"]
    arn = _attribute(stack, url, "QueueArn")
    listed = functions.list_event_source_mappings(EventSourceArn=arn)
    (mapping,) = listed["EventSourceMappings"]
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    try:
        yield
        assert _waiting(stack, url) > 0, "no nudge was sent, so that none was lost"
        stack.aws("sqs").purge_queue(QueueUrl=url)
    finally:
        functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)


def _waiting(stack: Stack, url: str) -> int:
    return int(_attribute(stack, url, "ApproximateNumberOfMessages"))


def _attribute(stack: Stack, url: str, name: str) -> str:
    asked = stack.aws("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=[name])
    return str(asked["Attributes"][name])
