"""The demo's three targets: one honours a key, one can be asked, one does neither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from examples.crash_matrix.scene import Scene, poll
from examples.crash_matrix.target.client import SeenRequest
from examples.crash_matrix.telling import DemoFailed, PromiseBroken
from examples.crash_matrix.workers import Worker

# The watchdog looks once a second, and gives an abort one second to be heard.
WAKING_SECONDS_MAX = 10.0


@dataclass
class Keyed(Scene):
    """A: the target ties a charge to its key. Recovery sends again under that key."""

    def pause_second_worker(self) -> Worker:
        """Let recovery send again, and pause that worker with its answer on the way."""
        worker = self.hold_again()
        self.stage.pauses.pause(worker)
        self.release()
        self.say(
            f"recovery sends again under the same key. SIGSTOP for that second worker,"
            f" {worker.pid}: it believes that it holds the lease, and the answer lies"
            " unread in its socket"
        )
        return worker

    def finish_past(self, paused: Worker) -> dict[str, Any]:
        """Let the paused worker's lease lapse too, and a third worker finish."""
        effect = self.sweep_until(self.settled, "settled")
        if not paused.alive:
            raise DemoFailed(f"worker {paused.pid} ended before it could be woken")
        self._take_receipt()
        self.say(
            f"a third worker finishes it: {effect['status']} after"
            f" {len(effect['attempts'])} attempts"
        )
        posts = self._posts()
        self.check(
            f"{len(posts)} requests under one key, with one body",
            len({(p.idempotency_key, p.body_sha256) for p in posts}) == 1
            and posts[0].idempotency_key is not None,
        )
        return effect

    def wake(self, paused: Worker, before: dict[str, Any]) -> None:
        """Wake the paused worker, and look for anything that it changed."""
        sent, charged = len(self._posts()), self.charges()
        self.say(f"SIGCONT {paused.pid}: it wakes, and still believes")
        self.stage.pauses.wake(paused)
        if poll(lambda: self._is_done(paused), WAKING_SECONDS_MAX) is None:
            raise PromiseBroken(self.letter, "the woken worker comes to an end")
        after = self.effect()
        self.say(self._what_it_did(paused, after))
        self.check(
            "the woken worker changed nothing",
            after["history"] == before["history"]
            and self._receipt_id() in self.receipt_ids
            and (len(self._posts()), self.charges()) == (sent, charged),
        )

    def look(self) -> None:
        """Look at the promise of an idempotent target."""
        self.check("one charge at the target", self.charges() == 1)
        self.check("one receipt", len(self.receipt_ids) == 1)

    def _is_done(self, worker: Worker) -> bool | None:
        """Say whether it is dead, or has stored how its attempt ended."""
        return True if not worker.alive or self._second()["late"] else None

    def _what_it_did(self, worker: Worker, effect: dict[str, Any]) -> str:
        """Say how the woken worker was kept from doing harm."""
        if self._second(effect)["late"]:
            return "it is fenced: its answer is kept as late evidence, and as no more"
        return (
            f"{worker.pid} is dead: its send deadline has passed, and its own watchdog"
            " ends a process that is late"
        )

    def _second(self, effect: dict[str, Any] | None = None) -> dict[str, Any]:
        attempt: dict[str, Any] = (effect or self.effect())["attempts"][1]
        return attempt

    def _take_receipt(self) -> None:
        self.receipt_ids.add(self._receipt_id())

    def _receipt_id(self) -> str:
        return str(self.stage.user.receipt(self.effect_id).body.get("receipt_id"))

    def _posts(self) -> list[SeenRequest]:
        return self.stage.stack.target.posts(self.order.order)


@dataclass
class Lookup(Scene):
    """B: the target knows no key, but answers for a reference. Recovery asks first."""

    def recover(self) -> None:
        """Let the lease lapse and the reconciler ask."""
        effect = self.sweep_until(self.settled, "settled")
        receipt = self.stage.user.receipt(self.effect_id).body
        self.say(
            f"the reconciler asked the target: {effect['status']}, charge"
            f" {receipt.get('external_id')}, proved by a {receipt.get('source')}"
        )

    def look(self) -> None:
        """Look at the promise of a reconcilable target."""
        requests = self.stage.stack.target.requests(self.order.order)
        sent = [request for request in requests if request.method == "POST"]
        self.check(
            "sent once, then asked about, never sent again",
            len(sent) == 1 and len(requests) > 1,
        )
        self.check("one charge at the target", self.charges() == 1)
        self.check("one receipt", len(self.receipt_ids) == 1)


@dataclass
class Plain(Scene):
    """C: the target offers nothing. Recovery says so, and does not send again."""

    def recover(self) -> None:
        """Let the lease lapse; nobody can be asked."""
        effect = self.sweep_until(self._unknown, UNKNOWN)
        self.say(f"{effect['status']}: {effect['outcome']}")

    def look(self) -> None:
        """Look at the promise of an unsafe target."""
        effect = self.effect()
        self.check(f"{UNKNOWN}, and no other word", effect["status"] == UNKNOWN)
        listed = self.stage.user.effects(status=UNKNOWN)
        self.check(
            "listed as unknown", any(e["effect_id"] == self.effect_id for e in listed)
        )
        self.check(
            "sent once, and never again",
            len(self.stage.stack.target.posts(self.order.order)) == 1,
        )
        self.check("one charge at the target", self.charges() == 1)
        self.check("no receipt without proof", not self.receipt_ids)

    def _unknown(self) -> dict[str, Any] | None:
        effect = self.effect()
        return effect if effect["status"] == UNKNOWN else None


UNKNOWN = "outcome_unknown"
