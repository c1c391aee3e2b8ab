"""The loop around a worker: when it goes on, when it waits, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from effect_broker.broker.dispatch import DispatchReport
from effect_broker.broker.reconcile import ReconcileReport
from effect_broker.domain.errors import DispatchHeld, LedgerUnavailable
from effect_broker.surfaces import looping
from effect_broker.surfaces.looping import Loop

IDLE = DispatchReport()


class Scripted:
    """Plays what each pass reports or raises; then stops the loop."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.stop = asyncio.Event()
        self.passes = 0
        self.started = asyncio.Event()
        self.hold: asyncio.Event | None = None
        self.cut = False

    async def run_once(
        self,
        *,
        effect_ids: Sequence[UUID] | None = None,
        budget: timedelta | None = None,
    ) -> Any:
        self.passes += 1
        self.started.set()
        if self.hold is not None:
            try:
                await self.hold.wait()
            except asyncio.CancelledError:
                self.cut = True
                raise
        played = self.script.pop(0)
        if not self.script:
            self.stop.set()
        if isinstance(played, Exception):
            raise played
        return played


def loop_over(worker: Scripted, **changes: Any) -> Loop:
    return Loop("worker", worker, worker.stop, **changes)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record what the loop would wait, and let no time pass."""
    asked: list[float] = []

    async def pause(self: Loop, seconds: float) -> None:
        asked.append(seconds)

    monkeypatch.setattr(Loop, "_pause", pause)
    return asked


@pytest.mark.parametrize(
    "busy",
    [
        DispatchReport(attempts=1),
        DispatchReport(more=True),
        DispatchReport(refused=1),
        ReconcileReport(claimed=1),
        ReconcileReport(more=True),
    ],
)
async def test_found_work_is_followed_by_another_look_at_once(
    waits: list[float], busy: Any
) -> None:
    worker = Scripted(busy, busy, IDLE)
    await loop_over(worker).run()
    assert worker.passes == 3
    assert waits == [looping.IDLE_SECONDS_MIN]


async def test_idle_looks_grow_rarer_up_to_a_second_and_work_makes_them_frequent(
    waits: list[float],
) -> None:
    worker = Scripted(*[IDLE] * 7, DispatchReport(attempts=1), IDLE)
    await loop_over(worker).run()
    assert waits[:6] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert waits[-1] == looping.IDLE_SECONDS_MIN


async def test_ledger_that_is_away_is_waited_for_and_said_once(
    waits: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    away = LedgerUnavailable("away")
    worker = Scripted(*[away] * 8, IDLE)
    with caplog.at_level("INFO"):
        await loop_over(worker).run()
    assert waits[:3] == [0.5, 1.0, 2.0]
    assert max(waits) == looping.AWAY_SECONDS_MAX
    said = [record.message for record in caplog.records]
    assert said == ["worker waits for the ledger, which is away", "worker goes on"]


async def test_held_dispatch_is_waited_for_and_said_once(
    waits: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    worker = Scripted(DispatchHeld("for a test"), DispatchHeld("for a test"), IDLE)
    await loop_over(worker).run()
    assert waits[:2] == [looping.HELD_SECONDS] * 2
    assert sum("is held" in record.message for record in caplog.records) == 1


async def test_defect_ends_the_loop() -> None:
    with pytest.raises(ZeroDivisionError):
        await loop_over(Scripted(ZeroDivisionError(), IDLE)).run()


async def test_sweep_comes_first_and_then_rarely(waits: list[float]) -> None:
    swept: list[int] = []
    worker = Scripted(*[IDLE] * 5)

    async def sweep() -> None:
        swept.append(worker.passes)

    await loop_over(worker, before=sweep).run()
    assert swept == [0]


async def test_nudge_ends_a_wait_at_once() -> None:
    worker = Scripted(IDLE, IDLE)
    loop = loop_over(worker)
    loop._idle = 60.0
    running = asyncio.create_task(loop.run())
    await worker.started.wait()
    loop.wake.set()
    await asyncio.wait_for(running, 5)
    assert worker.passes == 2


async def test_stop_lets_the_pass_under_way_end() -> None:
    worker = Scripted(IDLE, IDLE)
    worker.hold = asyncio.Event()
    running = asyncio.create_task(loop_over(worker).run())
    await worker.started.wait()
    worker.stop.set()
    await asyncio.sleep(0)
    worker.hold.set()
    await asyncio.wait_for(running, 5)
    assert (worker.passes, worker.cut) == (1, False)


async def test_pass_that_outlives_its_grace_is_cut() -> None:
    worker = Scripted(IDLE, IDLE)
    worker.hold = asyncio.Event()
    running = asyncio.create_task(loop_over(worker, drain_seconds=0.0).run())
    await worker.started.wait()
    worker.stop.set()
    await asyncio.wait_for(running, 5)
    assert worker.cut


async def test_cancelled_loop_leaves_no_pass_running() -> None:
    worker = Scripted(IDLE, IDLE)
    worker.hold = asyncio.Event()
    running = asyncio.create_task(loop_over(worker).run())
    await worker.started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert worker.cut
    assert asyncio.all_tasks() == {asyncio.current_task()}
