"""Recording what was learned: only SQL is repeated here, never a call to a target."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.domain.transition import Transition
from effect_broker.domain.work import WorkState
from effect_broker.ports import Ledger, Step, StepResult, StepStatus

DECISIONS_MAX: Final = 3
"""Evidence can move an effect under its holder once an attempt; more often is a defect.
"""

RECORD_TRIES: Final = 5
"""Losing the ledger for longer leaves the effect to its lease end, which is honest."""

RECORD_WAIT_SECONDS: Final = 0.1
"""First wait between tries; doubles, so that five tries span about three seconds."""

Decide = Callable[[WorkState, datetime], Awaitable[Transition | None]]
"""The decision again, for a state that has moved on; None where there is none to take."""

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Pending:
    """A step to write, and how to decide it anew if evidence arrived meanwhile."""

    step: Step
    decide: Decide


class Recorder:
    """Writes steps in batches until each is applied, lost to somebody else, or settled by
    proof.
    """

    def __init__(self, ledger: Ledger, *, sleep: Sleep = asyncio.sleep) -> None:
        self._ledger = ledger
        self._sleep = sleep

    async def record(
        self, pending: Sequence[Pending]
    ) -> Sequence[tuple[Step, StepResult]]:
        """Write every step; a stale one is decided again on the state that was returned.

        Raises:
            LedgerUnavailable: what was not written stays with its lease.
        """
        done: list[tuple[Step, StepResult]] = []
        for _ in range(DECISIONS_MAX):
            results = await self._write([item.step for item in pending])
            again: list[Pending] = []
            for item, result in zip(pending, results, strict=True):
                moved = await _decide_again(item, result)
                if moved is None:
                    done.append((item.step, result))
                else:
                    again.append(moved)
            if not again:
                return done
            pending = again
        return done

    async def _write(self, steps: Sequence[Step]) -> Sequence[StepResult]:
        wait = RECORD_WAIT_SECONDS
        for _ in range(RECORD_TRIES - 1):
            try:
                return await self._ledger.record(steps)
            except LedgerUnavailable:
                await self._sleep(wait)
                wait *= 2
        return await self._ledger.record(steps)


async def _decide_again(item: Pending, result: StepResult) -> Pending | None:
    if result.status not in (StepStatus.STALE, StepStatus.PROOF_STANDS):
        return None
    if result.work is None or result.now is None:
        return None
    decided = await item.decide(result.work, result.now)
    if decided is None:
        return None
    step = replace(item.step, version=result.work.version, transition=decided)
    return Pending(step, item.decide)
