"""What one caller may ask of the MCP surface: so much at once, and so often."""

from __future__ import annotations

import json
from typing import Any

import pytest
import pytest_asyncio

from effect_broker.surfaces.auth import Authenticator
from effect_broker.surfaces.limiting import Rate, RateLimiter
from effect_broker.surfaces.mcp.http import McpApp
from effect_broker.surfaces.requests import BODY_BYTES_MAX
from tests.integration.broker.conftest import memory_world
from tests.integration.broker.world import contract
from tests.integration.mcp.test_serving import TOOL, Served, calling, charge

HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}


@pytest_asyncio.fixture
async def served() -> Served:
    world = memory_world()
    await world.open(contract())
    return Served(world)


def call_of(size: int) -> bytes:
    """Return a call that would be served, stretched to so many bytes."""
    raw = json.dumps(calling()).encode()
    return raw + b" " * (size - len(raw))


async def post(served: Served, key: str, body: Any) -> Any:
    async with served.http(key) as http:
        return await http.post("/mcp", content=body, headers=HEADERS)


async def in_parts(body: bytes) -> Any:
    for start in range(0, len(body), 10_000):
        yield body[start : start + 10_000]


@pytest.mark.parametrize("in_one", [True, False])
@pytest.mark.parametrize("size", [BODY_BYTES_MAX + 1, 300_000])
async def test_body_that_is_too_long_is_413_and_stores_nothing(
    served: Served, size: int, in_one: bool
) -> None:
    key, body = await served.key("submit"), call_of(size)
    answer = await post(served, key, body if in_one else in_parts(body))
    assert answer.status_code == 413
    assert answer.json()["code"] == "request_too_large"
    assert served.world.ledger._effects == {}  # type: ignore[attr-defined]


async def test_body_of_the_greatest_length_is_served(served: Served) -> None:
    answer = await post(served, await served.key("submit"), call_of(BODY_BYTES_MAX))
    assert answer.status_code == 200
    assert answer.json()["result"]["isError"] is False


async def test_key_that_asks_faster_than_it_may_is_429_and_stores_nothing(
    served: Served,
) -> None:
    now = 0.0
    limiter = RateLimiter(Rate(1, 1), monotonic=lambda: now)
    served.app = McpApp(served.app.tools, Authenticator(served.world.registry), limiter)
    key, other = await served.key("submit"), await served.key("submit")
    assert (await post(served, key, json.dumps(calling()))).status_code == 200
    second = calling()
    second["params"] = {"name": TOOL, "arguments": charge("order:2:charge:v1")}
    refused = await post(served, key, json.dumps(second))
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert refused.headers["retry-after"] == "1"
    assert len(served.world.ledger._effects) == 1  # type: ignore[attr-defined]
    assert (await post(served, other, json.dumps(calling()))).status_code == 200
    now = 1.0
    assert (await post(served, key, json.dumps(second))).status_code == 200
