"""The sample state machine, deployed to the local AWS and run.

The emulator calls a function out of a state machine by its version, and so hides the
alias that says for whom. The handler is not weakened for it: a relay between the two
invokes the alias, as any caller with the right may.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from examples import state_machine
from examples.crash_matrix.stack import Stack
from examples.crash_matrix.user import Order, User
from tests.e2e.acting import SETTLED_SECONDS_MAX, an_order, held_worker, reached, swept
from tests.guarantees import guarantee

ROLE = "arn:aws:iam::000000000000:role/state-machine"
RELAY = Path(state_machine.__file__).parent / "relay.py"


@pytest.fixture(scope="module")
def machine(running_stack: Stack) -> Iterator[str]:
    """Yield the ARN of the deployed state machine."""
    functions, states = running_stack.aws("lambda"), running_stack.aws("stepfunctions")
    name = f"order-{uuid4().hex[:8]}"
    relay = functions.create_function(
        FunctionName=name,
        Runtime="python3.13",
        Role=ROLE,
        Handler="relay.handler",
        Timeout=60,
        Code={"ZipFile": zipped(RELAY)},
        Environment={"Variables": {"SUBMIT_ALIAS": alias(running_stack)}},
    )["FunctionArn"]
    arn = states.create_state_machine(
        name=name, roleArn=ROLE, definition=state_machine.definition(relay)
    )["stateMachineArn"]
    yield arn
    states.delete_state_machine(stateMachineArn=arn)
    functions.delete_function(FunctionName=name)


def zipped(file: Path) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(file, file.name)
    return packed.getvalue()


def alias(stack: Stack) -> str:
    named = stack.aws("lambda").get_alias(
        FunctionName=stack.name_of("submit"), Name="tenant-demo"
    )
    return str(named["AliasArn"])


def started(stack: Stack, machine: str, order: Order) -> str:
    execution = stack.aws("stepfunctions").start_execution(
        stateMachineArn=machine,
        name=f"{order.order}-{uuid4().hex[:6]}",
        input=json.dumps(
            {"order": order.order, "amount": order.amount, "currency": order.currency}
        ),
    )
    return str(execution["executionArn"])


def ended(stack: Stack, execution: str) -> dict[str, Any]:
    """Wait until an execution has ended."""

    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = stack.aws("stepfunctions").describe_execution(
            executionArn=execution
        )
        return found if found["status"] != "RUNNING" else None

    return reached(look, 3 * SETTLED_SECONDS_MAX)


def test_workflow_goes_on_with_the_receipt_of_its_charge(
    stack: Stack, user: User, machine: str
) -> None:
    order = an_order()
    done = ended(stack, started(stack, machine, order))
    assert done["status"] == "SUCCEEDED", done
    charge = json.loads(done["output"])["charge"]
    (booked,) = stack.target.charges(order.order)
    assert charge["receipt"]["external_id"] == booked.id
    assert charge["receipt"] == user.receipt(charge["effect_id"]).body


@guarantee("one-intent-per-key")
def test_second_execution_for_the_order_finds_the_first_ones_charge(
    stack: Stack, machine: str
) -> None:
    order = an_order()
    executions = [started(stack, machine, order) for _ in range(2)]
    done = [ended(stack, execution) for execution in executions]
    assert [it["status"] for it in done] == ["SUCCEEDED"] * 2
    first, second = (json.loads(it["output"])["charge"] for it in done)
    assert first["effect_id"] == second["effect_id"]
    assert len(stack.target.charges(order.order)) == 1


def test_worker_killed_after_the_commit_leaves_the_workflow_waiting_and_one_charge(
    own_stack: Stack, machine: str
) -> None:
    order = an_order()
    own_stack.target.fault("hold_after_commit", order=order.order)
    execution = started(own_stack, machine, order)
    held_worker(own_stack, order).kill()
    own_stack.target.release(order.order)

    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = own_stack.aws("stepfunctions").describe_execution(
            executionArn=execution
        )
        return found if found["status"] != "RUNNING" else None

    assert look() is None
    done = swept(own_stack, look)
    assert done["status"] == "SUCCEEDED", done
    assert len(own_stack.target.charges(order.order)) == 1
