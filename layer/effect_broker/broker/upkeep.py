"""What a ledger needs now and then, so that nobody has to remember it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.ports import Clock, Maintenance

EVERY_SECONDS: Final = 6 * 3600
"""Partitions are made months ahead and fences wait a day: a few times a day is plenty."""

FORGET_PASSES: Final = 20
"""Bounds what one upkeep removes; the next one goes on."""

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Upkeep:
    """Makes the next months' partitions and forgets settled fences, a few times a day.

    Any number of processes may do it at once. It keeps only when it last did.
    """

    maintenance: Maintenance
    clock: Clock
    _done_at: float | None = field(default=None, init=False)

    async def run_if_due(self) -> bool:
        """Do it unless this process did so within `EVERY_SECONDS`; say whether it did.

        A ledger that is away leaves it due.
        """
        now = self.clock.monotonic()
        if self._done_at is not None and now - self._done_at < EVERY_SECONDS:
            return False
        try:
            made = await self.maintenance.make_partitions()
            await self._forget_fences()
        except LedgerUnavailable as error:
            _log.warning("the upkeep is left to the next sweep: %s", error.message)
            return False
        self._done_at = now
        if made:
            _log.info("made partitions: %s", ", ".join(made))
        return True

    async def _forget_fences(self) -> None:
        for _ in range(FORGET_PASSES):
            if not await self.maintenance.forget_fences():
                return
