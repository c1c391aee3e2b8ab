"""The short form of the storm, and its judge; `make chaos` is the long form."""

from __future__ import annotations

from pathlib import Path

import pytest

from effect_broker.domain.status import EffectStatus
from examples.crash_matrix.target.client import run_target
from tests.chaos.storm import CLASSES, Storm, holds
from tests.guarantees import guarantee

S = EffectStatus


@guarantee(
    "transactional-exactly-one",
    "idempotent-inside-horizon",
    "reconcilable-probes-first",
    "unsafe-at-most-once",
)
def test_workers_and_reconcilers_killed_at_random_leave_every_class_its_promise(
    empty_database: str, tmp_path: Path
) -> None:
    said: list[str] = []
    with run_target(tmp_path / "charges.db") as target:
        storm = Storm(empty_database, target, tmp_path, 7, said.append)
        verdict = storm.run(effects=60, seconds=5.0)
    assert verdict["broken"] == []
    assert sum(verdict["kills"].values()) >= 5
    assert {sum(told.values()) for told in verdict["told"].values()} == {15}
    assert said


@pytest.mark.parametrize("world", CLASSES)
@pytest.mark.parametrize("count", [0, 2])
def test_judge_accepts_no_other_count_for_a_success(world: str, count: int) -> None:
    assert not holds(world, S.SUCCEEDED, count, listed=True)


@pytest.mark.parametrize("world", CLASSES)
def test_judge_accepts_no_effect_that_is_stuck(world: str) -> None:
    for status in (S.PREPARED, S.DISPATCHING, S.RETRYABLE, S.RECONCILING):
        assert not holds(world, status, 1, listed=True)


def test_judge_accepts_an_unknown_only_of_the_unsafe_and_only_listed() -> None:
    assert holds("plain", S.OUTCOME_UNKNOWN, 1, listed=True)
    assert holds("plain", S.OUTCOME_UNKNOWN, 0, listed=True)
    assert not holds("plain", S.OUTCOME_UNKNOWN, 2, listed=True)
    assert not holds("plain", S.OUTCOME_UNKNOWN, 1, listed=False)
    assert not holds("keyed", S.OUTCOME_UNKNOWN, 1, listed=True)
