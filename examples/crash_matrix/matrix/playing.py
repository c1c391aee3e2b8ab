"""Plays a cell: brings a process to the point, disturbs it there, and lets others
recover.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from effect_broker.domain.status import TERMINAL, EffectStatus
from effect_broker.failpoints import Act
from examples.crash_matrix.matrix.cells import (
    RESERVING,
    Disturbance,
    Place,
    Scenario,
)
from examples.crash_matrix.matrix.checks import broken_by_draining
from examples.crash_matrix.matrix.children import Child
from examples.crash_matrix.matrix.cutting import Breach, Cut
from examples.crash_matrix.matrix.histories import bring_about
from examples.crash_matrix.matrix.times import (
    LEASE_SECONDS,
    MARGIN_SECONDS,
    SETTLEMENT_SECONDS,
)
from examples.crash_matrix.matrix.world import POLL_SECONDS, NotPlayed, World

RECOVERY_SECONDS_MAX: Final = 45.0
"""Far longer than any recovery takes here: whatever is not at rest by then is stuck."""

AT_THE_POINT_SECONDS_MAX: Final = 30.0
DUPLICATES: Final = 5
NUDGES: Final = 3

CUTS: Final[Mapping[Disturbance, Cut]] = {
    Disturbance.DATABASE_CUT_BEFORE: Cut.BEFORE,
    Disturbance.DATABASE_CUT_HALF: Cut.HALF,
    Disturbance.DATABASE_CUT_AFTER: Cut.AFTER,
    Disturbance.DATABASE_CUT_LATE: Cut.LATE,
    Disturbance.TARGET_CUT_BEFORE: Cut.BEFORE,
    Disturbance.TARGET_CUT_AFTER: Cut.AFTER,
}
MARKERS: Final[Mapping[Place, bytes]] = {
    Place.RESERVATION_COMMIT: b"effect_broker.reserve(",
    Place.ATTEMPT_COMMIT: b"effect_broker.claim(",
    Place.RECEIPT_COMMIT: b"effect_broker.finish(",
    Place.LOSS_COMMIT: b"effect_broker.defer(",
    Place.SWEEP_COMMIT: b"effect_broker.expire_leases(",
    Place.RECONCILIATION_COMMIT: b"effect_broker.claim_reconciliation(",
    Place.TRANSITION_COMMIT: b"effect_broker.defer(",
    Place.MUTATION: b"INSERT INTO charges",
    Place.MUTATION_COMMIT: b"COMMIT\x00",
}
"""How the proxy knows the call of a step, once it is on the wire."""
HOLDS: Final[Mapping[Place, tuple[str, str]]] = {
    Place.REQUEST_ON_THE_WAY: ("hold_before_commit", "post"),
    Place.ANSWER_ON_THE_WAY: ("hold_after_commit", "post"),
    Place.PROBE_ON_THE_WAY: ("hold_after_commit", "lookup"),
}


@dataclass
class Player:
    """Plays one cell in its world; `random` is the seed's."""

    world: World
    random: random.Random
    _worker: Child | None = field(default=None, init=False)

    async def play(self) -> None:
        """Play until the effect is at rest and whoever was paused has come to an end.

        Raises:
            NotPlayed: the point was not reached, or something else went otherwise than
                the cell says.
        """
        cell = self.world.cell
        if cell.point not in (*RESERVING, Place.RESERVATION_COMMIT):
            await self._submit()
        await bring_about(self.world)
        await self._acts()[cell.disturbance]()
        await self._rest()
        await self._quiet()

    def _acts(self) -> Mapping[Disturbance, Callable[[], Awaitable[None]]]:
        cuts = dict.fromkeys(CUTS, self._database_cut)
        for disturbance in (Disturbance.TARGET_CUT_BEFORE, Disturbance.TARGET_CUT_AFTER):
            cuts[disturbance] = self._target_cut
        return {
            **cuts,
            Disturbance.KILL: self._kill,
            Disturbance.KILL_TWICE: self._kill_twice,
            Disturbance.PAUSE: self._pause,
            Disturbance.TERMINATE: self._terminate,
            Disturbance.DUPLICATES: self._duplicates,
            Disturbance.SECOND_WORKER: self._second_worker,
            Disturbance.NUDGES: self._nudges,
            Disturbance.LOST_ANSWER: self._lost_answer,
            Disturbance.LATE_ARRIVAL: self._lost_answer,
        }

    # What came before.

    async def _submit(self) -> None:
        answers = await self.world.submitted()
        self.world.say(f"submitted: {_told(answers)}")

    # What is done at the point.

    async def _kill(self) -> None:
        await self._brought_to_the_point(Act.KILL)
        await self._heal()

    async def _kill_twice(self) -> None:
        await self._brought_to_the_point(Act.KILL)
        await self._brought_to_the_point(Act.KILL)
        await self._heal()

    async def _pause(self) -> None:
        world = self.world
        paused = await self._brought_to_the_point(Act.STOP)
        stopped_at = time.monotonic()
        await self._heal()
        await self._rest()
        over = LEASE_SECONDS + MARGIN_SECONDS + SETTLEMENT_SECONDS + 0.2
        await asyncio.sleep(max(0.0, stopped_at + over - time.monotonic()))
        world.say(f"SIGCONT {paused.name}")
        paused.go_on()
        await self._comes_to_an_end(paused)

    async def _terminate(self) -> None:
        """C19: a worker is told to end, with its work under way."""
        place, world = self.world.cell.point, self.world
        if isinstance(place, Place):
            async with self._busy_at(place) as child:
                child.terminate()
                await world.wait_for(child.ended(), f"{child.name} ends")
        else:
            child = await self._brought_to_the_point(Act.STOP)
            child.terminate()
            child.go_on()
            await world.wait_for(child.ended(), f"{child.name} ends")
        world.say(f"SIGTERM {child.name}: it has ended with {child.status}")
        held = await world.attempts_held()
        world.broken += broken_by_draining(child.name, child.status, held)
        await self._heal()

    async def _duplicates(self) -> None:
        stopped = await self._brought_to_the_point(Act.STOP)
        answers = await self.world.submitted(DUPLICATES)
        self.world.say(f"{DUPLICATES} duplicates at once: {_told(answers)}")
        stopped.go_on()
        await self._goes_on(stopped)

    async def _second_worker(self) -> None:
        stopped = await self._brought_to_the_point(Act.STOP)
        second = await self.world.start("worker")
        await self.world.more_passes(second, 3)
        self.world.say(f"{second.name}, configured alike, has looked at it three times")
        stopped.go_on()
        await self._goes_on(stopped)

    async def _nudges(self) -> None:
        world = self.world
        await self._brought_to_the_point(Act.KILL)
        snapshot = await world.snapshot()
        if snapshot is None:
            raise NotPlayed("there is no effect to be nudged about")
        effect = str(snapshot.intent.effect_id)
        nudged = await world.start("nudged", "--effect", effect, "--times", str(NUDGES))
        await world.wait_for(nudged.ended(), "the nudges are taken")
        world.say(f"the nudge was delivered {NUDGES} times more")
        await self._heal()

    async def _lost_answer(self) -> None:
        cell, world = self.world.cell, self.world
        await world.fault(cell.form, "post")
        world.say(f"the target was told: {cell.form}")
        await self._heal()
        await self._fault_was_used()

    async def _target_cut(self) -> None:
        cell, world = self.world.cell, self.world
        probing = cell.point is Place.PROBE_ON_THE_WAY
        marker = b"GET /" if probing else b"POST /"
        world.network.order(Breach(CUTS[cell.disturbance], marker))
        await self._heal()
        await world.wait_until(lambda: world.network.cuts > 0, "the target is cut off")
        world.say(f"{marker.decode()} was cut off, {CUTS[cell.disturbance]}")

    async def _database_cut(self) -> None:
        cell, world = self.world.cell, self.world
        assert isinstance(cell.point, Place)
        marker = MARKERS[cell.point]
        if cell.form:
            await world.fault(cell.form, "post")
        world.database.order(Breach(CUTS[cell.disturbance], marker))
        if cell.point is Place.RESERVATION_COMMIT:
            child = await world.submit(through_proxy=True)
            await world.wait_for(child.ended(), "the submission ends")
            world.say(f"answered: {_told(world.answers_of(child))}")
        else:
            self._worker = await world.start("worker", through_proxy=True)
        step = marker.decode().rstrip("(\0")
        await world.wait_until(lambda: world.database.cuts > 0, f"{step} is cut off")
        world.say(f"the database was cut off at {step}, {CUTS[cell.disturbance]}")
        await self._heal()

    # How a process comes to the point, and what then goes on.

    async def _brought_to_the_point(self, act: Act) -> Child:
        """Start the process that the cell disturbs, and do it at the point."""
        point, world = self.world.cell.point, self.world
        if isinstance(point, Place):
            child = await self._held_at_target(point, act)
        elif point in RESERVING:
            child = await world.submit(at=point, act=act)
        else:
            child = await world.start("worker", at=point, act=act)
        arriving = child.ended() if act is Act.KILL else child.stopped_or_ended()
        await world.wait_for(
            arriving, f"{child.name} at {point}", seconds=AT_THE_POINT_SECONDS_MAX
        )
        if child.status != (-signal.SIGKILL if act is Act.KILL else None):
            raise NotPlayed(f"{child.name} ended with {child.status} before {point}")
        world.say(f"{'SIGKILL' if act is Act.KILL else 'SIGSTOP'} {child.name}: {point}")
        await asyncio.sleep(self.random.uniform(0.0, 0.2))
        return child

    async def _held_at_target(self, place: Place, act: Act) -> Child:
        """Let the target hold what is on its way, disturb whoever waits, and let go."""
        async with self._busy_at(place) as child:
            if act is Act.KILL:
                child.kill()
            else:
                child.stop()
            await child.stopped_or_ended()
        return child

    def _busy_at(self, place: Place) -> AbstractAsyncContextManager[Child]:
        """Yield a worker that waits for its target, which answers after the block."""
        return self._locked_out() if place is Place.MUTATION else self._waiting(place)

    @asynccontextmanager
    async def _waiting(self, place: Place) -> AsyncIterator[Child]:
        world, target = self.world, self.world.grounds.target
        order = world.order.order
        await world.fault(*HOLDS[place])
        child = await world.start("worker")
        try:
            await world.at_target(
                target.wait_held, order, seconds=AT_THE_POINT_SECONDS_MAX
            )
        except TimeoutError as error:
            raise NotPlayed(str(error)) from None
        yield child
        await world.at_target(target.release, order)

    @asynccontextmanager
    async def _locked_out(self) -> AsyncIterator[Child]:
        async with self.world.business_table_locked() as is_waited_for:
            child = await self.world.start("worker")
            await self.world.until(is_waited_for, "the mutation waits for a lock")
            yield child

    async def _heal(self) -> None:
        """See to it that the caller asks again and that a worker runs."""
        if self.world.cell.point in (*RESERVING, Place.RESERVATION_COMMIT):
            answers = await self.world.submitted()
            self.world.say(f"the caller asks again: {_told(answers)}")
        if self._worker is None:
            self._worker = await self.world.start("worker")

    async def _goes_on(self, stopped: Child) -> None:
        if stopped.name.startswith("submitter"):
            await self.world.wait_for(stopped.ended(), "the first submission ends")
            self.world.answers_of(stopped)
            await self._heal()
        else:
            self._worker = stopped

    async def _comes_to_an_end(self, woken: Child) -> None:
        """Wait until a woken process is dead, or has done whatever it still meant to."""
        world = self.world
        if woken.name.startswith("submitter"):
            await world.wait_for(woken.ended(), "the woken submitter ends")
            world.answers_of(woken)
            return
        await world.more_passes(woken, 2)
        fate = "goes on" if woken.is_alive else f"has ended itself ({woken.status})"
        world.say(f"{woken.name} {fate}")

    async def _rest(self) -> None:
        """Wait until nothing more is to be expected of the broker."""

        async def rests() -> None:
            while not await self._at_rest():
                await self._keep_a_worker()
                await asyncio.sleep(POLL_SECONDS * 2)

        try:
            async with asyncio.timeout(RECOVERY_SECONDS_MAX):
                await rests()
        except TimeoutError:
            self.world.say(f"not at rest after {RECOVERY_SECONDS_MAX:g} s")

    async def _at_rest(self) -> bool:
        snapshot = await self.world.snapshot()
        if snapshot is None:
            return False
        unsafe = self.world.cell.scenario is Scenario.C
        unknown = snapshot.status is EffectStatus.OUTCOME_UNKNOWN
        return snapshot.status in TERMINAL or (unsafe and unknown)

    async def _keep_a_worker(self) -> None:
        """Start a worker where the last one has ended itself, as a supervisor would."""
        if self._worker is not None and not self._worker.is_alive:
            self.world.say(f"{self._worker.name} has ended ({self._worker.status})")
            self._worker = await self.world.start("worker")

    async def _quiet(self) -> None:
        """Let the workers look twice more at what is over."""
        if self._worker is not None:
            await self.world.more_passes(self._worker, 2)

    async def _fault_was_used(self) -> None:
        order, target = self.world.order.order, self.world.grounds.target

        async def used() -> bool:
            queued = await self.world.at_target(target.faults_left)
            return all(left["order"] != order for left in queued)

        await self.world.until(used, "the target has done what it was told")


def _told(answers: Sequence[Mapping[str, Any]]) -> str:
    """Say what a caller was told, without the ids."""
    told = [
        f"{'new' if answer['created'] else 'a replay'}, {answer['status']}"
        if "effect_id" in answer
        else "the ledger cannot be reached; the same key may be tried again"
        for answer in answers
    ]
    return "; ".join(told) or "nothing"
