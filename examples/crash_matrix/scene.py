"""What every scenario has in common: submit, kill after the commit, resubmit, count."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from examples.crash_matrix.stack import Stack
from examples.crash_matrix.telling import (
    DemoFailed,
    Figures,
    PromiseBroken,
    Promises,
    Teller,
)
from examples.crash_matrix.user import Answer, Order, User
from examples.crash_matrix.workers import Pauses, Worker, holder

RESUBMISSIONS = 10
# A worker may have to start first, and a machine may be busy.
HELD_SECONDS_MAX = 20.0
# From a lapsed lease on: sweep, nudge, a cold worker, an answer.
RECOVERY_SECONDS_MAX = 30.0
# Between two sweeps; each is harmless, and too early ones find nothing.
SWEEP_SECONDS = 1.0
POLL_SECONDS = 0.1

T = TypeVar("T")


@dataclass(frozen=True)
class Stage:
    """What all scenarios act on."""

    stack: Stack
    user: User
    teller: Teller
    promises: Promises
    pauses: Pauses


@dataclass
class Scene:
    """One order on its way through a killed worker."""

    stage: Stage
    letter: str
    order: Order
    effect_id: str = ""
    receipt_ids: set[str] = field(default_factory=set)

    def say(self, text: str) -> None:
        """Tell a step."""
        self.stage.teller.say(self.letter, text)

    def check(self, promise: str, held: bool) -> None:
        """Look at a promise."""
        self.stage.promises.check(self.letter, promise, held)

    def effect(self) -> dict[str, Any]:
        """Read the effect as its owner would."""
        return self.stage.user.effect(self.effect_id)

    def charges(self) -> int:
        """Count what the target really charged for the order."""
        return len(self.stage.stack.target.charges(self.order.order))

    def submit_and_kill(self) -> None:
        """Submit, and kill the worker after the commit and before it is told."""
        self._hold_next_answer()
        answer = self.stage.user.submit(self.order)
        if answer.status != 202:
            raise DemoFailed(f"POST /v1/effects: {answer.status} {answer.body}")
        self.effect_id = str(answer.body["effect_id"])
        self.say(
            f"POST /v1/effects {self.order.operation_key} ({self.order.tool})"
            f" → {answer.status}, effect {self.effect_id}"
        )
        worker = self._held_worker()
        self.say(
            f"the target has committed ({self.charges()} charge) and holds its answer to"
            f" worker {worker.pid} of {worker.function}"
        )
        worker.kill()
        self.release()
        self.say(
            f"SIGKILL {worker.pid}: nobody will read that answer. The ledger says"
            f" {self.effect()['status']}; the lease ends in"
            f" {self._lease_seconds_left():.1f} s"
        )

    def hold_again(self) -> Worker:
        """Let the lease lapse and recovery send again; return the worker that is held."""
        self._hold_next_answer()
        self.sweep_until(self._is_held, "sent again")
        return self._held_worker()

    def release(self) -> None:
        """Let the target answer whatever it holds for the order."""
        self.stage.stack.target.release(self.order.order)

    def lease_end(self) -> datetime | None:
        """Return when the lease of the attempt under way ends, if one is under way."""
        effect = self.effect()
        if effect["status"] != "dispatching":
            return None
        return datetime.fromisoformat(effect["deadlines"]["next_step_at"])

    def sweep_until(self, reached: Callable[[], T | None], what: str) -> T:
        """Wait for the lease end, then sweep as the schedule does until something is so.

        Raises:
            PromiseBroken: it never came to be.
        """
        found = poll(reached, self._lease_seconds_left())
        if found is not None:
            self.say("its lease is over, and the scheduled sweep has found it")
            return found
        self.say("its lease is over: the sweep is sent now")
        deadline = time.monotonic() + RECOVERY_SECONDS_MAX
        while time.monotonic() < deadline:
            self.stage.stack.sweep("reconcile")
            found = poll(reached, SWEEP_SECONDS)
            if found is not None:
                return found
        raise PromiseBroken(
            self.letter, f"{what} within {RECOVERY_SECONDS_MAX:.0f} s of the lease end"
        )

    def settled(self) -> dict[str, Any] | None:
        """Return the effect once it is terminal."""
        effect = self.effect()
        return effect if effect["terminal"] else None

    def resubmit(self) -> list[Answer]:
        """Submit the same charge ten times at once."""
        user, order = self.stage.user, self.order
        with ThreadPoolExecutor(RESUBMISSIONS) as pool:
            answers = list(pool.map(lambda _: user.submit(order), range(RESUBMISSIONS)))
        for answer in answers:
            if receipt := answer.body.get("receipt"):
                self.receipt_ids.add(str(receipt["receipt_id"]))
        self.say(f"the same POST {RESUBMISSIONS} times at once")
        replays = [a for a in answers if a.status == 200 and a.body.get("replayed")]
        effects = {answer.body.get("effect_id") for answer in answers}
        self.check(
            f"{RESUBMISSIONS} resubmissions are {RESUBMISSIONS} replays of one effect",
            len(replays) == RESUBMISSIONS and effects == {self.effect_id},
        )
        return answers

    def figures(self) -> Figures:
        """Count everything once more, at its source."""
        receipt = self.stage.user.receipt(self.effect_id)
        if receipt.status == 200:
            self.receipt_ids.add(str(receipt.body["receipt_id"]))
        effect = self.effect()
        return Figures(
            charges=self.charges(),
            receipts=len(self.receipt_ids),
            attempts=len(effect["attempts"]),
            status=effect["status"],
        )

    def _hold_next_answer(self) -> None:
        self.stage.stack.target.fault("hold_after_commit", order=self.order.order)

    def _held_worker(self) -> Worker:
        target, order = self.stage.stack.target, self.order.order
        try:
            target.wait_held(order, seconds=HELD_SECONDS_MAX)
        except TimeoutError:
            promise = f"a request at the target within {HELD_SECONDS_MAX:.0f} s"
            raise PromiseBroken(self.letter, promise) from None
        return holder(self.stage.stack, "dispatch", self.order.order)

    def _is_held(self) -> bool | None:
        held = self.stage.stack.target.wait_held(self.order.order, count=0, seconds=0)
        return True if held else None

    def _lease_seconds_left(self) -> float:
        end = self.lease_end()
        return (end - datetime.now(UTC)).total_seconds() if end else 0.0


def poll(ask: Callable[[], T | None], seconds_max: float) -> T | None:
    """Ask until there is an answer, or the time is over."""
    deadline = time.monotonic() + seconds_max
    while (answer := ask()) is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return answer
