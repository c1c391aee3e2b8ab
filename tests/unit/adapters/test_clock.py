from __future__ import annotations

import time

import pytest

from effect_broker.clock import SystemClock


def test_each_clock_is_the_hosts_own() -> None:
    clock = SystemClock()
    assert clock.monotonic() == pytest.approx(time.monotonic(), abs=5)
    assert clock.wall() == pytest.approx(time.time(), abs=5)
    assert clock.boottime() == pytest.approx(
        time.clock_gettime(time.CLOCK_BOOTTIME), abs=5
    )
