"""Declared read-only tools of an upstream pass by; nothing else of it does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from mcp.types import CallToolResult

from effect_broker.clock import SystemClock
from effect_broker.domain.errors import ContractInvalid
from effect_broker.surfaces.auth import Authenticator
from effect_broker.surfaces.mcp.http import McpApp, caller_of
from effect_broker.surfaces.mcp.passing import passing
from effect_broker.surfaces.mcp.server import BrokerTools
from tests.integration.adapters.given import GivenSecrets
from tests.integration.adapters.mcp_upstream import Upstream, running
from tests.integration.broker.conftest import memory_world
from tests.integration.broker.world import contract
from tests.integration.mcp.test_serving import NO_PATIENCE, Served, refused, told


@pytest_asyncio.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with running(Upstream(), stateless=True) as served:
        yield served


@pytest_asyncio.fixture
async def served(upstream: Upstream, tmp_path: Path) -> AsyncIterator[Served]:
    world = memory_world()
    await world.open(contract())
    file = tmp_path / "upstreams.toml"
    file.write_text(
        f'[[upstreams]]\nurl = "{upstream.url}"\nallow_private = true\n'
        'read_only = ["balance", "get_effect", "sim.charge"]\n'
    )
    made = Served(world)
    passed = passing(file, GivenSecrets(), SystemClock())
    tools = BrokerTools(world.broker, caller_of, NO_PATIENCE, passed)
    made.app = McpApp(tools, Authenticator(world.registry))
    yield made
    assert passed is not None
    await passed.aclose()


async def test_declared_tool_is_listed_and_passes_with_its_result(
    served: Served, upstream: Upstream
) -> None:
    async with served.client(await served.key("submit", "read")) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        result = await client.call_tool("balance", {"account": "a"})
    hints = tools["balance"].annotations
    assert hints is not None
    assert hints.read_only_hint is True
    assert told(result)["balance"] == 7
    assert upstream.read == ["a"]


async def test_tool_that_was_not_declared_is_neither_listed_nor_called(
    served: Served, upstream: Upstream
) -> None:
    async with served.client(await served.key("submit", "read")) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        result = await client.call_tool(
            "charge", {"operation_key": "order:1:charge:v1", "amount": 1}
        )
    assert "charge" not in names
    assert isinstance(result, CallToolResult)
    assert refused(result)["code"] == "unknown_tool"
    assert upstream.charged == []


async def test_declaration_takes_no_tool_away_from_a_contract_or_the_broker(
    served: Served, upstream: Upstream
) -> None:
    answer = told(await served.call("sim.charge", {"operation_key": "k:1", "amount": 1}))
    assert answer["status"] == "prepared"
    assert refused(await served.call("get_effect", {"effect_id": "x"}))["code"]
    assert (upstream.charged, upstream.read) == ([], [])


async def test_upstream_that_is_away_takes_nothing_else_with_it(
    served: Served, upstream: Upstream
) -> None:
    key = await served.key("submit", "read")
    passed = served.app.tools.passing
    assert passed is not None
    upstreams: Any = passed.upstreams
    object.__setattr__(upstreams[0]._terms, "url", "http://127.0.0.1:1/mcp")
    async with served.client(key) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        result = await client.call_tool("balance", {"account": "a"})
    assert "sim.charge" in names
    assert "balance" not in names
    assert isinstance(result, CallToolResult)
    assert result.is_error


@pytest.mark.parametrize(
    "text",
    [
        "upstreams = 1",
        '[[upstreams]]\nurl = "https://a.example/mcp"',
        '[[upstreams]]\nurl = "https://a.example/mcp"\nread_only = []',
        '[[upstreams]]\nurl = "https://a.example/mcp"\nread_only = ["x"]\nforce = 1',
        "[[upstreams",
    ],
)
def test_file_that_says_what_it_may_not_is_refused_by_name(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "upstreams.toml"
    file.write_text(text)
    with pytest.raises(ContractInvalid, match=r"upstreams\.toml"):
        passing(file, GivenSecrets(), SystemClock())
    assert passing(None, GivenSecrets(), SystemClock()) is None
