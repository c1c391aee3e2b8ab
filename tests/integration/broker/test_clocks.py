"""The ledger's clock decides; when it steps, dispatch stops and says so."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from effect_broker.broker.clock_watch import ClockWatch
from effect_broker.domain.errors import DispatchHeld
from effect_broker.domain.status import EffectStatus
from effect_broker.ledger.memory import MemoryLedger
from effect_broker.ledger.memory_registry import MemoryRegistry
from effect_broker.ports import Deadline
from tests.guarantees import guarantee
from tests.integration.broker.holding import HoldingAdapters
from tests.integration.broker.world import MovableClock, World, contract

START = datetime(2026, 1, 1, tzinfo=UTC)


def _at(seconds: float, *, frozen: float = 0) -> Deadline:
    """Read clocks of which the monotonic one stood still for `frozen` seconds."""
    return Deadline(seconds - frozen, seconds, seconds)


def _world_with_a_clock_of_its_own() -> tuple[World, list[float]]:
    """Return a world whose ledger's clock can step away from the host's."""
    clock, stepped = MovableClock(), [0.0]

    def now() -> datetime:
        return datetime.fromtimestamp(clock.wall() + stepped[0], UTC)

    async def with_the_host(_: timedelta) -> None:
        """The ledger's clock goes with the host's."""

    registry = MemoryRegistry(now)
    world = World(MemoryLedger(registry, now), registry, clock, with_the_host)
    return world, stepped


@guarantee("clock-step-stops-dispatch")
@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
async def test_step_of_the_ledgers_clock_stops_dispatch_until_it_is_released(
    seconds: float,
) -> None:
    world, stepped = _world_with_a_clock_of_its_own()
    await world.open(contract())
    dispatcher = world.dispatcher()
    await world.submit("order:1:charge:v1")
    await dispatcher.run_once()
    stepped[0] += seconds
    effect = (await world.submit("order:2:charge:v1")).effect
    with pytest.raises(DispatchHeld, match="stepped by"):
        await dispatcher.run_once()
    with pytest.raises(DispatchHeld):
        await world.dispatcher().run_once()
    assert len(world.target.requests) == 1
    assert await world.status(effect.effect_id) is EffectStatus.RETRYABLE
    assert await world.ledger.release_dispatch("operator:ann")
    await world.let_pass(5)
    await dispatcher.run_once()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED


@guarantee("clock-step-stops-dispatch")
async def test_step_that_a_reconciler_notices_decides_nothing_and_stops_dispatch() -> (
    None
):
    world, stepped = _world_with_a_clock_of_its_own()
    await world.open(contract("reconcilable"))
    reconciler = world.reconciler()
    world.target.lag_seconds = 3600.0
    effect = (await world.submit("order:1:charge:v1", "lose_answer")).effect
    await world.dispatcher().run_once()
    await world.let_pass(5)
    await reconciler.run_once()
    stepped[0] += 3600
    with pytest.raises(DispatchHeld, match="stepped by"):
        await reconciler.run_once()
    assert await world.status(effect.effect_id) is EffectStatus.RECONCILING
    with pytest.raises(DispatchHeld):
        await world.dispatcher().run_once()
    assert len(world.target.requests) == 1


async def test_time_that_passes_on_every_clock_is_no_step(world: World) -> None:
    await world.open(contract())
    dispatcher = world.dispatcher()
    for order in range(3):
        effect = (await world.submit(f"order:{order}:charge:v1")).effect
        await dispatcher.run_once()
        assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
        await world.let_pass(3600 if world.is_memory else 0)


async def test_host_whose_clock_is_fast_takes_no_live_lease(world: World) -> None:
    """C11: ten minutes fast, as worker, as reconciler and as sweep."""
    await world.open(contract())
    effect = (await world.submit()).effect
    fast = replace(world, clock=MovableClock())
    fast.clock.moved = 600.0
    holding = HoldingAdapters(world.adapters, after_answer=True)
    running = asyncio.create_task(world.dispatcher(adapters=holding).run_once())
    await holding.reached.wait()
    assert (await fast.dispatcher().run_once()).attempts == 0
    assert (await fast.sweeper.run_once()).lapsed == 0
    assert (await fast.reconciler().run_once()).claimed == 0
    holding.go.set()
    assert (await running).recorded == 1
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert len(world.target.requests) == 1


def test_frozen_host_is_no_step_of_the_ledger() -> None:
    watch = ClockWatch(timedelta(seconds=1))
    watch.step(START, _at(0), _at(0.1))
    later = START + timedelta(seconds=600)
    assert watch.step(later, _at(600, frozen=599), _at(600.1, frozen=599)) is None


def test_slow_calls_widen_what_counts_as_a_step() -> None:
    watch = ClockWatch(timedelta(seconds=1))
    watch.step(START, _at(0), _at(5))
    assert watch.step(START + timedelta(seconds=12), _at(8), _at(11)) is None
    assert watch.step(START + timedelta(seconds=40), _at(12), _at(13)) == timedelta(
        seconds=40 - 12 - (13 - 8)
    )
