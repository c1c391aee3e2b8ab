"""The official client against the served tools: same key, same effect, no lie."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from mcp import MCPError
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.domain.status import EffectStatus
from effect_broker.surfaces.admin import Administration
from effect_broker.surfaces.auth import Authenticator
from effect_broker.surfaces.mcp.http import McpApp, caller_of
from effect_broker.surfaces.mcp.server import BrokerTools
from tests.guarantees import guarantee
from tests.integration.broker.conftest import memory_world
from tests.integration.broker.world import World, contract

KEY = "order:1:charge:v1"
TOOL = "sim.charge"
NO_PATIENCE = timedelta(0)
OLDER = "2025-06-18"


class Served:
    """One broker's MCP application, and the official client before it."""

    def __init__(self, world: World, patience: timedelta = NO_PATIENCE) -> None:
        self.world = world
        self.app = McpApp(
            BrokerTools(world.broker, caller_of, patience), Authenticator(world.registry)
        )

    async def key(self, *scopes: str, slug: str = "acme") -> str:
        made = await Administration(self.world.registry, ()).create_key(slug, scopes)
        return made.key

    def http(self, key: str | None) -> httpx2.AsyncClient:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        transport = httpx2.ASGITransport(self.app)
        return httpx2.AsyncClient(
            transport=transport, headers=headers, base_url="http://mcp"
        )

    @asynccontextmanager
    async def client(self, key: str, mode: Any = "auto") -> AsyncIterator[Client]:
        async with self.http(key) as http:
            transport = streamable_http_client("http://mcp/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                yield client

    async def call(self, name: str, arguments: Any, *scopes: str) -> CallToolResult:
        key = await self.key(*(scopes or ("submit", "read")))
        async with self.client(key) as client:
            result = await client.call_tool(name, arguments)
        assert isinstance(result, CallToolResult)
        return result


@pytest_asyncio.fixture
async def served() -> Served:
    world = memory_world()
    await world.open(contract(description="Charge a card."))
    await world.registry.create_tenant("other", "Other", "h1")
    return Served(world)


def charge(key: str = KEY, amount: int = 100) -> dict[str, Any]:
    return {"operation_key": key, "amount": amount}


def told(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return dict(result.structured_content)


def refused(result: CallToolResult) -> dict[str, Any]:
    assert result.is_error
    document: dict[str, Any] = json.loads(result.content[0].text)  # type: ignore[union-attr]
    return document


async def test_tools_are_the_contracts_with_an_operation_key_and_those_that_read(
    served: Served,
) -> None:
    async with served.client(await served.key("submit", "read")) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {
        TOOL,
        "get_effect",
        "list_unknown_effects",
        "get_receipt",
        "request_reconciliation",
    }
    schema = tools[TOOL].input_schema
    assert schema["required"] == ["operation_key", "amount"]
    assert schema["properties"]["amount"] == {"type": "integer"}
    hints = tools[TOOL].annotations
    assert hints is not None
    assert (hints.read_only_hint, hints.destructive_hint) == (False, True)
    assert tools[TOOL].output_schema is not None


@guarantee("one-intent-per-key", "replay-answers-the-same")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_call_repeated_under_its_key_is_the_same_effect(
    served: Served, mode: str
) -> None:
    key = await served.key("submit", "read")
    async with served.client(key, mode) as client:
        first = told(await client.call_tool(TOOL, charge()))
    await served.world.dispatcher().run_once()
    async with served.client(key, mode) as client:
        again = told(await client.call_tool(TOOL, charge()))
    assert first["effect_id"] == again["effect_id"]
    assert (first["status"], again["status"]) == ("prepared", "succeeded")
    assert again["replayed"]
    assert again["receipt"]["external_id"]
    assert len(served.world.target.requests) == 1


async def test_running_effect_is_no_error_and_says_not_to_make_a_new_key(
    served: Served,
) -> None:
    answer = told(await served.call(TOOL, charge()))
    assert answer["terminal"] is False
    assert "second effect" in answer["advice"]
    assert "get_effect" in answer["advice"]


@guarantee("lost-answer-is-unknown")
async def test_unknown_effect_is_no_error_and_claims_nothing(served: Served) -> None:
    served.world.acts[KEY] = ["lose_answer"]
    effect_id = told(await served.call(TOOL, charge()))["effect_id"]
    await served.world.dispatcher().run_once()
    answer = told(await served.call("get_effect", {"effect_id": effect_id}))
    assert answer["status"] == "outcome_unknown"
    assert answer["unknown"] is True
    assert "neither done nor failed" in answer["advice"]
    listed = told(await served.call("list_unknown_effects", {}))
    assert [it["effect_id"] for it in listed["effects"]] == [effect_id]
    text = json.dumps([answer, listed]).lower()
    assert '"failed' not in text


async def test_client_that_gives_up_first_and_calls_again_meets_its_effect(
    served: Served,
) -> None:
    patient = Served(served.world, timedelta(seconds=20))
    key = await served.key("submit", "read")
    async with patient.client(key) as client:
        with pytest.raises(Exception, match=r"(?i)time"):
            await client.call_tool(TOOL, charge(), read_timeout_seconds=0.3)
    await served.world.dispatcher().run_once()
    again = told(await served.call(TOOL, charge()))
    assert again["replayed"]
    assert again["status"] == "succeeded"
    assert len(served.world.target.requests) == 1


async def test_answer_waits_a_bounded_time_for_a_slow_target(served: Served) -> None:
    waiting = Served(served.world, timedelta(seconds=0.2))
    begun = asyncio.get_running_loop().time()
    answer = told(await waiting.call(TOOL, charge()))
    assert asyncio.get_running_loop().time() - begun < 3
    assert answer["status"] == "prepared"


@guarantee("drift-is-refused")
async def test_changed_arguments_are_refused_with_the_effect_to_read(
    served: Served,
) -> None:
    effect_id = told(await served.call(TOOL, charge()))["effect_id"]
    problem = refused(await served.call(TOOL, charge(amount=7)))
    assert problem["code"] == "payload_drift"
    assert problem["effect_id"] == effect_id
    assert "new key" in problem["detail"]


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        (TOOL, {"amount": 100}, "operation_key"),
        (TOOL, {"operation_key": " ", "amount": 100}, "operation_key"),
        (TOOL, {"operation_key": KEY, "amount": "100"}, "invalid_arguments"),
        ("no.such.tool", {"operation_key": KEY}, "unknown_tool"),
        ("get_effect", {"effect_id": "no-id"}, "effect_not_found"),
        ("get_effect", {}, "invalid_arguments"),
        ("get_effect", {"effect_id": "x", "force": True}, "invalid_arguments"),
    ],
)
async def test_refusals_are_results_with_stable_codes_and_store_nothing(
    served: Served, name: str, arguments: dict[str, Any], code: str
) -> None:
    problem = refused(await served.call(name, arguments))
    assert code in problem["code"]
    assert served.world.ledger._effects == {}  # type: ignore[attr-defined]


