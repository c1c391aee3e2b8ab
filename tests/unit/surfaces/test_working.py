from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from effect_broker.aws.nudges import nudge_body
from effect_broker.broker.dispatch import DispatchReport
from effect_broker.domain.errors import DispatchHeld, LedgerUnavailable
from effect_broker.surfaces.working import PASSES_MAX, RESERVE, work

EFFECT = UUID("0198c0de-0000-7000-8000-000000000001")
SWEEP = {"operation": "sweep"}
NUDGE = {"Records": [{"messageId": "m0", "body": nudge_body(EFFECT)}]}


@dataclass
class Passes:
    """A worker that notes each pass and tells what it was made to tell."""

    more: int = 0
    error: Exception | None = None
    calls: list[tuple[Sequence[UUID] | None, timedelta | None]] = field(
        default_factory=list
    )

    async def run_once(
        self,
        *,
        effect_ids: Sequence[UUID] | None = None,
        budget: timedelta | None = None,
    ) -> DispatchReport:
        self.calls.append((effect_ids, budget))
        if self.error is not None:
            raise self.error
        return DispatchReport(attempts=1, more=len(self.calls) <= self.more)


@dataclass
class Time:
    """What is left of an invocation; each look costs some."""

    left: timedelta
    cost: timedelta = timedelta(0)

    def __call__(self) -> timedelta:
        now, self.left = self.left, self.left - self.cost
        return now


MINUTE = timedelta(seconds=60)


async def test_nudged_effects_get_one_pass_within_the_invocation() -> None:
    worker = Passes(more=5)
    answer = await work(NUDGE, worker, Time(MINUTE))
    assert worker.calls == [((EFFECT,), MINUTE - RESERVE)]
    assert answer["batchItemFailures"] == []


async def test_sweep_goes_on_while_due_work_is_left() -> None:
    worker = Passes(more=3)
    answer = await work(SWEEP, worker, Time(MINUTE))
    assert len(worker.calls) == len(answer["reports"]) == 4
    assert all(effect_ids is None for effect_ids, _ in worker.calls)


async def test_sweep_ends_with_its_time() -> None:
    worker = Passes(more=1000)
    await work(SWEEP, worker, Time(MINUTE, cost=timedelta(seconds=20)))
    assert [budget for _, budget in worker.calls] == [
        timedelta(seconds=seconds) for seconds in (55, 35, 15)
    ]


async def test_sweep_ends_after_its_last_pass() -> None:
    worker = Passes(more=1000)
    await work(SWEEP, worker, Time(MINUTE))
    assert len(worker.calls) == PASSES_MAX


@pytest.mark.parametrize("left", [timedelta(0), RESERVE])
@pytest.mark.parametrize("event", [NUDGE, SWEEP])
async def test_invocation_without_time_starts_nothing(
    event: dict[str, Any], left: timedelta
) -> None:
    worker = Passes()
    answer = await work(event, worker, Time(left))
    assert worker.calls == []
    assert answer["reports"] == []


async def test_batch_without_a_readable_nudge_claims_nothing() -> None:
    worker = Passes()
    event = {"Records": [{"messageId": "m0", "body": "?"}]}
    answer = await work(event, worker, Time(MINUTE))
    assert worker.calls == []
    assert answer["batchItemFailures"] == [{"itemIdentifier": "m0"}]


async def test_leases_are_swept_before_reconciling_and_only_on_a_sweep() -> None:
    swept: list[int] = []
    worker = Passes()

    async def sweep() -> None:
        swept.append(len(worker.calls))

    await work(SWEEP, worker, Time(MINUTE), before_sweep=sweep)
    await work(NUDGE, worker, Time(MINUTE), before_sweep=sweep)
    assert swept == [0]


async def test_held_dispatch_is_no_failure_of_the_queue() -> None:
    answer = await work(NUDGE, Passes(error=DispatchHeld("held")), Time(MINUTE))
    assert answer == {"batchItemFailures": [], "held": True}


async def test_ledger_away_ends_the_invocation_so_that_nudges_come_again() -> None:
    with pytest.raises(LedgerUnavailable):
        await work(NUDGE, Passes(error=LedgerUnavailable("away")), Time(MINUTE))
