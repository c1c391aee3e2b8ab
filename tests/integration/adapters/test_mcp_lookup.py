"""A lookup tool of an upstream: it asks by the key and believes what is structured."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, TextContent

from effect_broker.domain.canonical import canonical
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.outcome import ProbeStatus
from tests.integration.adapters.given import KEY
from tests.integration.adapters.mcp_calls import contract, dispatched, fields, probed
from tests.integration.adapters.mcp_upstream import Upstream, result, running

TEXT = CallToolResult(content=[TextContent(type="text", text="nothing found")])


@pytest_asyncio.fixture(params=[True, False], ids=["stateless", "sessions"])
async def upstream(request: pytest.FixtureRequest) -> AsyncIterator[Upstream]:
    async with running(Upstream(), stateless=request.param) as served:
        yield served


async def test_effect_that_is_there_is_found_by_its_key_with_its_id(
    upstream: Upstream,
) -> None:
    served = contract(upstream.url, "reconcilable")
    await dispatched(served)
    found = await probed(served)
    assert found.status is ProbeStatus.COMMITTED
    assert found.external_id == "ch_1"
    assert found.output == {"id": "ch_1", "key": KEY, "amount": 100}
    assert upstream.read == [KEY]
    assert len(upstream.charged) == 1


async def test_effect_that_is_not_there_is_absent_and_stays_so(
    upstream: Upstream,
) -> None:
    found = await probed(contract(upstream.url, "reconcilable"))
    assert found.status is ProbeStatus.NOT_COMMITTED
    assert upstream.charged == []


async def test_lookup_is_given_the_contracts_arguments_beside_the_key(
    upstream: Upstream,
) -> None:
    lookup = {"tool": "balance", "key_argument": "/by/key", "arguments": {"account": "a"}}
    found = await probed(contract(upstream.url, "reconcilable", lookup=lookup))
    assert upstream.read == ["a"]
    assert found.status is ProbeStatus.UNKNOWN


@pytest.mark.parametrize(
    ("told", "failure"),
    [
        (result({"charges": [{"id": "ch_9", "key": "other"}]}), "other_effect_found"),
        (result({"charges": [{"id": "ch_9"}]}), "other_effect_found"),
        (result({"items": []}), "place_missing"),
        (TEXT, "not_structured"),
        (result({"charges": []}, is_error=True), "tool_error"),
        (MCPError(-32602, "no such tool"), "no_result"),
    ],
    ids=["another", "keyless", "placeless", "text", "error", "rpc"],
)
async def test_answer_about_something_else_or_none_at_all_is_unknown(
    upstream: Upstream, told: Any, failure: str
) -> None:
    upstream.planned = [told]
    found = await probed(contract(upstream.url, "reconcilable"))
    assert found.status is ProbeStatus.UNKNOWN
    assert found.evidence["failure"] == failure


async def test_upstream_that_is_away_is_unknown() -> None:
    found = await probed(contract("http://127.0.0.1:1/mcp", "reconcilable"))
    assert found.status is ProbeStatus.UNKNOWN


async def test_nothing_is_asked_past_the_deadline(upstream: Upstream) -> None:
    found = await probed(contract(upstream.url, "reconcilable"), seconds=-1.0)
    assert found.status is ProbeStatus.UNKNOWN
    assert found.evidence["failure"] == "send_deadline_passed"
    assert upstream.requests == []


async def test_pinned_contract_without_a_lookup_knows_nothing_and_asks_nothing(
    upstream: Upstream,
) -> None:
    pinned = canonical(fields(upstream.url, "reconcilable", lookup=None))
    found = await probed(EffectContract.from_document(pinned))
    assert found.status is ProbeStatus.UNKNOWN
    assert upstream.requests == []
