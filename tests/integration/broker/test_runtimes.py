"""Runtimes that run a step again: agents, graphs and durable functions meet the effect
that is there.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI, InternalServerError

from effect_broker import keys
from effect_broker.domain.errors import PayloadDrift
from effect_broker.domain.intent import EffectRequest
from effect_broker.surfaces import serving
from examples.agent.turn import Agent
from tests.guarantees import guarantee
from tests.integration.broker.world import World, contract

Answer = Callable[[], httpx2.Response]
MODEL = "scripted"
_ids = itertools.count()


def says(text: str) -> Answer:
    return lambda: _completion({"role": "assistant", "content": text})


def asks_for(*amounts: int) -> Answer:
    """Ask for charges, under call ids that are new each time, as models make them."""
    return lambda: _completion(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": f"call_{next(_ids):08d}",
                    "type": "function",
                    "function": {
                        "name": "sim-charge",
                        "arguments": json.dumps({"amount": amount}),
                    },
                }
                for amount in amounts
            ],
        }
    )


def fails() -> httpx2.Response:
    return httpx2.Response(500, json={"error": {"message": "overloaded"}})


def _completion(message: dict[str, Any]) -> httpx2.Response:
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return httpx2.Response(
        200,
        json={
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": [choice],
        },
    )


@asynccontextmanager
async def scripted(answers: Iterable[Answer]) -> AsyncIterator[AsyncOpenAI]:
    """Yield the official client before a model that reads its answers from a list."""
    lines = iter(answers)
    transport = httpx2.MockTransport(lambda _: next(lines)())
    async with AsyncOpenAI(
        api_key="none",
        base_url="http://model.invalid/v1",
        max_retries=0,
        http_client=httpx2.AsyncClient(transport=transport),
    ) as client:
        yield client


async def call_tool(
    world: World, told: list[Any], key: str, tool: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Submit, let a worker send, and answer as the surfaces do."""
    request = EffectRequest(key, tool, arguments, "agent")
    reservation = await world.broker.submit(world.tenant.tenant_id, request)
    if reservation.created:
        await world.dispatcher().run_once()
    answer = await serving.submit(
        world.broker, world.tenant.tenant_id, request, patience=timedelta(0)
    )
    assert answer.receipt is not None
    told.append(answer.receipt.model_dump(mode="json"))
    return {"effect_id": str(reservation.effect.effect_id), "status": answer.status}


async def run_turn(world: World, told: list[Any], turn: int, *answers: Answer) -> str:
    async def call(key: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return await call_tool(world, told, key, tool, arguments)

    async with scripted(answers) as model:
        return await Agent(model, MODEL, (), call).turn("session-7", turn, "Refund it.")


@guarantee("one-intent-per-key")
async def test_turn_run_again_after_a_failing_model_charges_once(world: World) -> None:
    await world.open(contract())
    told: list[Any] = []
    for _ in range(3):
        with pytest.raises(InternalServerError):
            await run_turn(world, told, 1, asks_for(10), fails)
    assert await run_turn(world, told, 1, asks_for(10), says("Done.")) == "Done."
    assert len(world.target.requests) == 1
    assert len(told) == 4
    assert all(receipt == told[0] for receipt in told)
    assert told[0]["external_id"]


async def test_resumed_turn_keeps_siblings_apart_and_each_single(world: World) -> None:
    await world.open(contract())
    told: list[Any] = []
    for _ in range(2):
        with pytest.raises(InternalServerError):
            await run_turn(world, told, 1, asks_for(10, 10, 25), fails)
    await run_turn(world, told, 1, asks_for(10, 10, 25), says("Done."))
    assert len(world.target.requests) == 3
    assert len({json.dumps(receipt, sort_keys=True) for receipt in told}) == 3


async def test_two_turns_that_ask_for_the_same_are_two_effects(world: World) -> None:
    await world.open(contract())
    told: list[Any] = []
    for turn in (1, 2):
        await run_turn(world, told, turn, asks_for(10), says("Done."))
    assert len(world.target.requests) == 2


@guarantee("drift-is-refused")
async def test_model_that_changes_its_mind_in_a_repeated_turn_is_refused(
    world: World,
) -> None:
    await world.open(contract())
    told: list[Any] = []
    with pytest.raises(InternalServerError):
        await run_turn(world, told, 1, asks_for(10), fails)
    with pytest.raises(PayloadDrift) as refused:
        await run_turn(world, told, 1, asks_for(11), says("Done."))
    assert refused.value.fields == ("amount",)
    assert len(world.target.requests) == 1


async def test_graph_that_is_resumed_twice_meets_its_effect(world: World) -> None:
    await world.open(contract())
    told: list[Any] = []
    for _ in range(3):
        key = keys.langgraph("thread-9", "refund", tool="sim.charge")
        await call_tool(world, told, key, "sim.charge", {"amount": 10})
    assert len(world.target.requests) == 1
    assert told[0] == told[1] == told[2]


async def test_durable_function_that_replays_is_never_told_in_progress(
    world: World,
) -> None:
    await world.open(contract())
    key = keys.durable_function("order-17", "charge")
    request = EffectRequest(key, "sim.charge", {"amount": 10}, "durable")
    seen = [await world.broker.submit(world.tenant.tenant_id, request) for _ in range(3)]
    await world.dispatcher().run_once()
    seen.append(await world.broker.submit(world.tenant.tenant_id, request))
    assert len({found.effect.effect_id for found in seen}) == 1
    assert [found.created for found in seen] == [True, False, False, False]
    assert len(world.target.requests) == 1


async def test_two_turns_that_share_a_call_id_make_two_effects_and_two_charges(
    world: World,
) -> None:
    """C12: the key is the turn's place, whatever the provider called the call."""
    await world.open(contract())
    made = [
        (await world.submit(keys.openai_agents("session-1", turn, tool="refund"))).effect
        for turn in (1, 2)
    ]
    await world.settle(passes=2)
    assert len({effect.effect_id for effect in made}) == 2
    assert len({request.key for request in world.target.requests}) == 2
    assert len(world.target.objects) == 2


async def test_raw_call_id_with_other_arguments_is_refused_and_one_effect(
    world: World,
) -> None:
    """C12: whoever uses the call id as a key is told so by the second turn's drift."""
    await world.open(contract())
    first = (await world.submit("c0")).effect
    with pytest.raises(PayloadDrift) as refused:
        await world.submit("c0", amount=200)
    assert refused.value.effect_id == first.effect_id
    await world.settle(passes=2)
    assert len(world.target.objects) == 1
