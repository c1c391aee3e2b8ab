"""The async client against a whole broker: every call, typed, and every refusal."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from effect_broker import EffectBrokerClient, EffectRequest, EffectStatus
from effect_broker.client import Submission
from effect_broker.domain.errors import (
    DecisionRefused,
    EffectNotFound,
    Forbidden,
    InvalidArguments,
    InvalidJson,
    InvalidOperationKey,
    PayloadDrift,
    PreconditionFailed,
    ReceiptNotFound,
    Unauthenticated,
    UnknownTool,
    VersionConflict,
)
from tests.guarantees import guarantee
from tests.integration.client.conftest import client_of
from tests.integration.http.api import KEY, Api

NOBODYS = "0198c0de-0000-7000-8000-000000000001"


def charge(key: str = KEY, **arguments: Any) -> EffectRequest:
    return EffectRequest(key, "sim.charge", {"amount": 100} | arguments, "checkout")


async def settled(api: Api, agent: EffectBrokerClient, key: str, *acts: str) -> UUID:
    if acts:
        api.world.acts[key] = list(acts)
    effect = await agent.submit(charge(key))
    await api.world.dispatcher().run_once()
    return effect.effect_id


async def test_submission_and_its_replay_are_one_typed_effect(
    api: Api, agent: EffectBrokerClient
) -> None:
    first = await agent.submit(charge())
    assert isinstance(first, Submission)
    assert (first.status, first.replayed) == (EffectStatus.PREPARED, False)
    assert (first.terminal, first.receipt) == (False, None)
    assert first.next_actions == ("wait",)
    await api.world.dispatcher().run_once()
    again = await agent.submit(charge(), wait_seconds=5)
    assert (again.effect_id, again.replayed) == (first.effect_id, True)
    assert again.first_recorded_at == first.created_at
    assert again.receipt is not None
    assert again.receipt == await agent.receipt(first.effect_id)
    assert again.receipt.kind is EffectStatus.SUCCEEDED


async def test_unknown_outcome_is_an_answer_with_words_for_it(
    api: Api, agent: EffectBrokerClient
) -> None:
    """P6: no word of it means that it failed."""
    effect_id = await settled(api, agent, KEY, "lose_answer")
    effect = await agent.submit(charge())
    assert effect.status is EffectStatus.OUTCOME_UNKNOWN
    assert effect.unknown
    assert effect.unknown_since is not None
    assert "do not submit it under a new key" in effect.outcome
    assert "fail" not in effect.outcome.lower()
    assert [it.effect_id async for it in agent.effects(status="outcome_unknown")] == [
        effect_id
    ]
    asked = await agent.reconcile(effect_id)
    assert asked.status is EffectStatus.OUTCOME_UNKNOWN


async def test_waiting_ends_with_the_effect_or_with_the_time(
    api: Api, agent: EffectBrokerClient
) -> None:
    done = await settled(api, agent, "order:1:charge:v1")
    assert (await agent.wait_for(done, seconds=5)).terminal
    waiting = await agent.submit(charge("order:2:charge:v1"))
    effect = await agent.wait_for(waiting.effect_id, seconds=0)
    assert effect.status is EffectStatus.PREPARED


async def test_pages_are_followed_to_their_end(agent: EffectBrokerClient) -> None:
    made = [
        (await agent.submit(charge(f"order:{number}:charge:v1"))).effect_id
        for number in range(5)
    ]
    listed = [it.effect_id async for it in agent.effects(page_size=2)]
    assert listed == made[::-1]
    narrowed = [it async for it in agent.effects(operation_prefix="order:3", tool="x")]
    assert narrowed == []


async def test_history_is_read_at_a_point_and_compared(
    api: Api, agent: EffectBrokerClient
) -> None:
    effect_id = await settled(api, agent, KEY)
    effect = await agent.get(effect_id)
    assert [event.type for event in effect.history] == [
        "EffectReserved",
        "AttemptStarted",
        "ReceiptRecorded",
    ]
    assert len(effect.attempts) == 1
    past = await agent.history(effect_id, at_sequence=2, compare_to=3)
    assert past.status is EffectStatus.DISPATCHING
    assert past.difference is not None
    assert past.difference["status"] == ("dispatching", "succeeded")


async def test_fork_on_record_and_live(
    api: Api, agent: EffectBrokerClient, operator: EffectBrokerClient
) -> None:
    effect_id = await settled(api, agent, KEY)
    told = await agent.fork(effect_id, at_sequence=1)
    assert (told.status, len(told.recorded)) == (EffectStatus.SUCCEEDED, 2)
    with pytest.raises(Forbidden) as refused:
        await agent.fork_live(effect_id, "order:1:charge:v2")
    assert refused.value.scope == "operate"
    made = await operator.fork_live(effect_id, "order:1:charge:v2")
    assert made.effect_id != effect_id


async def test_tools_say_what_they_promise(agent: EffectBrokerClient) -> None:
    (tool,) = await agent.tools()
    assert (tool.tool, tool.safety) == ("sim.charge", "idempotent")
    assert tool.guarantee.startswith("Exactly one observable effect")


FINDING: dict[str, Any] = {
    "decision": "committed",
    "reason": "It stands in the console.",
    "evidence": {"console": "one charge"},
    "decision_id": "ticket-1",
}


async def test_finding_is_recorded_once_and_not_by_an_agent(
    api: Api, agent: EffectBrokerClient, operator: EffectBrokerClient
) -> None:
    effect_id = await settled(api, agent, KEY, "lose_answer")
    version = (await operator.get(effect_id)).version
    with pytest.raises(Forbidden):
        await agent.resolve(effect_id, expected_version=version, **FINDING)
    with pytest.raises(VersionConflict) as moved:
        await operator.resolve(effect_id, expected_version=1, **FINDING)
    assert moved.value.version == version
    for _ in range(2):
        done = await operator.resolve(effect_id, expected_version=version, **FINDING)
        assert done.status is EffectStatus.SUCCEEDED


@guarantee("operator-evidence-is-dated")
async def test_absence_seen_too_early_says_from_when_it_counts(
    api: Api, agent: EffectBrokerClient, operator: EffectBrokerClient
) -> None:
    effect_id = await settled(api, agent, KEY, "lose_answer")
    effect = await operator.get(effect_id)
    with pytest.raises(DecisionRefused) as refused:
        await operator.resolve(
            effect_id,
            **{**FINDING, "decision": "not_committed"},
            expected_version=effect.version,
            observed_at=effect.updated_at,
        )
    assert isinstance(refused.value.not_before, datetime)
    assert effect.resolvable_after is not None
    assert refused.value.not_before >= effect.resolvable_after


async def test_compensation_holds_for_the_version_that_was_read(
    api: Api, agent: EffectBrokerClient, operator: EffectBrokerClient
) -> None:
    done = await settled(api, agent, "order:1:charge:v1")
    refund = await settled(api, agent, "order:1:refund:v1")
    with pytest.raises(PreconditionFailed):
        await operator.compensate(done, refund, reason="x", expected_version=1)
    for _ in range(2):
        linked = await operator.compensate(done, refund, reason="x", expected_version=3)
        assert linked.status is EffectStatus.COMPENSATED


@guarantee("drift-is-refused")
async def test_drift_names_the_effect_to_read(agent: EffectBrokerClient) -> None:
    first = await agent.submit(charge())
    with pytest.raises(PayloadDrift) as refused:
        await agent.submit(charge(amount=7))
    assert refused.value.effect_id == first.effect_id
    assert refused.value.fields == ("amount",)
    assert refused.value.status == "prepared"


async def test_refusals_have_their_own_types(agent: EffectBrokerClient) -> None:
    with pytest.raises(UnknownTool):
        await agent.submit(EffectRequest("order:1:x", "nobody.knows", {}))
    with pytest.raises(InvalidArguments) as invalid:
        await agent.submit(charge(amount="1"))
    assert invalid.value.pointers
    with pytest.raises(EffectNotFound):
        await agent.get(NOBODYS)
    made = await agent.submit(charge())
    with pytest.raises(ReceiptNotFound) as missing:
        await agent.receipt(made.effect_id)
    assert (missing.value.effect_id, missing.value.status) == (
        made.effect_id,
        "prepared",
    )


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (charge("null"), InvalidOperationKey),
        (charge("x "), InvalidOperationKey),
        (charge(amount=float("nan")), InvalidJson),
        (charge(amount=2**53), InvalidJson),
        (charge(text="\ud800"), InvalidJson),
    ],
)
async def test_what_cannot_be_meant_is_refused_before_it_is_sent(
    agent: EffectBrokerClient, api: Api, request_: EffectRequest, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await agent.submit(request_)
    assert [it async for it in agent.effects()] == []


async def test_what_is_no_id_leads_nowhere_else(agent: EffectBrokerClient) -> None:
    for text in ("x", "../tools", f"{NOBODYS}/receipt", ""):
        with pytest.raises(EffectNotFound):
            await agent.get(text)


async def test_wrong_key_is_said_to_be_one(api: Api) -> None:
    wrong = "Bearer ebk_" + "0" * 16 + "_" + "0" * 64
    async with client_of(api, wrong) as stranger:
        with pytest.raises(Unauthenticated):
            await stranger.tools()


@guarantee("tenant-from-credential")
async def test_another_tenants_effect_is_not_found_by_any_call(
    api: Api, agent: EffectBrokerClient
) -> None:
    effect_id = await settled(api, agent, KEY, "lose_answer")
    authorization = api.stranger.headers["authorization"]
    async with client_of(api, authorization) as stranger:
        assert [it async for it in stranger.effects()] == []
        for call in (
            stranger.get(effect_id),
            stranger.receipt(effect_id),
            stranger.history(effect_id),
            stranger.reconcile(effect_id),
            stranger.fork(effect_id, at_sequence=1),
            stranger.fork_live(effect_id, "order:9:charge:v1"),
            stranger.resolve(effect_id, expected_version=3, **FINDING),
        ):
            with pytest.raises(EffectNotFound):
                await call
