"""Everybody at once: whoever asks for one key gets one effect, charged once."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Final

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from effect_broker import EffectRequest, SyncEffectBrokerClient
from examples.crash_matrix.stack import Stack
from examples.crash_matrix.user import Order, User
from tests.e2e.acting import an_order, settled
from tests.e2e.test_state_machine import ended, machine, started
from tests.guarantees import guarantee

machine = machine

AT_ONCE_SECONDS_MAX: Final = 30.0

Caller = Callable[[Stack, str, Order], str]
"""Submits an order's charge in its own way, and returns the effect's id."""


def curl(stack: Stack, _: str, order: Order) -> str:
    key = stack.values["EFFECT_BROKER_API_KEY"]
    said = ran(
        "curl",
        "-sS",
        "--fail-with-body",
        f"{stack.url}/v1/effects",
        "-H",
        f"Authorization: Bearer {key}",
        "-H",
        "Content-Type: application/json",
        "-d",
        json.dumps(order.submission),
    )
    return str(json.loads(said)["effect_id"])


def command_line(stack: Stack, _: str, order: Order) -> str:
    told = order.submission
    said = ran(
        *(sys.executable, "-m", "effect_broker", "effects", "submit", "--json"),
        *("--operation-key", order.operation_key, "--tool", order.tool),
        *("--arguments", json.dumps(told["arguments"])),
        environment={**stack.values, "EFFECT_BROKER_TENANT": "demo"},
    )
    return str(json.loads(said)["effect_id"])


def python_client(stack: Stack, _: str, order: Order) -> str:
    key = stack.values["EFFECT_BROKER_API_KEY"]
    arguments = {
        "order": order.order,
        "amount": order.amount,
        "currency": order.currency,
    }
    with SyncEffectBrokerClient(stack.url, key) as broker:
        request = EffectRequest(order.operation_key, order.tool, arguments)
        return str(broker.submit(request).effect_id)


def workflow(stack: Stack, machine: str, order: Order) -> str:
    done = ended(stack, started(stack, machine, order))
    assert done["status"] == "SUCCEEDED", done
    return str(json.loads(done["output"])["charge"]["effect_id"])


def mcp_client(stack: Stack, _: str, order: Order) -> str:
    """The official client, at the function's own URL."""
    return asyncio.run(_called_by_mcp(stack, order))


async def _called_by_mcp(stack: Stack, order: Order) -> str:
    arguments = {
        "operation_key": order.operation_key,
        "order": order.order,
        "amount": order.amount,
        "currency": order.currency,
    }
    headers = {"Authorization": f"Bearer {stack.values['EFFECT_BROKER_API_KEY']}"}
    url = stack.values["EFFECT_BROKER_MCP_URL"]
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        result = await client.call_tool(order.tool, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return str(result.structured_content["effect_id"])


CALLERS: Final[dict[str, Caller]] = {
    "curl": curl,
    "the command line": command_line,
    "the Python client": python_client,
    "a state machine": workflow,
    "an MCP client": mcp_client,
}


def ran(*command: str, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        env=os.environ | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("times", [1, 3], ids=["once each", "three times each"])
@guarantee("one-intent-per-key")
def test_all_callers_at_once_get_one_effect_and_there_is_one_charge(
    stack: Stack, user: User, machine: str, times: int
) -> None:
    order = an_order()
    calls = list(CALLERS.values()) * times
    together = Barrier(len(calls), timeout=AT_ONCE_SECONDS_MAX)

    def call(caller: Caller) -> str:
        together.wait()
        return caller(stack, machine, order)

    with ThreadPoolExecutor(len(calls)) as pool:
        effect_ids = set(pool.map(call, calls))
    (effect_id,) = effect_ids
    assert settled(user, effect_id)["status"] == "succeeded"
    assert len(stack.target.charges(order.order)) == 1
    assert len(stack.target.posts(order.order)) == 1
