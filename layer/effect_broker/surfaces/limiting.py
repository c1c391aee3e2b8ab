"""How often a key may ask: a bucket for each in this process, and no write for any."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final, Self

from effect_broker.domain.errors import RateLimited

KEYS_MAX: Final = 10_000
"""Buckets kept; a full one says nothing that a new one would not, and is dropped."""


@dataclass(frozen=True, slots=True)
class Rate:
    """So many requests a second on average, and so many at once."""

    per_second: float
    burst: int

    @classmethod
    def of(cls, setting: tuple[float, int] | None) -> Self | None:
        """Return the rate that a process was told; None: no limit."""
        return None if setting is None else cls(*setting)


class RateLimiter:
    """Token buckets by key, in memory: each process grants the whole rate anew.

    It keeps one caller from starving the others of a process; it is no quota. Counting
    over all processes would make one hot row of every busy key.
    """

    def __init__(
        self, rate: Rate | None, *, monotonic: Callable[[], float] = monotonic
    ) -> None:
        self._rate = rate
        self._monotonic = monotonic
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key_id: str) -> None:
        """Let one request of a key pass.

        Raises:
            RateLimited: the bucket is empty; says when it holds one again.
        """
        if self._rate is None:
            return
        now = self._monotonic()
        left = self._left(self._rate, key_id, now)
        if left < 1:
            wait = math.ceil((1 - left) / self._rate.per_second)
            raise RateLimited(
                "This key asks faster than it may; the same request is safe to repeat.",
                retry_after_seconds=wait,
            )
        self._buckets[key_id] = (left - 1, now)
        if len(self._buckets) > KEYS_MAX:
            self._drop_full(self._rate, now)

    def _left(self, rate: Rate, key_id: str, now: float) -> float:
        left, at = self._buckets.get(key_id, (float(rate.burst), now))
        return min(float(rate.burst), left + (now - at) * rate.per_second)

    def _drop_full(self, rate: Rate, now: float) -> None:
        kept = {
            key_id: bucket
            for key_id, bucket in self._buckets.items()
            if self._left(rate, key_id, now) < rate.burst
        }
        self._buckets = kept if len(kept) <= KEYS_MAX else {}
