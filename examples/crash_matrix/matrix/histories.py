"""Brings an effect to where recovery is due, before anybody is disturbed."""

from __future__ import annotations

from effect_broker.domain.status import EffectStatus
from effect_broker.failpoints import Failpoint
from examples.crash_matrix.matrix.cells import History, Scenario
from examples.crash_matrix.matrix.times import MARGIN_SECONDS
from examples.crash_matrix.matrix.world import NotPlayed, World


async def bring_about(world: World) -> None:
    """Play the cell's history.

    Raises:
        NotPlayed: it went otherwise.
    """
    match world.cell.history:
        case History.FRESH:
            return
        case History.WORKER_KILLED:
            await _first_worker_dies(world)
        case History.ANSWER_LOST:
            await _first_answer_is_lost(world, "drop_after_commit")
        case History.REQUEST_LOST:
            await _first_answer_is_lost(world, "drop_before_commit")
    await _recovery_is_due(world)


async def _first_worker_dies(world: World) -> None:
    local = world.cell.scenario is Scenario.T
    point = Failpoint.BEFORE_RECEIPT_COMMIT if local else Failpoint.AFTER_TARGET_COMMIT
    child = await world.start("dispatcher", at=point)
    await world.wait_for(child.ended(), "the first worker dies")
    world.say(f"{child.name} was killed at {point}")


async def _first_answer_is_lost(world: World, fault: str) -> None:
    await world.fault(fault, "post")
    child = await world.start("dispatcher")

    async def lost() -> bool:
        snapshot = await world.snapshot()
        unknown = EffectStatus.OUTCOME_UNKNOWN
        return snapshot is not None and snapshot.status is unknown

    await world.until(lost, "the first answer is lost")
    child.kill()
    world.say(f"the first attempt of {child.name} ended in {fault}")


async def _recovery_is_due(world: World) -> None:
    async def due() -> bool:
        return await _seconds_until_due(world) <= 0

    await world.until(due, "recovery is due")


async def _seconds_until_due(world: World) -> float:
    snapshot = await world.snapshot()
    if snapshot is None or snapshot.work is None or snapshot.work.due_at is None:
        raise NotPlayed("the effect is not where recovery begins")
    left = (snapshot.work.due_at - snapshot.now).total_seconds()
    leased = snapshot.status is EffectStatus.DISPATCHING
    return left + (MARGIN_SECONDS if leased else 0.0) + 0.05
