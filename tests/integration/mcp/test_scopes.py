"""A key may do over MCP what it may do over HTTP, with one exception that is meant."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
import pytest_asyncio
from mcp.types import CallToolResult

from effect_broker.surfaces.auth import Authenticator
from effect_broker.surfaces.http_api import HttpParts, create_app
from tests.integration.broker.conftest import memory_world
from tests.integration.broker.world import contract
from tests.integration.mcp.test_serving import TOOL, Served, charge, refused, told

SAME = {
    "get_effect": ("GET", "/v1/effects/{}"),
    "get_receipt": ("GET", "/v1/effects/{}/receipt"),
    "request_reconciliation": ("POST", "/v1/effects/{}/reconcile"),
    "list_unknown_effects": ("GET", "/v1/effects"),
}
SCOPES = [("submit",), ("read",), ("operate",), ("submit", "read")]


@pytest_asyncio.fixture
async def served() -> Served:
    world = memory_world()
    await world.open(contract())
    return Served(world)


async def ready() -> None:
    """The ledger is in memory."""


async def by_http(served: Served, name: str, effect_id: str, key: str) -> bool:
    world = served.world
    parts = HttpParts(world.broker, Authenticator(world.registry), ready)
    transport = httpx2.ASGITransport(create_app(parts))
    method, path = SAME[name]
    async with httpx2.AsyncClient(transport=transport, base_url="http://api") as http:
        headers = {"Authorization": f"Bearer {key}"}
        answer = await http.request(method, path.format(effect_id), headers=headers)
    assert answer.status_code in (200, 403), answer.text
    return answer.status_code == 200


async def by_mcp(served: Served, name: str, effect_id: str, key: str) -> bool:
    arguments = {} if name == "list_unknown_effects" else {"effect_id": effect_id}
    async with served.client(key) as client:
        offered = {tool.name for tool in (await client.list_tools()).tools}
        result = await client.call_tool(name, arguments)
    assert isinstance(result, CallToolResult)
    if result.is_error:
        assert refused(result)["code"] == "forbidden"
    assert (name in offered) is not result.is_error
    return not result.is_error


@pytest.mark.parametrize("scopes", SCOPES)
@pytest.mark.parametrize("name", SAME)
async def test_key_is_allowed_by_mcp_what_http_allows_and_to_ask_for_its_effect(
    served: Served, name: str, scopes: tuple[str, ...]
) -> None:
    effect_id = told(await served.call(TOOL, charge()))["effect_id"]
    await served.world.dispatcher().run_once()
    key = await served.key(*scopes)
    over_http = await by_http(served, name, effect_id, key)
    expected = over_http or (name, scopes) == ("get_effect", ("submit",))
    assert await by_mcp(served, name, effect_id, key) is expected


async def test_agent_that_may_only_submit_can_follow_every_advice(
    served: Served,
) -> None:
    served.world.acts["order:1:charge:v1"] = ["lose_answer"]
    key = await served.key("submit")

    async def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        async with served.client(key) as client:
            result = await client.call_tool(name, arguments)
        assert isinstance(result, CallToolResult)
        return told(result)

    running = await call(TOOL, charge())
    assert "get_effect" in running["advice"]
    await served.world.dispatcher().run_once()
    named = {"effect_id": running["effect_id"]}
    unknown = await call("get_effect", named)
    assert "request_reconciliation" in unknown["advice"]
    assert (await call("request_reconciliation", named))["unknown"] is True
