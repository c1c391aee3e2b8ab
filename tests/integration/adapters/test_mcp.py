"""Upstream MCP servers: one call of one tool, whatever a client does for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from effect_broker.adapters.mcp import McpAdapters
from effect_broker.clock import SystemClock
from effect_broker.domain.canonical import canonical
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.outcome import Ambiguous, Committed, NotSent
from tests.guarantees import guarantee
from tests.integration.adapters.fault_server import FaultServer, close
from tests.integration.adapters.given import KEY, GivenSecrets
from tests.integration.adapters.mcp_calls import contract, dispatched, fields
from tests.integration.adapters.mcp_upstream import Upstream, result, running


@pytest_asyncio.fixture(params=[True, False], ids=["stateless", "sessions"])
async def upstream(request: pytest.FixtureRequest) -> AsyncIterator[Upstream]:
    async with running(Upstream(), stateless=request.param) as served:
        yield served


@pytest_asyncio.fixture
async def sessions() -> AsyncIterator[Upstream]:
    async with running(Upstream(), stateless=False) as served:
        yield served


async def test_result_of_a_tool_is_a_commit_with_its_id(upstream: Upstream) -> None:
    outcome = await dispatched(contract(upstream.url))
    assert isinstance(outcome, Committed), outcome
    assert outcome.external_id == "ch_1"
    assert outcome.output == {"id": "ch_1", "amount": 100}
    assert upstream.charged == [{"amount": 100, "key": ""}]


async def test_result_that_breaks_the_servers_own_schema_is_a_commit_all_the_same(
    upstream: Upstream,
) -> None:
    upstream.planned = [result({"receipt": 7})]
    outcome = await dispatched(contract(upstream.url))
    assert isinstance(outcome, Committed), outcome
    assert outcome.output == {"receipt": 7}
    assert outcome.external_id is None


@pytest.mark.parametrize("safety", ["idempotent", "reconcilable"])
async def test_keyed_tool_is_given_the_same_key_on_every_attempt(
    upstream: Upstream, safety: str
) -> None:
    served = contract(upstream.url, safety)
    await dispatched(served)
    await dispatched(served)
    assert [charge["key"] for charge in upstream.charged] == [KEY, KEY]


async def test_unsafe_tool_is_given_no_key_even_where_a_pinned_contract_names_a_place(
    upstream: Upstream,
) -> None:
    pinned = canonical(fields(upstream.url, key_argument="/key"))
    await dispatched(EffectContract.from_document(pinned))
    assert upstream.charged == [{"amount": 100, "key": ""}]


@guarantee("lost-answer-is-unknown")
async def test_stream_dropped_behind_the_tool_is_one_execution_and_unknown(
    upstream: Upstream,
) -> None:
    upstream.drops = True
    made_up = {"rpc/-32000": "rejected", "rpc/-32700": "rejected"}
    outcome = await dispatched(contract(upstream.url, meaning=made_up))
    assert isinstance(outcome, Ambiguous), outcome
    assert len(upstream.charged) == 1


async def test_tool_that_takes_too_long_is_unknown_at_the_deadline(
    upstream: Upstream,
) -> None:
    upstream.hangs = True
    outcome = await dispatched(contract(upstream.url), seconds=0.7)
    assert isinstance(outcome, Ambiguous), outcome
    assert outcome.reason == "timed_out"
    assert len(upstream.charged) == 1
    assert "DELETE" not in upstream.requests


@guarantee("lost-answer-is-unknown")
async def test_call_cancelled_behind_the_tool_proves_nothing_and_sends_nothing_more(
    upstream: Upstream,
) -> None:
    upstream.hangs = True
    running_call = asyncio.create_task(dispatched(contract(upstream.url)))
    await upstream.reached.wait()
    before = list(upstream.requests)
    running_call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running_call
    assert upstream.requests == before
    assert len(upstream.charged) == 1


async def test_session_that_does_not_end_takes_nothing_from_the_result(
    sessions: Upstream,
) -> None:
    sessions.lingers = True
    async with asyncio.timeout(2.5):
        outcome = await dispatched(contract(sessions.url))
    assert isinstance(outcome, Committed), outcome
    assert sessions.requests[-1] == "DELETE"
    assert outcome.external_id == "ch_1"


async def test_attempt_cancelled_while_the_session_ends_returns_its_result(
    sessions: Upstream,
) -> None:
    sessions.lingers = True
    running_call = asyncio.create_task(dispatched(contract(sessions.url)))
    await sessions.reached.wait()
    running_call.cancel()
    outcome = await running_call
    assert isinstance(outcome, Committed), outcome


async def test_nothing_leaves_past_the_deadline_not_even_a_greeting(
    upstream: Upstream,
) -> None:
    outcome = await dispatched(contract(upstream.url), seconds=-1.0)
    assert isinstance(outcome, NotSent), outcome
    assert upstream.requests == []


async def test_other_scope_than_the_attempts_is_not_even_greeted(
    upstream: Upstream,
) -> None:
    outcome = await dispatched(contract(upstream.url), scope=b"another")
    assert isinstance(outcome, Ambiguous), outcome
    assert outcome.contract_violated
    assert upstream.requests == []


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
    outcome = await dispatched(contract(upstream.url, allow_private=False))
    assert isinstance(outcome, NotSent), outcome
    assert upstream.requests == []


async def test_other_account_url_or_mode_is_another_scope() -> None:
    adapters = McpAdapters(GivenSecrets(), SystemClock())
    scopes = {
        await adapters.scope_digest(contract("https://a.example/mcp", **change))
        for change in (
            {},
            {"url": "https://b.example/mcp"},
            {"account": "other"},
            {"mode": "test"},
        )
    }
    assert len(scopes) == 4
