"""An event loop whose time is a number and whose order is the dice's."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import warnings
from collections.abc import Coroutine
from contextvars import ContextVar, copy_context
from typing import Any, Final, TypeVar

from tests.simulation.dice import Dice

T = TypeVar("T")

PROCESS: Final[ContextVar[str]] = ContextVar("process", default="world")
"""The simulated process that a task belongs to; its children inherit it."""

SHUFFLED: Final = 4
"""How many of the callbacks that are ready may overtake each other."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs one callback at a time; no socket, no thread and no clock of the host.

    A process can be killed: nothing of it runs again, no `finally` either. It can be
    frozen: what it would have run waits until it is thawed, while time goes on.
    """

    _ready: Any
    _scheduled: Any

    def __init__(self, dice: Dice) -> None:
        super().__init__()
        self.now = 0.0
        self._dice = dice
        self._dead: set[str] = set()
        self._frozen: dict[str, list[Any]] = {}
        self._made: list[asyncio.Task[Any]] = []
        self._spawned: list[asyncio.Task[Any]] = []
        self.set_task_factory(self._make)
        # What a killed or terminated process never asked for is no news; `defect` is.
        self.set_exception_handler(lambda loop, context: None)

    def time(self) -> float:
        """Return the simulated time in seconds."""
        return self.now

    def spawn(self, process: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task that belongs to a process."""
        context = copy_context()
        context.run(PROCESS.set, process)
        task = self.create_task(work, context=context)
        self._spawned.append(task)
        return task

    def kill(self, process: str) -> None:
        """End a process as SIGKILL does."""
        self._dead.add(process)
        self._frozen.pop(process, None)

    def freeze(self, process: str) -> None:
        """Stop a process as SIGSTOP does."""
        self._frozen.setdefault(process, [])

    def thaw(self, process: str) -> None:
        """Let a frozen process go on."""
        self._ready.extend(self._frozen.pop(process, ()))

    def defect(self) -> str | None:
        """Say what ended a task that nobody may end: a defect of the broker's."""
        for task in self._spawned:
            if task.done() and not task.cancelled():
                error = task.exception()
                if error is not None:
                    return f"defect: {type(error).__name__}: {error}"
        return None

    def bury(self) -> None:
        """Forget what was killed, quietly: what its `finally` would do, nobody sees."""
        with warnings.catch_warnings(), contextlib.suppress(RuntimeError):
            warnings.simplefilter("ignore")
            for task in self._made:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    _close(task.get_coro())
            self._made.clear()
            self._ready.clear()
            self._scheduled.clear()
        self.close()

    def _make(self, loop: Any, work: Any, context: Any = None) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, context=context)
        self._made.append(task)
        return task

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        if not ready:
            if not scheduled:
                raise RuntimeError("Nothing is left to happen, and somebody still waits.")
            self.now = max(self.now, scheduled[0]._when)
        while scheduled and scheduled[0]._when <= self.now:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            ready.append(timer)
        count = len(ready)
        if count > 1:
            place = self._dice.below(min(count, SHUFFLED))
            handle = ready[place]
            del ready[place]
        else:
            handle = ready.popleft()
        if handle._cancelled:
            return
        process = handle._context.get(PROCESS, "world")
        if process in self._dead:
            return
        if process in self._frozen:
            self._frozen[process].append(handle)
            return
        handle._run()

    def _process_events(self, event_list: Any) -> None:
        """There is no selector."""

    def _write_to_self(self) -> None:
        """Nobody sleeps."""


def _close(work: Any) -> None:
    for _ in range(5):
        try:
            work.close()
        except (RuntimeError, asyncio.CancelledError):
            continue
        return