@pytest.mark.parametrize("whole", [1, 1.0])
async def test_integer_is_one_however_it_is_written(served: Served, whole: float) -> None:
    for key in ("order:1", "order:2"):
        served.world.acts[key] = ["lose_answer"]
        effect_id = told(await served.call(TOOL, charge(key)))["effect_id"]
    await served.world.dispatcher().run_once()
    listed = told(await served.call("list_unknown_effects", {"limit": whole}))
    assert (len(listed["effects"]), listed["more"]) == (1, True)
    asked = {"effect_id": effect_id, "wait_seconds": whole - 1}
    assert told(await served.call("get_effect", asked))["unknown"] is True


@pytest.mark.parametrize("number", [1.5, -1, 101, 1e300, True, "1", None])
async def test_number_that_is_no_integer_in_bounds_is_refused_as_an_argument(
    served: Served, number: Any
) -> None:
    problem = refused(await served.call("list_unknown_effects", {"limit": number}))
    assert problem["code"] == "invalid_arguments"
    given = {"effect_id": "x", "wait_seconds": number}
    problem = refused(await served.call("get_effect", given))
    assert problem["code"] == "invalid_arguments"


@guarantee("tenant-from-credential")
async def test_another_tenants_effect_is_not_found_by_any_tool(served: Served) -> None:
    effect_id = told(await served.call(TOOL, charge()))["effect_id"]
    stranger = await served.key("submit", "read", "operate", slug="other")
    async with served.client(stranger) as client:
        for name in ("get_effect", "get_receipt", "request_reconciliation"):
            result = await client.call_tool(name, {"effect_id": effect_id})
            assert isinstance(result, CallToolResult)
            assert refused(result)["code"] == "effect_not_found"
        mine = told(await client.call_tool(TOOL, charge()))
        listed = told(await client.call_tool("list_unknown_effects", {}))
    assert mine["effect_id"] != effect_id
    assert listed["effects"] == []


