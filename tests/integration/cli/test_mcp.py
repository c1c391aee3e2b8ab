"""`effect-broker mcp`: the official client over standard input and output, and HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from tests.guarantees import guarantee
from tests.integration.cli.commands import Commands
from tests.integration.functions.invoking import CONTRACTS, effects

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


def line(request_id: object, method: str, params: object = None) -> bytes:
    message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return json.dumps(message | ({} if params is None else {"params": params})).encode()


def call(request_id: object, arguments: object) -> bytes:
    params = {"name": "sim.charge", "arguments": arguments}
    return line(request_id, "tools/call", params)


HANDSHAKE = (
    line(
        "hello",
        "initialize",
        {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        },
    ),
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
)
CANARY = "CARD-4242424242424242"

REFUSED_LINES: list[tuple[bytes, object, int, str]] = [
    (call(1, CHARGE).replace(b'"id": 1', b'"id": 1, "id": 2'), None, -32700, "json"),
    (call(2, CHARGE).replace(b"100", b'1, "amount": 100'), 2, -32700, "json"),
    (call(3, CHARGE).replace(b"100", b"NaN"), 3, -32700, "json"),
    (call(4, CHARGE).replace(b"100", b"9007199254740993"), 4, -32700, "json"),
    (call("five", {**CHARGE, "amount": "\ud800"}), "five", -32700, "json"),
    (call(12, CHARGE).replace(b"100", b"1e400"), 12, -32700, "json"),
    (b"x", None, -32700, "json"),
    (b"\xff\xfe", None, -32700, "json"),
    (b"[" + call(6, CHARGE) + b"]", None, -32600, "request"),
    (line(7, "tools/call", CANARY), 7, -32600, "request"),
    (line(True, "tools/call", {"name": CANARY}), None, -32600, "request"),
    (call(8, {**CHARGE, "note": "x" * 400_000}), 8, -32600, "request_too_large"),
    (call(9, {"note": "x" * 5_000_000}), None, -32600, "request_too_large"),
    (call(10, CANARY), 10, -32602, "parameters"),
    (line(11, "tools/call", {"name": [CANARY]}), 11, -32602, "parameters"),
]


@guarantee("nothing-in-the-clear")
def test_line_that_is_refused_is_answered_on_stdio_by_its_id_and_repeats_nothing(
    key: str, fresh_database: str
) -> None:
    sent = [*HANDSHAKE, *(it[0] for it in REFUSED_LINES), b"", call("last", CHARGE)]
    with subprocess.Popen(
        [sys.executable, "-m", "effect_broker", "mcp", "--wait", "0"],
        env={**os.environ, "EFFECT_BROKER_API_KEY": key},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(it + b"\n" for it in sent))
        process.stdin.flush()
        patience = threading.Timer(30, process.kill)
        patience.start()
        answers = [process.stdout.readline() for _ in range(len(REFUSED_LINES) + 2)]
        patience.cancel()
        process.stdin.close()
        assert process.wait(timeout=20) == 0
    assert CANARY.encode() not in b"".join(answers)
    told = [json.loads(it) for it in answers]
    results = {it["id"]: it["result"] for it in told if "result" in it}
    assert set(results) == {"hello", "last"}
    effect = results["last"]["structuredContent"]
    assert (effect["status"], effect["replayed"]) == ("prepared", False)
    assert effects(fresh_database) == 1
    errors = [(it["id"], it["error"]) for it in told if "error" in it]
    for _, request_id, code, word in REFUSED_LINES:
        assert any(
            (found, error["code"]) == (request_id, code) and word in error["message"]
            for found, error in errors
        ), (request_id, code, word)
    assert len(errors) == len(REFUSED_LINES)


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
