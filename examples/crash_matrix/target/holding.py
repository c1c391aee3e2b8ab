"""Requests that wait: held until somebody releases them, or delayed for a time.

A wait ends early only when the service is reset; the request then does nothing more.
"""

import threading
from dataclasses import asdict, dataclass
from typing import Literal

from .instants import now, rendered

# How long a release waits for the released requests to do what they were about to do.
FINISH_SECONDS_MAX = 5.0


class Abandoned(Exception):
    """The service was reset while the request was under way: it may not act or answer."""


@dataclass(frozen=True)
class Held:
    """One request that waits for a release, and whether it has committed by now."""

    request_id: int
    world: str
    order: str | None
    stage: Literal["before_commit", "after_commit"]
    held_at: str

    def matches(self, order: str | None) -> bool:
        return order is None or self.order == order


class Holding:
    """Every wait of every request, so that a reset can end them all."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._generation = 0
        self._held: dict[int, Held] = {}
        self._released: set[int] = set()

    def hold(
        self,
        request_id: int,
        world: str,
        order: str | None,
        stage: Literal["before_commit", "after_commit"],
    ) -> None:
        """Wait until the request is released.

        Raises:
            Abandoned: the service was reset meanwhile.
        """
        with self._changed:
            generation = self._generation
            self._held[request_id] = Held(
                request_id, world, order, stage, rendered(now())
            )
            self._changed.notify_all()
            self._changed.wait_for(lambda: request_id not in self._held)
            if generation != self._generation:
                raise Abandoned

    def delay(self, seconds: float) -> None:
        """Wait for a time.

        Raises:
            Abandoned: the service was reset meanwhile.
        """
        with self._changed:
            generation = self._generation
            reset = self._changed.wait_for(
                lambda: generation != self._generation, timeout=seconds
            )
        if reset:
            raise Abandoned

    def held(
        self, order: str | None, *, count: int, wait_seconds: float
    ) -> list[dict[str, object]]:
        """List what is held, as soon as there are `count` of them or the wait is over."""
        with self._changed:
            self._changed.wait_for(
                lambda: len(self._matching(order)) >= count, timeout=wait_seconds
            )
            return [asdict(held) for held in self._matching(order)]

    def release(self, order: str | None) -> int:
        """Let held requests go on, and return once they have done what was left to do."""
        with self._changed:
            released = {held.request_id for held in self._matching(order)}
            for request_id in released:
                del self._held[request_id]
            self._released |= released
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: not released & self._released, timeout=FINISH_SECONDS_MAX
            )
        return len(released)

    def finished(self, request_id: int) -> None:
        with self._changed:
            self._released.discard(request_id)
            self._changed.notify_all()

    def abandon(self) -> None:
        """End every wait; whoever waited is told by `Abandoned`."""
        with self._changed:
            self._generation += 1
            self._held.clear()
            self._changed.notify_all()

    def _matching(self, order: str | None) -> list[Held]:
        return [held for held in self._held.values() if held.matches(order)]
