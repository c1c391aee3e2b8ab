"""The life of an effect: one table, and no arrow outside it.

A missing entry is the illegal transition; every status has a row, the terminal ones too.
The arrows were checked by an explicit-state model of dispatchers, reconcilers, a sweep
and an operator before they were written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from effect_broker.domain.errors import IllegalTransition


class EffectStatus(StrEnum):
    """Where an effect stands. `outcome_unknown` is a fact of its own, never a failure."""

    PREPARED = "prepared"
    DISPATCHING = "dispatching"
    RETRYABLE = "retryable"
    OUTCOME_UNKNOWN = "outcome_unknown"
    RECONCILING = "reconciling"
    SUCCEEDED = "succeeded"
    FAILED_FINAL = "failed_final"
    MANUAL_REVIEW = "manual_review"
    COMPENSATED = "compensated"


class EventType(StrEnum):
    """What happened to an effect, in the past tense; each is one row of its history."""

    EFFECT_RESERVED = "EffectReserved"
    ATTEMPT_STARTED = "AttemptStarted"
    RECEIPT_RECORDED = "ReceiptRecorded"
    ATTEMPT_REJECTED = "AttemptRejected"
    ATTEMPT_NOT_EXECUTED = "AttemptNotExecuted"
    ATTEMPT_NOT_SENT = "AttemptNotSent"
    OUTCOME_LOST = "OutcomeLost"
    CONTRACT_VIOLATED = "ContractViolated"
    SEND_FORBIDDEN = "SendForbidden"
    RECONCILIATION_STARTED = "ReconciliationStarted"
    REDISPATCH_PERMITTED = "RedispatchPermitted"
    PROBE_INCONCLUSIVE = "ProbeInconclusive"
    RECONCILIATION_INTERRUPTED = "ReconciliationInterrupted"
    RECONCILIATION_EXHAUSTED = "ReconciliationExhausted"
    EVIDENCE_RECORDED = "EvidenceRecorded"
    RECONCILIATION_REQUESTED = "ReconciliationRequested"
    CONTRADICTION_RECORDED = "ContradictionRecorded"
    RESOLVED_COMMITTED = "ResolvedCommitted"
    RESOLVED_NOT_COMMITTED = "ResolvedNotCommitted"
    RESOLVED_FAILED = "ResolvedFailed"
    COMPENSATION_LINKED = "CompensationLinked"


_S = EffectStatus
_E = EventType

TERMINAL: Final = frozenset({_S.SUCCEEDED, _S.FAILED_FINAL, _S.COMPENSATED})
"""Statuses without a work row: only linked events may follow."""

SENDABLE: Final = frozenset({_S.PREPARED, _S.RETRYABLE})
"""Statuses from which a dispatcher may claim."""

LEASED: Final = frozenset({_S.DISPATCHING, _S.RECONCILING})
"""Statuses that a claim holds; their due instant is the end of the lease."""

RESOLVABLE: Final = frozenset({_S.OUTCOME_UNKNOWN, _S.MANUAL_REVIEW})
"""Statuses in which an operator may decide."""


def _row(
    *arrows: tuple[EventType, tuple[EffectStatus, ...]],
) -> Mapping[EventType, frozenset[EffectStatus]]:
    return MappingProxyType({event: frozenset(targets) for event, targets in arrows})


def _stays(status: EffectStatus) -> tuple[EventType, tuple[EffectStatus, ...]]:
    return (_E.EVIDENCE_RECORDED, (status,))


_FORBIDDEN = (_E.SEND_FORBIDDEN, (_S.MANUAL_REVIEW, _S.FAILED_FINAL))
_VIOLATED = (_E.CONTRACT_VIOLATED, (_S.MANUAL_REVIEW,))
_RECEIPT = (_E.RECEIPT_RECORDED, (_S.SUCCEEDED,))
_RESOLVED = (
    (_E.RESOLVED_COMMITTED, (_S.SUCCEEDED,)),
    (_E.RESOLVED_NOT_COMMITTED, (_S.PREPARED,)),
    (_E.RESOLVED_FAILED, (_S.FAILED_FINAL,)),
)
_PROVEN_OR_BACK = (_S.RETRYABLE, _S.FAILED_FINAL, _S.OUTCOME_UNKNOWN)

TRANSITIONS: Final[
    Mapping[EffectStatus | None, Mapping[EventType, frozenset[EffectStatus]]]
] = MappingProxyType(
    {
        None: _row((_E.EFFECT_RESERVED, (_S.PREPARED,))),
        _S.PREPARED: _row(
            (_E.ATTEMPT_STARTED, (_S.DISPATCHING,)),
            _RECEIPT,
            _VIOLATED,
            _FORBIDDEN,
            _stays(_S.PREPARED),
        ),
        _S.RETRYABLE: _row(
            (_E.ATTEMPT_STARTED, (_S.DISPATCHING,)),
            _RECEIPT,
            _VIOLATED,
            _FORBIDDEN,
            _stays(_S.RETRYABLE),
        ),
        _S.DISPATCHING: _row(
            _RECEIPT,
            (_E.ATTEMPT_REJECTED, _PROVEN_OR_BACK),
            (_E.ATTEMPT_NOT_EXECUTED, (_S.RETRYABLE, _S.OUTCOME_UNKNOWN)),
            (_E.ATTEMPT_NOT_SENT, (_S.RETRYABLE, _S.OUTCOME_UNKNOWN)),
            (_E.OUTCOME_LOST, (_S.OUTCOME_UNKNOWN,)),
            _VIOLATED,
            _stays(_S.DISPATCHING),
        ),
        _S.OUTCOME_UNKNOWN: _row(
            (_E.RECONCILIATION_STARTED, (_S.RECONCILING,)),
            _RECEIPT,
            _VIOLATED,
            (_E.RECONCILIATION_EXHAUSTED, (_S.MANUAL_REVIEW,)),
            (_E.RECONCILIATION_REQUESTED, (_S.OUTCOME_UNKNOWN,)),
            _stays(_S.OUTCOME_UNKNOWN),
            *_RESOLVED,
        ),
        _S.RECONCILING: _row(
            _RECEIPT,
            (_E.REDISPATCH_PERMITTED, (_S.PREPARED,)),
            (_E.ATTEMPT_REJECTED, (_S.RETRYABLE, _S.FAILED_FINAL)),
            (_E.ATTEMPT_NOT_EXECUTED, (_S.RETRYABLE,)),
            (_E.ATTEMPT_NOT_SENT, (_S.RETRYABLE,)),
            (_E.PROBE_INCONCLUSIVE, (_S.OUTCOME_UNKNOWN,)),
            (_E.RECONCILIATION_INTERRUPTED, (_S.OUTCOME_UNKNOWN,)),
            (_E.RECONCILIATION_EXHAUSTED, (_S.MANUAL_REVIEW,)),
            _VIOLATED,
            _stays(_S.RECONCILING),
        ),
        _S.MANUAL_REVIEW: _row(
            _RECEIPT,
            (_E.RECONCILIATION_REQUESTED, (_S.OUTCOME_UNKNOWN,)),
            _stays(_S.MANUAL_REVIEW),
            *_RESOLVED,
        ),
        _S.SUCCEEDED: _row(
            (_E.COMPENSATION_LINKED, (_S.COMPENSATED,)),
            (_E.CONTRADICTION_RECORDED, (_S.SUCCEEDED,)),
        ),
        _S.FAILED_FINAL: _row((_E.CONTRADICTION_RECORDED, (_S.FAILED_FINAL,))),
        _S.COMPENSATED: _row((_E.CONTRADICTION_RECORDED, (_S.COMPENSATED,))),
    }
)


def check_transition(
    old: EffectStatus | None, event: EventType, new: EffectStatus
) -> None:
    """Accept one arrow of the table.

    Raises:
        IllegalTransition: the table has no such arrow.
    """
    if new not in TRANSITIONS[old].get(event, frozenset()):
        raise IllegalTransition(old=old, event=event, new=new)
