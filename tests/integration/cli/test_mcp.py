"""`effect-broker mcp`: the official client over standard input and output, and HTTP."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from tests.integration.cli.commands import Commands
from tests.integration.functions.invoking import CONTRACTS

CHARGE = {"operation_key": "order:1:charge:v1", "amount": 100}
SCOPES = ("--scope", "submit", "--scope", "read")


@pytest.fixture
def key(commands: Commands, tmp_path: Path) -> str:
    contracts = tmp_path / "contracts.toml"
    contracts.write_text(CONTRACTS)
    commands.run("contracts", "publish", str(contracts))
    commands.run("tenants", "create", "shop")
    return str(commands.line("keys", "create", "shop", *SCOPES)["key"])


def told(result: Any) -> dict[str, Any]:
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    return dict(result.structured_content or {})


async def test_client_on_stdio_meets_the_effect_of_the_last_process(key: str) -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "effect_broker", "mcp", "--wait", "0"],
        env={**os.environ, "EFFECT_BROKER_API_KEY": key},
    )
    seen = []
    for _ in range(2):
        async with Client(server) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            seen.append(told(await client.call_tool("sim.charge", CHARGE)))
    assert "sim.charge" in names
    assert seen[0]["effect_id"] == seen[1]["effect_id"]
    assert [it["replayed"] for it in seen] == [False, True]


def test_key_that_opens_nothing_ends_stdio_at_once(key: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "effect_broker", "mcp"],
        env={**os.environ, "EFFECT_BROKER_API_KEY": key[:-1] + "x"},
        capture_output=True,
        text=True,
        check=False,
        input="",
    )
    assert done.returncode == 1
    assert "key" in done.stderr


@pytest.fixture
def served(key: str) -> Iterator[str]:
    """Yield the URL of a process that serves MCP over HTTP."""
    command = [sys.executable, "-m", "effect_broker", "mcp", "--http", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)


async def test_client_over_http_is_served_by_a_plain_process(
    key: str, served: str
) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(served, http_client=http)) as client,
    ):
        answer = told(await client.call_tool("sim.charge", CHARGE))
    assert answer["operation_key"] == CHARGE["operation_key"]
