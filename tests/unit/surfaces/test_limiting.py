from __future__ import annotations

import pytest

from effect_broker.domain.errors import RateLimited
from effect_broker.surfaces import limiting
from effect_broker.surfaces.limiting import Rate, RateLimiter


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def passing(limiter: RateLimiter, key_id: str = "a") -> int:
    """Return how many requests pass at once."""
    for count in range(1000):
        try:
            limiter.take(key_id)
        except RateLimited:
            return count
    raise AssertionError("nothing is limited")


def test_bucket_holds_its_burst_and_fills_at_its_rate(clock: Clock) -> None:
    limiter = RateLimiter(Rate(2, 5), monotonic=clock)
    assert passing(limiter) == 5
    clock.now += 1
    assert passing(limiter) == 2
    clock.now += 3600
    assert passing(limiter) == 5


def test_empty_bucket_says_when_a_repeat_will_pass(clock: Clock) -> None:
    limiter = RateLimiter(Rate(0.25, 1), monotonic=clock)
    limiter.take("a")
    with pytest.raises(RateLimited) as refused:
        limiter.take("a")
    assert refused.value.retry_after_seconds == 4
    clock.now += refused.value.retry_after_seconds
    limiter.take("a")


def test_one_key_takes_nothing_from_another(clock: Clock) -> None:
    limiter = RateLimiter(Rate(1, 3), monotonic=clock)
    assert passing(limiter, "a") == 3
    assert passing(limiter, "b") == 3


def test_no_rate_limits_nobody() -> None:
    limiter = RateLimiter(Rate.of(None))
    for _ in range(1000):
        limiter.take("a")


def test_memory_is_bounded_whoever_asks(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiting, "KEYS_MAX", 10)
    limiter = RateLimiter(Rate(1, 2), monotonic=clock)
    for number in range(100):
        limiter.take(f"k{number}")
        clock.now += 0.5
    assert len(limiter._buckets) <= 10
