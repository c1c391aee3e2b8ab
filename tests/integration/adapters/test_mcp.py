"""Upstream MCP servers: one call of one tool, whatever a client does for an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from effect_broker.adapters.mcp import McpAdapters
from effect_broker.clock import SystemClock
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.outcome import Ambiguous, Committed, NotSent, Outcome
from effect_broker.ports import Deadline
from tests.guarantees import guarantee
from tests.integration.adapters.fault_server import FaultServer, close
from tests.integration.adapters.given import GivenSecrets, effect
from tests.integration.adapters.mcp_upstream import Upstream, running


@pytest.fixture(params=[True, False], ids=["stateless", "sessions"])
async def upstream(request: pytest.FixtureRequest) -> AsyncIterator[Upstream]:
    async with running(Upstream(), stateless=request.param) as served:
        yield served


def contract(url: str, safety: str = "unsafe", **changes: Any) -> EffectContract:
    fields: dict[str, Any] = {
        "tool": "pay.charge",
        "name": "pay-charge",
        "version": "1",
        "safety": safety,
        "adapter": "mcp",
        "attempt_timeout": "3s",
        "settlement_bound": "1s",
        "arguments": {"type": "object"},
        "mcp": {
            "url": url,
            "tool": "charge",
            "allow_private": True,
            "external_id": "/id",
            "key_argument": "/key",
            "account": "main",
        },
    }
    if safety == "idempotent":
        fields |= {"key_retention": "24h", "key_records": "commits"}
    return EffectContract.model_validate(fields | changes)


async def dispatched(
    served: EffectContract, *, amount: int = 100, seconds: float = 3.0
) -> Outcome:
    clock = SystemClock()
    adapters = McpAdapters(GivenSecrets(), clock)
    scope = await adapters.scope_digest(served)
    deadline = Deadline(
        clock.monotonic() + seconds, clock.boottime() + seconds, clock.wall() + seconds
    )
    adapter = await adapters.adapter(served, scope_digest=scope, deadline=deadline)
    try:
        return await adapter.dispatch(
            effect(served, {"amount": amount}), attempt_id=uuid4()
        )
    finally:
        await adapters.aclose()


async def test_result_of_a_tool_is_a_commit_with_its_id(upstream: Upstream) -> None:
    outcome = await dispatched(contract(upstream.url))
    assert isinstance(outcome, Committed), outcome
    assert outcome.external_id == "ch_1"
    assert outcome.output == {"id": "ch_1", "amount": 100}
    assert upstream.charged == [{"amount": 100, "key": ""}]


async def test_keyed_tool_is_given_the_downstream_key(upstream: Upstream) -> None:
    served = contract(upstream.url, "idempotent")
    await dispatched(served)
    await dispatched(served)
    assert upstream.charged[0]["key"] == effect(served).downstream_key
    assert upstream.charged[0] == upstream.charged[1]


@guarantee("lost-answer-is-unknown")
async def test_stream_dropped_behind_the_tool_is_one_execution_and_unknown(
    upstream: Upstream,
) -> None:
    upstream.drops = True
    outcome = await dispatched(contract(upstream.url))
    assert isinstance(outcome, Ambiguous), outcome
    assert len(upstream.charged) == 1


async def test_error_of_a_tool_proves_nothing_since_it_may_have_acted(
    upstream: Upstream,
) -> None:
    outcome = await dispatched(contract(upstream.url), amount=402)
    assert isinstance(outcome, Ambiguous)
    assert outcome.reason == "tool_error"
    assert len(upstream.charged) == 1


async def test_tool_that_takes_too_long_is_unknown_at_the_deadline(
    upstream: Upstream,
) -> None:
    outcome = await dispatched(contract(upstream.url), amount=999, seconds=0.7)
    assert isinstance(outcome, Ambiguous), outcome
    assert len(upstream.charged) == 1


async def test_nothing_is_called_past_the_deadline(upstream: Upstream) -> None:
    outcome = await dispatched(contract(upstream.url), seconds=-1.0)
    assert isinstance(outcome, NotSent), outcome
    assert upstream.charged == []


async def test_nobody_listening_proves_that_nothing_was_called() -> None:
    outcome = await dispatched(contract("http://127.0.0.1:1/mcp"))
    assert isinstance(outcome, NotSent), outcome


async def test_server_that_hangs_up_on_the_handshake_was_called_nothing(
    target: FaultServer,
) -> None:
    target.plan(*(close for _ in range(5)))
    outcome = await dispatched(contract(f"{target.url}/mcp"))
    assert isinstance(outcome, NotSent), outcome
    assert all(b"tools/call" not in seen.body for seen in target.seen)


async def test_private_address_is_refused_unless_the_contract_allows_it(
    upstream: Upstream,
) -> None:
    terms = {"url": upstream.url, "tool": "charge", "account": "main"}
    outcome = await dispatched(contract(upstream.url, mcp=terms))
    assert isinstance(outcome, NotSent), outcome
    assert upstream.requests == []


async def test_other_account_url_or_mode_is_another_scope() -> None:
    adapters = McpAdapters(GivenSecrets(), SystemClock())
    base = {"url": "https://a.example/mcp", "tool": "charge", "account": "main"}
    scopes = {
        await adapters.scope_digest(contract("", mcp=base | change))
        for change in (
            {},
            {"url": "https://b.example/mcp"},
            {"account": "other"},
            {"mode": "test"},
        )
    }
    assert len(scopes) == 4
