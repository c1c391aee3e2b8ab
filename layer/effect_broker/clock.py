"""The host's clocks: three of them, since each may stand still where another goes on."""

from __future__ import annotations

import time
from typing import Final

_BOOTTIME: Final = getattr(time, "CLOCK_BOOTTIME", None)
"""Linux has it; elsewhere the monotonic clock is the nearest thing."""


class SystemClock:
    """Reads the machine's clocks."""

    def monotonic(self) -> float:
        """Return seconds that stand still while the host is suspended."""
        return time.monotonic()

    def boottime(self) -> float:
        """Return seconds that go on while the host is suspended."""
        return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)

    def wall(self) -> float:
        """Return seconds since the epoch, as the host believes them."""
        return time.time()
