"""One invocation of a worker: what woke it, the passes that fit, the queue's answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any, Final, Protocol
from uuid import UUID

from effect_broker.broker.answering import Answering
from effect_broker.domain.errors import DispatchHeld
from effect_broker.surfaces.waking import Wake, wake_of

_log: Final = logging.getLogger(__name__)

RESERVE: Final = timedelta(seconds=5)
"""Kept back of every invocation, to record endings while the ledger is slow to answer."""

PASSES_MAX: Final = 20
"""Passes of one sweep: what is left waits for the next one, a minute later."""

Remaining = Callable[[], timedelta]


class Worker(Protocol):
    """Something that claims due work once and moves it on."""

    async def run_once(
        self,
        *,
        effect_ids: Sequence[UUID] | None = None,
        budget: timedelta | None = None,
    ) -> Any:
        """Make one pass that fits into the budget."""


async def work(
    event: object,
    worker: Worker,
    remaining: Remaining,
    *,
    before_sweep: Callable[[], Awaitable[None]] | None = None,
    answering: Answering | None = None,
) -> dict[str, Any]:
    """Run the passes that an event asks for, and return the queue's answer with reports.

    Nudged effects get one pass. A sweep goes on while due work is left and an attempt may
    still fit. While dispatch is held nothing is sent, and the nudges are done with: the
    sweep finds their effects after the release. Then callers that wait for these effects
    are answered; after a sweep, all that are due.

    Raises:
        InvalidRequest: the event is neither a batch of nudges nor a sweep.
        LedgerUnavailable: what was claimed and not recorded is left to its lease.
    """
    wake = wake_of(event)
    if wake.effect_ids is None and before_sweep is not None:
        await before_sweep()
    try:
        told: dict[str, Any] = {"reports": await _passes(wake, worker, remaining)}
    except DispatchHeld:
        _log.error("dispatch is held until an operator releases it")
        told = {"held": True}
    if answering is not None:
        told["answered"] = await _answer(answering, wake, remaining)
    return {**wake.batch_answer(), **told}


async def _passes(
    wake: Wake, worker: Worker, remaining: Remaining
) -> list[dict[str, Any]]:
    reports: list[dict[str, Any]] = []
    if wake.effect_ids is not None and not wake.effect_ids:
        return reports
    for _ in range(PASSES_MAX):
        budget = remaining() - RESERVE
        if budget <= timedelta(0):
            _log.warning("no time left for another pass")
            break
        report = await worker.run_once(effect_ids=wake.effect_ids, budget=budget)
        reports.append(asdict(report))
        if wake.effect_ids is not None or not report.more:
            break
    return reports


async def _answer(answering: Answering, wake: Wake, remaining: Remaining) -> int:
    answered = 0
    if wake.effect_ids is not None and not wake.effect_ids:
        return answered
    for _ in range(PASSES_MAX):
        if remaining() <= RESERVE:
            _log.warning("no time left to answer more callers")
            break
        report = await answering.run_once(effect_ids=wake.effect_ids)
        answered += report.answered
        if not report.more:
            break
    return answered