async def test_key_is_offered_and_allowed_its_scopes_only(served: Served) -> None:
    async with served.client(await served.key("read")) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        result = await client.call_tool(TOOL, charge())
    assert TOOL not in names
    assert isinstance(result, CallToolResult)
    assert refused(result)["code"] == "forbidden"
    refused(await served.call("list_unknown_effects", {}, "submit"))


async def test_agents_key_finds_nothing_that_resolves_or_manages(served: Served) -> None:
    everything = await served.key("submit", "read", "operate")
    async with served.client(everything) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    forbidden = ("resolve", "compensat", "tenant", "key", "fork", "publish")
    assert not [name for name in names if any(it in name for it in forbidden)]
    assert refused(await served.call("resolve", {"effect_id": "x"}))["code"]


async def test_reconciliation_is_asked_for_and_forces_nothing(served: Served) -> None:
    served.world.acts[KEY] = ["lose_answer"]
    effect_id = told(await served.call(TOOL, charge()))["effect_id"]
    await served.world.dispatcher().run_once()
    answer = told(await served.call("request_reconciliation", {"effect_id": effect_id}))
    assert answer["status"] == "outcome_unknown"
    assert len(served.world.target.requests) == 1


async def test_receipt_whose_output_breaks_its_schema_is_no_error(served: Served) -> None:
    effect_id = told(await served.call(TOOL, charge()))["effect_id"]
    await served.world.dispatcher().run_once()
    receipt = told(await served.call("get_receipt", {"effect_id": effect_id}))["receipt"]
    assert receipt["effect_id"] == effect_id


@pytest.mark.parametrize("authorization", [None, "Bearer nonsense", "Basic YTpi"])
async def test_nobody_gets_past_the_door_without_a_key(
    served: Served, authorization: str | None
) -> None:
    async with served.http(None) as http:
        headers = {} if authorization is None else {"Authorization": authorization}
        answer = await http.post("/mcp", json=listing(), headers=headers)
        assert answer.status_code == 401
        assert answer.json()["code"] == "unauthenticated"


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sim.charge",'
        b'"arguments":{"operation_key":"k:1","amount":1,"amount":100}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"amount":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"amount":1e400}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\\ud800"}}',
        b"{",
    ],
)
async def test_body_that_parsers_read_differently_is_refused_before_any_work(
    served: Served, body: bytes
) -> None:
    key = await served.key("submit")
    async with served.http(key) as http:
        answer = await http.post(
            "/mcp", content=body, headers={"Content-Type": "application/json"}
        )
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == -32700
    assert served.world.ledger._effects == {}  # type: ignore[attr-defined]


async def test_session_begun_at_one_instance_goes_on_at_another(served: Served) -> None:
    key = await served.key("submit", "read")
    first, second = Served(served.world), Served(served.world)
    begun = await posted(first, key, initializing(), {})
    assert begun.json()["result"]["protocolVersion"] == OLDER
    session = {
        name: value
        for name, value in begun.headers.items()
        if name.lower() == "mcp-session-id"
    } | {"MCP-Protocol-Version": OLDER}
    called = await posted(second, key, calling(), session)
    await served.world.dispatcher().run_once()
    again = await posted(first, key, calling(), session)
    told_first, told_again = (
        it.json()["result"]["structuredContent"] for it in (called, again)
    )
    assert told_first["effect_id"] == told_again["effect_id"]
    assert (told_first["replayed"], told_again["replayed"]) == (False, True)
    assert told_again["status"] == "succeeded"
    assert len(served.world.target.requests) == 1


