"""When something may happen: backoff, settlement and horizon, as arithmetic on the
ledger's clock.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from uuid import UUID

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.work import WorkState

NO_WAIT = timedelta(0)


def backoff(contract: EffectContract, step: int, *, seed: UUID) -> timedelta:
    """Say how long to wait before repetition `step` (0 is the first).

    Grows by the contract's factor up to its maximum; the jitter is drawn from the
    effect's id and the step, so that the same history always waits the same time.
    """
    terms = contract.backoff
    exponent = min(step, 64)
    seconds = min(
        terms.initial.total_seconds() * terms.factor**exponent,
        terms.max.total_seconds(),
    )
    drawn = hashlib.sha256(seed.bytes + step.to_bytes(8, "big")).digest()
    spread = int.from_bytes(drawn[:4], "big") / 0xFFFF_FFFF * 2 - 1
    return timedelta(seconds=max(0.0, seconds * (1 + terms.jitter * spread)))


def settled(work: WorkState, at: datetime, *, clock_margin: timedelta) -> bool:
    """Say whether no request of any attempt can still be on its way at `at`."""
    return work.settlement_at is None or at > work.settlement_at + clock_margin


def until_settled(
    work: WorkState, now: datetime, *, clock_margin: timedelta
) -> timedelta:
    """Return the wait until `settled` turns true; zero where it is already."""
    if settled(work, now, clock_margin=clock_margin) or work.settlement_at is None:
        return NO_WAIT
    return work.settlement_at + clock_margin - now + timedelta(milliseconds=1)


def horizon_over(
    contract: EffectContract,
    work: WorkState,
    now: datetime,
    *,
    clock_margin: timedelta,
) -> bool:
    """Say whether an attempt claimed at `now` could still reach the target after the key
    is forgotten.

    The horizon is counted from the first possible send; the attempt's send deadline, its
    settlement bound and the clock margin must all lie inside it (design rule 8).
    """
    if work.horizon_at is None:
        return False
    settlement = contract.settlement_bound or NO_WAIT
    last_arrival = now + contract.attempt_timeout + settlement + clock_margin
    return last_arrival > work.horizon_at
