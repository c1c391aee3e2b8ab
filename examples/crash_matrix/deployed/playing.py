"""Plays a cell on the deployed stack: disturbs a Lambda worker; others recover."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from examples.crash_matrix.deployed.gates import Gate, gate_at
from examples.crash_matrix.deployed.ground import Ground
from examples.crash_matrix.matrix.cells import (
    Cell,
    Disturbance,
    History,
    Place,
    Scenario,
)
from examples.crash_matrix.matrix.playing import DUPLICATES, NUDGES
from examples.crash_matrix.matrix.world import NotPlayed
from examples.crash_matrix.scene import poll
from examples.crash_matrix.user import Answer, Order, UnexpectedAnswer
from examples.crash_matrix.workers import Worker, WorkerNotFound

HELD_SECONDS_MAX: Final = 30.0
"""A cold worker on a busy machine."""

HELD_AGAIN_SECONDS_MAX: Final = 180.0
"""A lease, two sweeps of a minute each, and the time in between."""

RECOVERY_SECONDS_MAX: Final = 240.0
"""Whatever is not at rest by then is stuck."""

WAKING_SECONDS_MAX: Final = 15.0
REPETITIONS: Final = 3


def _nothing() -> None:
    """Do nothing first."""


@dataclass
class Player:
    """Plays one cell; `story` is what it did, `broken` what it saw broken."""

    ground: Ground
    cell: Cell
    order: Order
    random: random.Random
    story: list[tuple[float, str]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    effect_ids: set[str] = field(default_factory=set)

    def play(self) -> None:
        """Play until the effect is at rest.

        Raises:
            NotPlayed: the point was not reached.
        """
        self._acts()[self.cell.disturbance]()
        self._rest()

    def repeated(self) -> list[dict[str, Any]]:
        """Submit the same a few times more, and return what the caller is told."""
        return [self._answered(self.submit()) for _ in range(REPETITIONS)]

    def say(self, text: str) -> None:
        """Put a line into the story."""
        self.story.append((time.time(), text))

    def submit(self) -> Answer:
        """Submit the order as its caller does."""
        answer = self.ground.user.submit(self.order)
        if answer.status not in (200, 202):
            raise NotPlayed(f"POST /v1/effects: {answer.status} {answer.body}")
        self.effect_ids.add(str(answer.body["effect_id"]))
        return answer

    def effect(self) -> dict[str, Any]:
        """Read the effect as its owner would."""
        return self.ground.user.effect(next(iter(self.effect_ids)))

    def _acts(self) -> Mapping[Disturbance, Callable[[], None]]:
        return {
            Disturbance.KILL: self._kill,
            Disturbance.KILL_TWICE: self._kill_twice,
            Disturbance.PAUSE: self._pause,
            Disturbance.DUPLICATES: lambda: self._meanwhile(self._duplicates),
            Disturbance.SECOND_WORKER: lambda: self._meanwhile(self._second_worker),
            Disturbance.NUDGES: self._nudges,
            Disturbance.LOST_ANSWER: self._lost_answer,
        }

    # What is done.

    def _kill(self) -> None:
        with self._brought_there() as worker:
            self._killed(worker)

    def _kill_twice(self) -> None:
        self._kill()
        with self._there_again() as worker:
            self._killed(worker)

    def _nudges(self) -> None:
        self._kill()
        self.ground.nudge(next(iter(self.effect_ids)), NUDGES)
        self.say(f"its nudge is put into both queues {NUDGES} times more")

    def _meanwhile(self, act: Callable[[], None]) -> None:
        with self._brought_there():
            act()

    def _pause(self) -> None:
        pauses = self.ground.pauses
        with self._brought_there() as worker:
            pauses.pause(worker)
            self.say(f"SIGSTOP worker {worker.pid} of {worker.function}")
        # At rest without it: its lease is over, and others have gone on.
        self._rest()
        self.say(f"SIGCONT {worker.pid}")
        pauses.wake(worker)
        if poll(lambda: self._came_to_an_end(worker), WAKING_SECONDS_MAX) is None:
            self.broken.append("the woken worker does not come to an end")

    def _duplicates(self) -> None:
        with ThreadPoolExecutor(DUPLICATES) as pool:
            answers = list(pool.map(lambda _: self.submit(), range(DUPLICATES)))
        told = {str(answer.body["status"]) for answer in answers}
        self.say(f"{DUPLICATES} duplicates at once: {', '.join(sorted(told))}")

    def _second_worker(self) -> None:
        for function in ("dispatch", "reconcile"):
            self.ground.stack.sweep(function)
        time.sleep(1.0)
        self.say("other workers of the functions have swept meanwhile")

    def _lost_answer(self) -> None:
        self.ground.stack.target.fault(self.cell.form, order=self.order.order)
        self.submit()
        self.say(f"submitted; the target was told: {self.cell.form}")

    # How a worker comes to the point.

    @contextmanager
    def _brought_there(self) -> Iterator[Worker]:
        """Submit, and yield the worker at the point; it is answered after the block."""
        if self.cell.history is not History.FRESH:
            with self._there_again(self._first_attempt_is_lost) as worker:
                yield worker
            return
        with self.ground.one_at_a_time, self._opened() as gate:
            gate.shut()
            self._submitted()
            self._waited_at(gate, HELD_SECONDS_MAX)
            yield self._told(gate.who())

    def _first_attempt_is_lost(self) -> None:
        answer_lost = self.cell.history is History.ANSWER_LOST
        form = "drop_after_commit" if answer_lost else "drop_before_commit"
        self.ground.stack.target.fault(form, order=self.order.order, on="post")
        with self.ground.one_at_a_time:
            self._submitted()
        self.say(f"its first attempt ends in {form}")

    @contextmanager
    def _there_again(self, first: Callable[[], None] = _nothing) -> Iterator[Worker]:
        """Yield the worker that recovery brings to the same point."""
        until = time.monotonic() + HELD_AGAIN_SECONDS_MAX
        worker: Worker | None = None
        with self._opened() as gate:
            gate.stay_shut()
            first()
            while worker is None:
                self._waited_at(gate, until - time.monotonic())
                with self.ground.one_at_a_time:
                    # It may have given up while other cells had a turn: another comes.
                    worker = self._still_there(gate)
                    if worker is not None:
                        gate.let_others_pass()
                        yield self._told(worker)

    def _still_there(self, gate: Gate) -> Worker | None:
        """Return the worker that waits, if one does."""
        if gate.is_waited_at():
            with suppress(WorkerNotFound, TimeoutError):
                return gate.who()
        return None

    @contextmanager
    def _opened(self) -> Iterator[Gate]:
        try:
            yield self._gate
        finally:
            self._gate.open()

    def _waited_at(self, gate: Gate, seconds_max: float) -> None:
        if poll(lambda: self._still_there(gate), seconds_max) is None:
            raise NotPlayed(f"no worker at {self.cell.point} in time")

    @cached_property
    def _gate(self) -> Gate:
        place = self.cell.point
        assert isinstance(place, Place)
        return gate_at(place, self.ground.stack, self.order.order)

    def _submitted(self) -> None:
        answer = self.submit()
        self.say(f"submitted: {answer.body['status']}")

    def _told(self, worker: Worker) -> Worker:
        self.say(f"worker {worker.pid} of {worker.function} waits: {self.cell.point}")
        return worker

    def _killed(self, worker: Worker) -> None:
        time.sleep(self.random.uniform(0.0, 0.2))
        worker.kill()
        self.say(f"SIGKILL {worker.pid}")

    # What then goes on.

    def _rest(self) -> None:
        if poll(self._at_rest, RECOVERY_SECONDS_MAX) is None:
            self.say(f"not at rest after {RECOVERY_SECONDS_MAX:g} s")
        effect = self.effect()
        if effect["status"] == "outcome_unknown" and not self._is_listed():
            self.broken.append("outcome_unknown, and not listed as unknown")

    def _at_rest(self) -> bool | None:
        try:
            effect = self.effect()
        except UnexpectedAnswer:
            return None  # a busy machine: ask again
        unsafe = self.cell.scenario is Scenario.C
        unknown = effect["status"] == "outcome_unknown"
        return True if effect["terminal"] or (unsafe and unknown) else None

    def _is_listed(self) -> bool:
        listed = self.ground.user.effects(status="outcome_unknown")
        return any(effect["effect_id"] in self.effect_ids for effect in listed)

    def _came_to_an_end(self, worker: Worker) -> bool | None:
        """Say whether it is dead, or has stored how its attempt or its probe ended."""
        probing = self.cell.point is Place.PROBE_ON_THE_WAY
        stored = probing or self.effect()["attempts"][0]["ended_at"] is not None
        return True if stored or not worker.alive else None

    def _answered(self, answer: Answer) -> dict[str, Any]:
        return {key: answer.body.get(key) for key in ("effect_id", "replayed", "status")}
