"""What an upstream's errors mean: what the contract lists, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from mcp.shared.exceptions import MCPError

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.outcome import Ambiguous, Committed, Outcome, Rejected
from tests.guarantees import guarantee
from tests.integration.adapters.mcp_calls import contract, dispatched, fields
from tests.integration.adapters.mcp_upstream import Upstream, result, running

MEANING: Mapping[str, str] = {
    "code": "/code",
    "error/already_charged": "committed",
    "error/declined": "rejected",
    "error/no_such_card": "rejected_final",
    "error/too_many": "not_executed",
    "error/still_running": "in_progress",
    "error/key_reused": "key_conflict",
    "rpc/-32602": "rejected_final",
    "rpc/-32050": "not_executed",
    "429": "not_executed",
}


@pytest_asyncio.fixture(params=[True, False], ids=["stateless", "sessions"])
async def upstream(request: pytest.FixtureRequest) -> AsyncIterator[Upstream]:
    async with running(Upstream(), stateless=request.param) as served:
        yield served


@pytest_asyncio.fixture
async def stateless() -> AsyncIterator[Upstream]:
    async with running(Upstream(), stateless=True) as served:
        yield served


async def answered(
    upstream: Upstream,
    told: Any,
    meaning: Mapping[str, str] = MEANING,
    key_records: str = "commits",
) -> Outcome:
    """Dispatch to a tool that acts and then answers so."""
    upstream.planned = [told]
    table = fields(upstream.url, "idempotent", meaning=dict(meaning))
    served = EffectContract.model_validate(table | {"key_records": key_records})
    outcome = await dispatched(served)
    assert len(upstream.charged) == 1
    return outcome


def error(code: Any) -> Any:
    return result({"code": code, "id": "ch_7", "secret": "s3cret"}, is_error=True)


async def test_error_that_means_committed_is_a_commit_with_its_id(
    upstream: Upstream,
) -> None:
    outcome = await answered(upstream, error("already_charged"))
    assert isinstance(outcome, Committed), outcome
    assert outcome.external_id == "ch_7"


@pytest.mark.parametrize(
    ("code", "final", "not_executed"),
    [
        ("declined", False, False),
        ("no_such_card", True, False),
        ("too_many", False, True),
    ],
)
async def test_error_that_the_contract_lists_proves_what_it_says(
    upstream: Upstream, code: str, final: bool, not_executed: bool
) -> None:
    outcome = await answered(upstream, error(code))
    assert isinstance(outcome, Rejected), outcome
    assert outcome.reason == f"error/{code}"
    assert (outcome.final, outcome.not_executed) == (final, not_executed)
    assert not outcome.from_key_record


async def test_error_of_a_call_that_still_runs_waits_under_the_same_key(
    upstream: Upstream,
) -> None:
    outcome = await answered(upstream, error("still_running"))
    assert isinstance(outcome, Ambiguous), outcome
    assert outcome.in_progress


async def test_key_used_with_another_payload_is_a_broken_contract(
    upstream: Upstream,
) -> None:
    outcome = await answered(upstream, error("key_reused"))
    assert isinstance(outcome, Ambiguous), outcome
    assert outcome.contract_violated


@guarantee("lost-answer-is-unknown")
@pytest.mark.parametrize("code", ["unheard_of", None, {}, ""])
async def test_error_that_is_not_listed_proves_nothing_since_the_tool_may_have_acted(
    upstream: Upstream, code: Any
) -> None:
    outcome = await answered(upstream, error(code))
    assert isinstance(outcome, Ambiguous), outcome
    assert outcome.reason == "tool_error"
    assert "s3cret" not in repr(outcome)


async def test_error_without_a_table_proves_nothing(upstream: Upstream) -> None:
    outcome = await answered(upstream, error("declined"), {})
    assert isinstance(outcome, Ambiguous), outcome


async def test_plain_entry_speaks_for_every_error_that_has_no_entry_of_its_own(
    upstream: Upstream,
) -> None:
    plain = {"error": "rejected", "code": "/code", "error/odd": "in_progress"}
    outcome = await answered(upstream, error("unheard_of"), plain)
    assert isinstance(outcome, Rejected), outcome
    upstream.charged.clear()
    odd = await answered(upstream, error("odd"), plain)
    assert isinstance(odd, Ambiguous), odd


async def test_only_a_code_of_the_tools_own_speaks_for_every_attempt_under_the_key(
    stateless: Upstream,
) -> None:
    meaning = {**MEANING, "error": "rejected"}
    speaking = []
    for told in (error("declined"), error("odd"), MCPError(-32602, "no")):
        stateless.charged.clear()
        outcome = await answered(stateless, told, meaning, "all_answers")
        assert isinstance(outcome, Rejected), outcome
        speaking.append(outcome.from_key_record)
    assert speaking == [True, False, False]


@pytest.mark.parametrize(
    ("code", "final", "not_executed"), [(-32602, True, False), (-32050, False, True)]
)
async def test_rpc_error_that_the_contract_lists_proves_what_it_says(
    upstream: Upstream, code: int, final: bool, not_executed: bool
) -> None:
    outcome = await answered(upstream, MCPError(code, "s3cret"))
    assert isinstance(outcome, Rejected), outcome
    assert outcome.reason == f"rpc/{code}"
    assert (outcome.final, outcome.not_executed) == (final, not_executed)


@guarantee("lost-answer-is-unknown")
@pytest.mark.parametrize("code", [-32603, -32000, 7])
async def test_rpc_error_that_is_not_listed_proves_nothing(
    upstream: Upstream, code: int
) -> None:
    meaning = {**MEANING, "error": "rejected"}
    outcome = await answered(upstream, MCPError(code, "s3cret"), meaning)
    assert isinstance(outcome, Ambiguous), outcome
    assert outcome.reason == "rpc_error"
    assert "s3cret" not in repr(outcome)


@guarantee("lost-answer-is-unknown")
@pytest.mark.parametrize("status", [500, 502, 503, 404, 409])
async def test_status_that_hides_a_commit_is_unknown_and_one_execution(
    stateless: Upstream, status: int
) -> None:
    stateless.status = status
    outcome = await dispatched(contract(stateless.url, meaning=dict(MEANING)))
    assert isinstance(outcome, Ambiguous), outcome
    assert outcome.reason == f"status_{status}"
    assert len(stateless.charged) == 1


async def test_status_that_the_contract_lists_is_honoured_with_its_patience(
    stateless: Upstream,
) -> None:
    stateless.status = 429
    outcome = await dispatched(contract(stateless.url, meaning=dict(MEANING)))
    assert isinstance(outcome, Rejected), outcome
    assert outcome.reason == "status_429"
    assert outcome.not_executed
    assert outcome.retry_after == timedelta(seconds=7)
    assert not outcome.from_key_record
