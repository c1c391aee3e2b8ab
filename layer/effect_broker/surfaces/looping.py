"""Workers as plain processes: passes one after another, until a signal says to stop."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from effect_broker.broker.dispatch import DispatchReport
from effect_broker.broker.reconcile import ReconcileReport
from effect_broker.domain.errors import DispatchHeld, LedgerUnavailable
from effect_broker.surfaces.working import Worker

IDLE_SECONDS_MIN: Final = 0.05
"""First wait after a pass that found nothing; doubles up to the longest."""

IDLE_SECONDS_MAX: Final = 1.0
"""How late work may be found that nobody announced: each look is one indexed read."""

AWAY_SECONDS_MAX: Final = 15.0
"""The longest wait between tries while the ledger is away."""

HELD_SECONDS: Final = 5.0
"""Between looks whether an operator has released dispatch."""

SWEEP_SECONDS: Final = 10.0
"""Between sweeps of one process; leases end on the ledger's clock, whoever sweeps."""

DRAIN_SECONDS: Final = 30.0
"""How long the pass under way may go on after a signal; then it is cut short, and what it
had sent is recorded as unknown."""

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Loop:
    """Runs one worker's passes; keeps nothing between them but how long it has waited.

    `before` runs ahead of a pass, at most every `SWEEP_SECONDS`. `wake` ends a wait at
    once: whoever announces work in this process sets it.
    """

    name: str
    worker: Worker
    stop: asyncio.Event
    before: Callable[[], Awaitable[None]] | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    drain_seconds: float = DRAIN_SECONDS
    _idle: float = field(default=IDLE_SECONDS_MIN, init=False)
    _away: float = field(default=0.0, init=False)
    _held: bool = field(default=False, init=False)
    _swept_at: float | None = field(default=None, init=False)

    async def run(self) -> None:
        """Work until `stop` is set, and let the pass under way end within its grace.

        A ledger that is away, or held dispatch, is waited for and said once. A defect
        ends the loop: whoever supervises the process starts it anew, and what it held
        returns at its lease end.
        """
        while not self.stop.is_set():
            wait = await self._pass_or_cut()
            if wait > 0:
                await self._pause(wait)

    async def _pass_or_cut(self) -> float:
        """Make one pass; after a signal it has the rest of its grace."""
        passing = asyncio.create_task(self._pass())
        stopping = asyncio.create_task(self.stop.wait())
        try:
            await asyncio.wait({passing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not passing.done():
                _log.info("%s drains what it has under way", self.name)
                await asyncio.wait({passing}, timeout=self.drain_seconds)
        finally:
            stopping.cancel()
            if not passing.done():
                passing.cancel()
                await asyncio.wait({passing})
        if passing.cancelled():
            _log.warning("%s cut its last pass short", self.name)
            return 0.0
        return passing.result()

    async def _pass(self) -> float:
        """Return how long to wait after this pass."""
        try:
            await self._before()
            report = await self.worker.run_once()
        except LedgerUnavailable:
            return self._ledger_away()
        except DispatchHeld as held:
            if not self._held:
                _log.error("dispatch is held until an operator releases it: %s", held)
            self._held = True
            return HELD_SECONDS
        if self._away or self._held:
            _log.info("%s goes on", self.name)
        self._away, self._held = 0.0, False
        if _found_work(report):
            self._idle = IDLE_SECONDS_MIN
            return 0.0
        waited, self._idle = self._idle, min(self._idle * 2, IDLE_SECONDS_MAX)
        return waited

    async def _before(self) -> None:
        now = asyncio.get_running_loop().time()
        due = self._swept_at is None or now - self._swept_at >= SWEEP_SECONDS
        if self.before is not None and due:
            await self.before()
            self._swept_at = now

    def _ledger_away(self) -> float:
        if not self._away:
            _log.warning("%s waits for the ledger, which is away", self.name)
        self._away = min(max(self._away * 2, 0.5), AWAY_SECONDS_MAX)
        return self._away

    async def _pause(self, seconds: float) -> None:
        """Wait, somewhat more or less, until woken or stopped."""
        spread = random.uniform(0.75, 1.25)  # noqa: S311
        events = [asyncio.create_task(it.wait()) for it in (self.stop, self.wake)]
        try:
            await asyncio.wait(
                events, timeout=seconds * spread, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for event in events:
                event.cancel()
        if self.wake.is_set():
            self.wake.clear()
            self._idle = IDLE_SECONDS_MIN


def _found_work(report: Any) -> bool:
    match report:
        case DispatchReport():
            return report.more or report.attempts > 0 or report.refused > 0
        case ReconcileReport():
            return report.more or report.claimed > 0
        case _:
            return False