async def posted(served: Served, key: str, body: Any, headers: Any) -> httpx2.Response:
    accepted = {"Accept": "application/json, text/event-stream"}
    async with served.http(key) as http:
        answer = await http.post("/mcp", json=body, headers=accepted | headers)
    assert answer.status_code == 200, answer.text
    return answer


async def test_unknown_session_is_of_no_consequence(served: Served) -> None:
    key = await served.key("submit", "read")
    instances = [Served(served.world) for _ in range(3)]
    ids = set()
    for instance in instances:
        async with instance.http(key) as http:
            answer = await http.post(
                "/mcp",
                json=calling(),
                headers={
                    "Accept": "application/json, text/event-stream",
                    "Mcp-Session-Id": "of-another-instance",
                },
            )
        assert answer.status_code == 200, answer.text
        ids.add(answer.json()["result"]["structuredContent"]["effect_id"])
    assert len(ids) == 1


@pytest.mark.parametrize(("method", "status"), [("GET", 405), ("DELETE", 405)])
async def test_streams_are_not_held_open(
    served: Served, method: str, status: int
) -> None:
    async with served.http(await served.key("submit")) as http:
        assert (await http.request(method, "/mcp")).status_code == status


@guarantee("no-ledger-no-dispatch")
async def test_ledger_away_is_said_and_safe_to_repeat(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any, **__: Any) -> Any:
        raise LedgerUnavailable("The ledger is away.")

    key = await served.key("submit")
    async with served.client(key) as client:
        monkeypatch.setattr(served.world.ledger, "reserve", away)
        result = await client.call_tool(TOOL, charge())
    assert isinstance(result, CallToolResult)
    assert refused(result)["code"] == "ledger_unavailable"
    assert "same key" in refused(result)["detail"]
    assert served.world.target.requests == []


@guarantee("nothing-in-the-clear")
async def test_defect_is_told_without_its_text(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("canary-4111")

    key = await served.key("submit")
    async with served.client(key) as client:
        monkeypatch.setattr(served.world.ledger, "reserve", broken)
        result = await client.call_tool(TOOL, charge())
    assert isinstance(result, CallToolResult)
    problem = refused(result)
    assert problem["code"] == "internal_error"
    assert "canary" not in json.dumps(problem)


@guarantee("nothing-in-the-clear")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ZeroDivisionError("canary-4111"), "internal_error"),
        (LedgerUnavailable("canary-4111"), "ledger_unavailable"),
    ],
)
async def test_listing_that_fails_says_so_by_its_code_and_without_its_text(
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    failure: Exception,
    code: str,
) -> None:
    async def broken(*_: Any, **__: Any) -> Any:
        raise failure

    key = await served.key("submit")
    async with served.client(key, mode) as client:
        monkeypatch.setattr(type(served.world.broker), "tools", broken)
        with pytest.raises(MCPError, match=f"^{code}: ") as told_so:
            await client.list_tools()
    assert "canary" not in str(told_so.value)


async def test_many_clients_at_once_make_one_effect(served: Served) -> None:
    results = await asyncio.gather(*(served.call(TOOL, charge()) for _ in range(10)))
    assert len({told(it)["effect_id"] for it in results}) == 1


async def test_status_of_an_effect_is_what_the_ledger_says(served: Served) -> None:
    answer = told(await served.call(TOOL, charge()))
    assert answer["status"] == EffectStatus.PREPARED


def listing() -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


def initializing() -> dict[str, Any]:
    params = {
        "protocolVersion": OLDER,
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    }
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


def calling() -> dict[str, Any]:
    params = {"name": TOOL, "arguments": charge()}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
