"""Messages that are none: refused before the SDK, by their id, repeating nothing."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import pytest_asyncio

from effect_broker.surfaces.mcp.envelope import EnvelopeRefused, check_envelope
from tests.guarantees import guarantee
from tests.integration.broker.conftest import memory_world
from tests.integration.broker.world import contract
from tests.integration.mcp.test_serving import Served, calling

DIGITS = "4242424242424242"
CANARY = f"CARD-{DIGITS}"
MODERN = "2026-07-28"
INVALID_REQUEST = -32600
ENVELOPE = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}


@pytest_asyncio.fixture
async def served() -> Served:
    world = memory_world()
    await world.open(contract())
    return Served(world)


def request(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", **members}


NO_MESSAGES: list[Any] = [
    request(params=CANARY),
    request(params=[CANARY]),
    request(params=int(DIGITS)),
    [request(params={"name": CANARY, "arguments": {"card": CANARY}})],
    [],
    CANARY,
    None,
    request(jsonrpc=CANARY, params={}),
    request(method={"name": CANARY}),
    request(id={"card": CANARY}),
    request(id=[CANARY]),
    request(id=True, params={"name": CANARY}),
    request(id=None, params={"name": CANARY}),
    request(id=1.5, params={"name": CANARY}),
    request(result={"card": CANARY}),
    request(error={"code": 1, "message": CANARY}),
    {"jsonrpc": "2.0", "id": 1, "result": {"card": CANARY}},
    {"id": 1, "method": "tools/call", "params": {"arguments": {"card": CANARY}}},
]

NO_CALLS: list[Any] = [
    request(params={"name": [CANARY], "arguments": {}}),
    request(params={"name": {"card": CANARY}}),
    request(params={"arguments": {"card": CANARY}}),
    request(params={"name": "sim.charge", "arguments": CANARY}),
    request(params={"name": "sim.charge", "arguments": [CANARY]}),
    request(params={"name": "sim.charge", "arguments": {"operation_key": [CANARY]}}),
    request(params={"name": "sim.charge", "arguments": {"amount": CANARY}}),
    request(params={"name": "get_effect", "arguments": {"effect_id": CANARY}}),
    request(params={"name": "list_unknown_effects", "arguments": {"limit": CANARY}}),
    request(params={"name": "sim.charge", "_meta": CANARY}),
    request(params={"name": "sim.charge", "_meta": {"progressToken": [CANARY]}}),
    request(method="tools/list", params={"cursor": [CANARY]}),
    request(method="initialize", params={"capabilities": CANARY}),
    request(method="ping", params={"_meta": [CANARY]}),
]


async def posted(served: Served, body: Any, **headers: str) -> Any:
    async with served.http(await served.key("submit", "read")) as http:
        described = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        content = json.dumps(body)
        return await http.post("/mcp", content=content, headers=described | headers)


@guarantee("nothing-in-the-clear")
@pytest.mark.parametrize("version", [None, "2025-06-18", MODERN])
@pytest.mark.parametrize("message", NO_MESSAGES)
async def test_message_that_is_none_is_an_invalid_request_that_repeats_nothing(
    served: Served, message: Any, version: str | None
) -> None:
    headers = {} if version is None else {"MCP-Protocol-Version": version}
    answer = await posted(served, message, **headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == INVALID_REQUEST
    assert answer.json()["error"]["message"].startswith("invalid_request: ")
    assert DIGITS not in answer.text


@guarantee("nothing-in-the-clear")
@pytest.mark.parametrize("version", [None, "2025-06-18", MODERN])
@pytest.mark.parametrize("message", NO_CALLS)
async def test_call_that_is_malformed_is_refused_without_its_arguments(
    served: Served,
    message: Any,
    version: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "effect_broker")
    caplog.set_level(logging.INFO)
    headers = {} if version is None else {"MCP-Protocol-Version": version}
    if version == MODERN:
        headers["Mcp-Method"] = message["method"]
        headers["Mcp-Name"] = str(message["params"].get("name", ""))
        message = message | {"params": ENVELOPE | message["params"]}
    answer = await posted(served, message, **headers)
    result = answer.json()
    assert "error" in result or result["result"]["isError"]
    assert DIGITS not in answer.text
    assert DIGITS not in caplog.text


@pytest.mark.parametrize(
    ("raw", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":NaN}}', 7),
        (b'{"jsonrpc":"2.0","id":"x","method":"m","params":{"a":1,"a":2}}', "x"),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"\\ud800"}}', 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"id":1,"id":2}}', 7),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', 7),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}', None),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}', None),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"m"}', None),
        (b'{"jsonrpc":"2.0","id":1e400,"method":"m"}', None),
        (b'{"jsonrpc":"2.0","id":9007199254740993,"method":"m"}', None),
        (b'{"jsonrpc":"2.0","id":true,"method":"m"}', None),
        (b'{"jsonrpc":"2.0","id":5,"result":{}}', None),
        (b'{"jsonrpc":"2.0","id":5,"error":{"code":NaN}}', None),
        (b'[{"jsonrpc":"2.0","id":5,"method":"m"}]', None),
        (b'{"jsonrpc":"2.0","id":5,', None),
        (b"\xff\xfe", None),
        (b"[" * 100_000, None),
        (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"m"}', None),
    ],
)
def test_refused_message_is_answered_by_its_id_where_only_one_can_be_meant(
    raw: bytes, request_id: object
) -> None:
    with pytest.raises(EnvelopeRefused) as refused:
        check_envelope(raw)
    assert refused.value.document()["id"] == request_id


async def test_request_without_params_is_no_malformed_one(served: Served) -> None:
    for message in (
        {"jsonrpc": "2.0", "id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "id": 0, "method": "ping", "params": None},
    ):
        answer = await posted(served, message)
        assert answer.status_code == 200
        assert answer.json()["id"] == message["id"]
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await posted(served, notification)).status_code == 202
    assert json.loads((await posted(served, calling())).text)["id"] == 1
