from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from uuid import UUID, uuid4

import pytest

from effect_broker.domain.timing import (
    NO_WAIT,
    backoff,
    horizon_over,
    settled,
    until_settled,
)
from tests.guarantees import guarantee
from tests.unit.domain.states import EFFECT, MARGIN, NOW, contract, seconds, work


def test_backoff_grows_by_its_factor_up_to_its_maximum() -> None:
    waits = [backoff(contract(), step, seed=EFFECT) for step in range(6)]
    assert waits == [seconds(s) for s in (1, 2, 4, 8, 8, 8)]


def test_backoff_of_a_very_long_history_is_still_its_maximum() -> None:
    assert backoff(contract(), 10**9, seed=EFFECT) == seconds(8)


def test_jitter_spreads_effects_and_repeats_for_one() -> None:
    jittery = contract(
        backoff={"initial": "10s", "factor": 1.0, "max": "10s", "jitter": 0.5}
    )
    seeds = [UUID(int=n) for n in range(200)]
    waits = [backoff(jittery, 0, seed=seed) for seed in seeds]
    assert waits == [backoff(jittery, 0, seed=seed) for seed in seeds]
    assert all(seconds(5) <= wait <= seconds(15) for wait in waits)
    assert min(waits) < seconds(7)
    assert max(waits) > seconds(13)


def test_full_jitter_never_waits_backwards() -> None:
    jittery = contract(
        backoff={"initial": "1s", "factor": 1.0, "max": "1s", "jitter": 1.0}
    )
    assert all(backoff(jittery, 0, seed=uuid4()) >= NO_WAIT for _ in range(200))


@pytest.mark.parametrize(
    ("after_settlement", "believed"),
    [
        (-seconds(1), False),
        (NO_WAIT, False),
        (MARGIN, False),
        (MARGIN + timedelta(microseconds=1), True),
        (seconds(60), True),
    ],
)
def test_settled_only_past_the_bound_and_the_margin(
    after_settlement: timedelta, believed: bool
) -> None:
    state = work("reconciling", settlement_at=NOW)
    at = NOW + after_settlement
    assert settled(state, at, clock_margin=MARGIN) is believed


@pytest.mark.parametrize("ahead", [seconds(-5), NO_WAIT, seconds(7)])
def test_wait_until_settled_ends_where_settled_begins(ahead: timedelta) -> None:
    state = work("reconciling", settlement_at=NOW + ahead)
    wait = until_settled(state, NOW, clock_margin=MARGIN)
    assert settled(state, NOW + wait, clock_margin=MARGIN)
    earlier = timedelta(milliseconds=2)
    assert wait == NO_WAIT or not settled(
        state, NOW + wait - earlier, clock_margin=MARGIN
    )


def test_nothing_sent_means_nothing_on_its_way() -> None:
    state = work("prepared", settlement_at=None)
    assert settled(state, NOW, clock_margin=MARGIN)
    assert until_settled(state, NOW, clock_margin=MARGIN) == NO_WAIT


@guarantee("horizon-forbids-send")
@pytest.mark.parametrize(
    ("left", "over"),
    [
        (seconds(41), False),
        (seconds(41) - timedelta(microseconds=1), True),
        (NO_WAIT, True),
    ],
)
def test_horizon_must_hold_the_whole_attempt_settlement_and_margin(
    left: timedelta, over: bool
) -> None:
    state = work("retryable", horizon_at=NOW + left)
    assert horizon_over(contract(), state, NOW, clock_margin=MARGIN) is over


def test_claim_at_the_end_of_the_window_is_over_though_the_window_is_not() -> None:
    ten_minutes = contract(key_retention="10m")
    sent_at = NOW - timedelta(minutes=9, seconds=58)
    state = work("retryable", horizon_at=sent_at + timedelta(minutes=10))
    assert state.horizon_at is not None
    assert state.horizon_at > NOW
    assert horizon_over(ten_minutes, state, NOW, clock_margin=MARGIN)


def test_key_that_was_never_sent_has_no_horizon_yet() -> None:
    state = work("prepared", horizon_at=None)
    assert not horizon_over(contract(), state, NOW, clock_margin=MARGIN)


def test_recovery_horizon_covers_the_longest_backoff() -> None:
    terms = contract(retry_limit=6)
    waits = sum((backoff(terms, step, seed=EFFECT) for step in range(6)), start=NO_WAIT)
    attempts = terms.attempt_timeout * 7
    assert terms.recovery_horizon >= waits + attempts + seconds(30)
    horizons = [contract(retry_limit=n).recovery_horizon for n in range(8)]
    assert all(one < other for one, other in pairwise(horizons))
