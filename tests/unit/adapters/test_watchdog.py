from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from effect_broker.watchdog import EXIT_STATUS, TICK_SECONDS, ThreadWatchdog
from tests.integration.adapters.given import ManualClock


class Told:
    def __init__(self) -> None:
        self.aborts = 0
        self.overruns = 0

    def abort(self) -> None:
        self.aborts += 1

    def overrun(self) -> None:
        self.overruns += 1


class Idle(ThreadWatchdog):
    """Looks only when the test says so."""

    def _start(self) -> None:
        pass


@pytest.mark.parametrize("name", ["monotonic_now", "boottime_now", "wall_now"])
def test_abort_comes_at_the_deadline_of_any_clock_and_the_end_a_grace_later(
    name: str,
) -> None:
    clock, told = ManualClock(), Told()
    watchdog = Idle(clock, on_overrun=told.overrun, grace_seconds=1.0)
    with watchdog.guard(clock.deadline_in(10.0), abort=told.abort):
        assert watchdog.look() == pytest.approx(10.0)
        setattr(clock, name, getattr(clock, name) + 10.0)
        assert watchdog.look() == pytest.approx(1.0)
        assert (told.aborts, told.overruns) == (1, 0)
        setattr(clock, name, getattr(clock, name) + 1.0)
        watchdog.look()
        assert (told.aborts, told.overruns) == (1, 1)


def test_block_that_was_left_is_left_alone() -> None:
    clock, told = ManualClock(), Told()
    watchdog = Idle(clock, on_overrun=told.overrun)
    with watchdog.guard(clock.deadline_in(10.0), abort=told.abort):
        pass
    clock.advance(100.0)
    assert watchdog.look() is None
    assert (told.aborts, told.overruns) == (0, 0)


def test_each_of_many_attempts_has_its_own_deadline() -> None:
    clock, early, late = ManualClock(), Told(), Told()
    watchdog = Idle(clock, on_overrun=None)
    with (
        watchdog.guard(clock.deadline_in(20.0), abort=late.abort),
        watchdog.guard(clock.deadline_in(10.0), abort=early.abort),
    ):
        clock.advance(15.0)
        watchdog.look()
        assert (early.aborts, late.aborts) == (1, 0)


def test_thread_acts_while_the_guarded_thread_stands_still() -> None:
    clock, aborted, ended = ManualClock(), threading.Event(), threading.Event()
    watchdog = ThreadWatchdog(clock, on_overrun=ended.set, grace_seconds=0.0)
    with watchdog.guard(clock.deadline_in(-1.0), abort=aborted.set):
        assert aborted.wait(10)
        assert ended.wait(10)


def test_guard_that_comes_while_the_thread_waits_is_seen() -> None:
    clock = ManualClock()
    watchdog = ThreadWatchdog(clock, on_overrun=None)
    for _ in range(50):
        aborted = threading.Event()
        with watchdog.guard(clock.deadline_in(-1.0), abort=aborted.set):
            assert aborted.wait(10)


def test_guard_that_ends_before_the_others_next_look_is_seen_at_once() -> None:
    clock = ManualClock()
    watchdog = ThreadWatchdog(clock, on_overrun=None)
    begun = time.monotonic()
    with watchdog.guard(clock.deadline_in(100.0)):
        for _ in range(50):
            aborted = threading.Event()
            with watchdog.guard(clock.deadline_in(-1.0), abort=aborted.set):
                assert aborted.wait(10)
    assert time.monotonic() - begun < 50 * TICK_SECONDS / 2


def test_process_that_stands_still_past_its_deadline_is_ended() -> None:
    script = """
import threading
from effect_broker.clock import SystemClock
from effect_broker.ports import Deadline
from effect_broker.watchdog import ThreadWatchdog

clock = SystemClock()
deadline = Deadline(clock.monotonic(), clock.boottime(), clock.wall())
with ThreadWatchdog(clock, grace_seconds=0.05).guard(deadline):
    threading.Event().wait()
"""
    run = subprocess.run([sys.executable, "-c", script], timeout=30, check=False)
    assert run.returncode == EXIT_STATUS
