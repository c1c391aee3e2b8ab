"""A decided step: everything the ledger must write in one commit, computed from one
version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from effect_broker.domain.attempt import AttemptEnding
from effect_broker.domain.receipt import ReceiptDraft
from effect_broker.domain.status import EffectStatus, EventType, check_transition
from effect_broker.domain.work import WorkState

PARKED: timedelta | None = None
"""No due instant: the effect waits for an operator or for evidence."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One arrow with the counters that stand after it.

    `delay` counts from the ledger's clock at the write (durations are passed, never
    instants); None parks the effect. Counters are absolute: they hold because the write
    compares the version they were computed from. `unknown` and `negative` say whether
    `unknown_since` and `negative_at` stand afterwards (an instant already set is kept).
    `fresh_horizon` forgets the horizon with its key generation; `fresh_deadline` restarts
    submit_deadline, in seconds of the contract.
    """

    event: EventType
    old: EffectStatus
    new: EffectStatus
    reason: str
    delay: timedelta | None
    unproven: int
    proven_through: int
    rejections: int
    retries: int
    redispatches: int
    probes: int
    key_generation: int
    unknown: bool
    negative: bool
    fresh_horizon: bool = False
    fresh_deadline: timedelta | None = None
    ending: AttemptEnding | None = None
    receipt: ReceiptDraft | None = None
    downstream_key: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def transition(
    work: WorkState,
    event: EventType,
    new: EffectStatus,
    *,
    reason: str,
    delay: timedelta | None = PARKED,
    **changes: Any,
) -> Transition:
    """Build the arrow from `work` by `event` to `new`; what is not named stays.

    Raises:
        IllegalTransition: the table has no such arrow.
    """
    check_transition(work.status, event, new)
    unchanged: dict[str, Any] = {
        "unproven": work.unproven,
        "proven_through": work.proven_through,
        "rejections": work.rejections,
        "retries": work.retries,
        "redispatches": work.redispatches,
        "probes": work.probes,
        "key_generation": work.key_generation,
        "unknown": work.unknown_since is not None,
        "negative": work.negative_at is not None,
    }
    return Transition(
        event=event,
        old=work.status,
        new=new,
        reason=reason,
        delay=delay,
        **unchanged | changes,
    )
