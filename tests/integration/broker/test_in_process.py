"""Effects carried out in the call that submits them, and many reserved at once."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from effect_broker.broker import submit
from effect_broker.broker.in_process import InProcess
from effect_broker.domain.errors import (
    Forbidden,
    InvalidArguments,
    LedgerUnavailable,
    PayloadDrift,
    UnknownTool,
)
from effect_broker.domain.intent import EffectRequest, Reservation
from effect_broker.domain.status import EffectStatus
from effect_broker.ports import AdapterSource, Ledger
from tests.guarantees import guarantee
from tests.integration.broker.holding import HoldingAdapters
from tests.integration.broker.test_interruptions import LosingLedger
from tests.integration.broker.world import World, contract

KEY = "order:1:charge:v1"


def asked(key: str = KEY, amount: int = 100, tool: str = "sim.charge") -> EffectRequest:
    return EffectRequest(key, tool, {"amount": amount}, "test")


def in_process(
    world: World,
    *,
    adapters: AdapterSource | None = None,
    ledger: Ledger | None = None,
) -> InProcess:
    return InProcess(
        world.broker.submitter,
        world.dispatcher(adapters=adapters, ledger=ledger),
        world.nudger,
    )


async def execute(world: World, request: EffectRequest, **parts: Any) -> Reservation:
    executing = in_process(world, **parts)
    return await executing.execute(world.tenant.tenant_id, request)


async def test_effect_is_carried_out_before_the_call_returns(world: World) -> None:
    await world.open(contract())
    done = await execute(world, asked())
    assert done.created
    assert done.effect.status is EffectStatus.SUCCEEDED
    assert (await world.receipt(done.effect.effect_id))["external_id"]
    assert await world.events(done.effect.effect_id) == [
        "EffectReserved",
        "AttemptStarted",
        "ReceiptRecorded",
    ]


@guarantee("one-intent-per-key")
async def test_many_executions_at_once_of_one_key_are_one_request(world: World) -> None:
    await world.open(contract("unsafe"))
    one = in_process(world)
    done = await asyncio.gather(
        *(one.execute(world.tenant.tenant_id, asked()) for _ in range(10))
    )
    assert len(world.target.requests) == 1
    assert sum(found.created for found in done) == 1
    assert len({found.effect.effect_id for found in done}) == 1


async def test_repeated_execution_is_a_replay_and_changed_arguments_are_drift(
    world: World,
) -> None:
    await world.open(contract())
    first = await execute(world, asked())
    again = await execute(world, asked())
    assert again.replayed
    assert again.effect.effect_id == first.effect.effect_id
    with pytest.raises(PayloadDrift):
        await execute(world, asked(amount=101))
    assert len(world.target.requests) == 1


@guarantee("lost-answer-is-unknown")
async def test_execution_whose_answer_is_lost_says_so_and_sends_no_more(
    world: World,
) -> None:
    await world.open(contract("unsafe"))
    world.acts[KEY] = ["lose_answer"]
    done = await execute(world, asked())
    assert done.effect.status is EffectStatus.OUTCOME_UNKNOWN
    assert (await execute(world, asked())).effect.status is EffectStatus.OUTCOME_UNKNOWN
    assert len(world.target.requests) == 1


async def test_cancelled_execution_is_recorded_as_unknown(world: World) -> None:
    await world.open(contract("unsafe"))
    holding = HoldingAdapters(world.adapters, after_answer=True)
    running = asyncio.create_task(execute(world, asked(), adapters=holding))
    await holding.reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    again = await execute(world, asked())
    assert again.effect.status is EffectStatus.OUTCOME_UNKNOWN


async def test_execution_that_cannot_be_recorded_is_left_to_its_lease(
    world: World,
) -> None:
    await world.open(contract())
    losing = LosingLedger(world.ledger, losses=float("inf"))
    with pytest.raises(LedgerUnavailable):
        await execute(world, asked(), ledger=losing)
    await world.let_pass(31)
    await world.settle()
    found = await execute(world, asked())
    assert found.effect.status is EffectStatus.SUCCEEDED
    assert len(world.target.objects) == 1


async def test_held_dispatch_reserves_and_sends_nothing(world: World) -> None:
    await world.open(contract())
    await world.ledger.hold_dispatch("for the test")
    done = await execute(world, asked())
    assert done.effect.status is EffectStatus.PREPARED
    assert [it for it, _ in world.nudger.dispatches] == [done.effect.effect_id]
    assert world.target.requests == []


@pytest.mark.parametrize("in_one_commit", [2, submit.COMMIT_MAX])
async def test_many_reserved_at_once_have_an_answer_each_in_their_order(
    world: World, in_one_commit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "COMMIT_MAX", in_one_commit)
    await world.open(contract())
    standing = (await world.submit("order:0:charge:v1")).effect.effect_id
    asking = [
        asked("order:0:charge:v1"),
        asked("order:1:charge:v1"),
        asked("order:0:charge:v1", 7),
        asked("order:2:charge:v1", tool="no.such"),
        asked("order:1:charge:v1"),
        asked("order:1:charge:v1", 8),
        EffectRequest("order:3:charge:v1", "sim.charge", {"amount": "x"}, "test"),
        asked("order:4:charge:v1"),
    ]
    found = await world.broker.submit_many(world.tenant.tenant_id, asking)
    kinds = [
        ("replayed" if it.replayed else "created")
        if isinstance(it, Reservation)
        else type(it)
        for it in found
    ]
    assert kinds == [
        "replayed",
        "created",
        PayloadDrift,
        UnknownTool,
        "replayed",
        PayloadDrift,
        InvalidArguments,
        "created",
    ]
    assert isinstance(found[0], Reservation)
    assert found[0].effect.effect_id == standing
    report = await world.dispatcher().run_once()
    assert report.recorded == 3


async def test_none_reserved_at_once_is_none(world: World) -> None:
    await world.open(contract())
    assert await world.broker.submit_many(world.tenant.tenant_id, []) == []


async def test_unknown_tenant_reserves_none_of_many(world: World) -> None:
    await world.open(contract())
    (refused,) = await world.broker.submit_many(uuid4(), [asked()])
    assert isinstance(refused, Forbidden)
