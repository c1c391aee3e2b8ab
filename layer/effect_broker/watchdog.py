"""The watchdog: a thread of its own, so that a blocked loop is no excuse to send late."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from effect_broker.ports import Clock, Deadline

GRACE_SECONDS: Final = 1.0
"""From the abort of the connection to the end of the process: an abort takes
microseconds, so whoever is not back by then does not run."""

TICK_SECONDS: Final = 1.0
"""The wait is on the monotonic clock alone; the others are looked at once a second."""

EXIT_STATUS: Final = 75
"""EX_TEMPFAIL: a supervisor should start the process again."""


@dataclass(eq=False, slots=True)
class _Guarded:
    deadline: Deadline
    abort: Callable[[], None] | None
    aborted: bool = False


def end_process() -> None:
    """End this process at once: no handler, no buffer and no socket outlives it."""
    os._exit(EXIT_STATUS)


class ThreadWatchdog:
    """Aborts what outlives its send deadline; calls `on_overrun` if it is there still.

    In worker processes and Lambdas `on_overrun` is `end_process`; where the broker is a
    guest in somebody's program it is None, and the gate before each write has to do. A
    deadline counts as passed once any clock says so.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        on_overrun: Callable[[], None] | None = end_process,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self._clock = clock
        self._on_overrun = on_overrun
        self._grace_seconds = grace_seconds
        self._guarded: list[_Guarded] = []
        self._changed = threading.Condition()
        # When the thread looks next by itself: whoever is due later need not wake it.
        self._looks_at = float("inf")
        self._thread: threading.Thread | None = None

    @contextmanager
    def guard(
        self, deadline: Deadline, *, abort: Callable[[], None] | None = None
    ) -> Iterator[None]:
        """Watch the block until it is left.

        `abort` is called from the watchdog's thread, at most once, and never after the
        block was left; it must be quick and must not raise.
        """
        guarded = _Guarded(deadline, abort)
        with self._changed:
            self._guarded.append(guarded)
            self._start()
            if self._clock.monotonic() + self._seconds_left(deadline) < self._looks_at:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._guarded.remove(guarded)

    def look(self) -> float | None:
        """Act on every deadline that has passed; return the seconds until the next one.

        None means that nothing is watched.
        """
        with self._changed:
            waits = [self._look_at(guarded) for guarded in self._guarded]
        return min(waits, default=None)

    def _look_at(self, guarded: _Guarded) -> float:
        left = self._seconds_left(guarded.deadline)
        if left <= 0 and not guarded.aborted:
            guarded.aborted = True
            if guarded.abort is not None:
                guarded.abort()
        if self._on_overrun is None:
            return TICK_SECONDS if guarded.aborted else left
        if left + self._grace_seconds <= 0:
            self._on_overrun()
            return TICK_SECONDS
        return left + self._grace_seconds if guarded.aborted else left

    def _seconds_left(self, deadline: Deadline) -> float:
        return min(
            deadline.monotonic - self._clock.monotonic(),
            deadline.boottime - self._clock.boottime(),
            deadline.wall - self._clock.wall(),
        )

    def _start(self) -> None:
        """Start the thread with the first guard, and again in the child of a fork."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(
                target=self._run, name="effect-broker-watchdog", daemon=True
            )
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                wait = self.look()
                if wait is None:
                    self._looks_at = float("inf")
                    self._changed.wait()
                else:
                    wait = min(wait, TICK_SECONDS)
                    self._looks_at = self._clock.monotonic() + wait
                    self._changed.wait(wait)
