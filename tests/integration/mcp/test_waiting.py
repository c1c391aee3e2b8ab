"""Clients that wait for a slow target, and those that go: the dispatch goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import pytest_asyncio
from mcp.types import CallToolResult

from effect_broker.broker.dispatch import DispatchReport
from tests.guarantees import guarantee
from tests.integration.broker.conftest import memory_world
from tests.integration.broker.holding import HoldingAdapters
from tests.integration.broker.world import SilentNudger, World, contract
from tests.integration.mcp.test_serving import KEY, TOOL, Served, charge, told

PATIENCE = timedelta(seconds=1)
LONG = timedelta(seconds=60)


class Working(SilentNudger):
    """Wakes one worker at the first hint; it stands before the target until it may go."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.held = HoldingAdapters(world.adapters, after_answer=False)
        self.pass_: asyncio.Task[DispatchReport] | None = None
        self._world = world

    async def dispatch(
        self, effect_ids: Sequence[UUID], *, delay: timedelta = timedelta(0)
    ) -> None:
        await super().dispatch(effect_ids, delay=delay)
        if self.pass_ is None:
            worker = self._world.dispatcher(adapters=self.held)
            self.pass_ = asyncio.create_task(worker.run_once(effect_ids=effect_ids))

    async def finish(self) -> DispatchReport:
        assert self.pass_ is not None
        assert not self.pass_.done()
        self.held.go.set()
        return await self.pass_


@pytest_asyncio.fixture
async def world() -> World:
    made = memory_world()
    return await made.open(contract())


@pytest_asyncio.fixture
async def working(world: World) -> Working:
    world.nudger = made = Working(world)
    return made


async def test_target_that_runs_on_is_answered_in_time_as_dispatching(
    world: World, working: Working
) -> None:
    begun = asyncio.get_running_loop().time()
    answer = told(await Served(world, PATIENCE).call(TOOL, charge()))
    took = asyncio.get_running_loop().time() - begun
    assert 0.9 < took < 3
    assert (answer["status"], answer["terminal"]) == ("dispatching", False)
    assert answer["replayed"] is False
    assert "second effect" in answer["advice"]
    assert world.target.requests == []
    repeated = told(await Served(world).call(TOOL, charge()))
    assert (repeated["status"], repeated["replayed"]) == ("dispatching", True)
    await working.finish()
    settled = told(await Served(world).call(TOOL, charge()))
    assert (settled["status"], settled["replayed"]) == ("succeeded", True)
    ids = {it["effect_id"] for it in (answer, repeated, settled)}
    assert len(ids) == len(world.target.requests) == 1


@guarantee("one-intent-per-key", "replay-answers-the-same")
async def test_client_that_goes_while_its_call_runs_stops_no_dispatch(
    world: World, working: Working
) -> None:
    waiting = asyncio.create_task(Served(world, LONG).call(TOOL, charge()))
    await working.held.reached.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert (await working.finish()).attempts == 1
    again = told(await Served(world).call(TOOL, charge()))
    assert (again["status"], again["replayed"]) == ("succeeded", True)
    assert working.dispatches[0][0] == UUID(again["effect_id"])
    events = await world.events(UUID(again["effect_id"]))
    assert events == ["EffectReserved", "AttemptStarted", "ReceiptRecorded"]
    assert len(world.target.requests) == 1


async def test_client_that_waits_is_answered_as_soon_as_the_target_is_done(
    world: World, working: Working
) -> None:
    async def call() -> CallToolResult:
        return await Served(world, LONG).call(TOOL, charge())

    waiting = asyncio.create_task(call())
    await working.held.reached.wait()
    await working.finish()
    async with asyncio.timeout(10):
        answer = told(await waiting)
    assert (answer["status"], answer["operation_key"]) == ("succeeded", KEY)
    assert len(world.target.requests) == 1
