"""Makes identifiers: UUID version 7, so that rows made together lie together."""

from __future__ import annotations

import os
import time
from uuid import UUID

_VERSION_7 = 0x7 << 76
_VARIANT = 0b10 << 62
_RANDOM_HIGH_BITS = 12
_RANDOM_LOW_MASK = (1 << 62) - 1
_RANDOM_HIGH_MASK = (1 << _RANDOM_HIGH_BITS) - 1


def uuid7() -> UUID:
    """Return a fresh identifier that starts with the host's time in milliseconds.

    The order is a convenience for storage; no decision rests on it.
    """
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    return UUID(
        int=(milliseconds << 80)
        | _VERSION_7
        | ((random >> 62) & _RANDOM_HIGH_MASK) << 64
        | _VARIANT
        | (random & _RANDOM_LOW_MASK)
    )
