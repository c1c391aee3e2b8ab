"""What of an adapter's answer the ledger can keep: an odd answer must cost neither its
own receipt nor the endings that are recorded with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from effect_broker.domain.canonical import OUTPUT_DEPTH_MAX, is_deeper
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    Evidence,
    NotSent,
    Outcome,
    ProbeResult,
    ProbeStatus,
    Rejected,
)

TEXT_LENGTH_MAX: Final = 1024
"""Of a reason, an external id or a flag, in characters."""

EVIDENCE_LENGTH_MAX: Final = 16_384
"""Of evidence as JSON, in characters; it is facts about an answer, never the answer."""

PATIENCE_MAX: Final = timedelta(days=1)
"""The longest that a target may put an effect off with one answer."""

ID_NOT_KEPT: Final = "external_id_not_kept"
OUTPUT_NOT_KEPT: Final = "output_not_kept"

_E = TypeVar("_E", Rejected, NotSent, Ambiguous)


def kept(outcome: object) -> Outcome:
    """Return the outcome with what can be stored; what is no outcome proves nothing.

    A commit stays a commit: an id or output that cannot be kept is left out and flagged.
    """
    match outcome:
        case Committed():
            return _kept_commit(outcome)
        case Rejected():
            return _with_plain_reason(outcome, retry_after=_patience(outcome.retry_after))
        case Ambiguous():
            return _with_plain_reason(outcome, retry_after=_patience(outcome.retry_after))
        case NotSent():
            return _with_plain_reason(outcome)
        case _:
            return Ambiguous(f"adapter_returned:{type(outcome).__name__}")


def kept_probe(found: object) -> ProbeResult:
    """Return the probe's result with what can be stored; anything else is unknown."""
    if not isinstance(found, ProbeResult) or not isinstance(found.status, ProbeStatus):
        reason = f"probe_returned:{type(found).__name__}"
        return ProbeResult(ProbeStatus.UNKNOWN, evidence={"reason": reason})
    return replace(
        found,
        external_id=_id(found.external_id),
        output=found.output if _written(found.output) is not None else None,
        evidence=_evidence(found.evidence),
    )


def _kept_commit(outcome: Committed) -> Committed:
    external_id = _id(outcome.external_id)
    keeps_output = outcome.output is None or _written(outcome.output) is not None
    flags = [_plain(flag) for flag in outcome.flags]
    if external_id is None and outcome.external_id is not None:
        flags.append(ID_NOT_KEPT)
    if not keeps_output:
        flags.append(OUTPUT_NOT_KEPT)
    return replace(
        outcome,
        external_id=external_id,
        output=outcome.output if keeps_output else None,
        raw=outcome.raw if isinstance(outcome.raw, bytes) else None,
        flags=tuple(flags),
        target_time=_instant(outcome.target_time),
        evidence=_evidence(outcome.evidence),
    )


def _with_plain_reason(outcome: _E, **changes: Any) -> _E:
    evidence = _evidence(outcome.evidence)
    return replace(outcome, reason=_plain(outcome.reason), evidence=evidence, **changes)


def _plain(text: object) -> str:
    """Return a short text that any store takes; what cannot be printed is escaped."""
    if _is_plain(text):
        return str(text)
    escaped = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in str(text)[:TEXT_LENGTH_MAX]
    )
    return escaped[:TEXT_LENGTH_MAX]


def _id(found: object) -> str | None:
    """Return an id exactly as the target wrote it, or none: a changed id is another's."""
    return str(found) if _is_plain(found) else None


def _is_plain(text: object) -> bool:
    return isinstance(text, str) and len(text) <= TEXT_LENGTH_MAX and text.isprintable()


def _instant(moment: object) -> datetime | None:
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        return moment
    return None


def _patience(asked: object) -> timedelta | None:
    if not isinstance(asked, timedelta):
        return None
    return min(max(asked, timedelta(0)), PATIENCE_MAX)


def _evidence(found: object) -> Evidence:
    text = _written(dict(found)) if isinstance(found, Mapping) else None
    if text is None or not isinstance(found, Mapping):
        return {"evidence_not_kept": "no_json"}
    if len(text) > EVIDENCE_LENGTH_MAX:
        return {"evidence_not_kept": "too_long"}
    return found


def _written(value: Any) -> str | None:
    """Write a value that any reader can take; one that none can is None."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return None
    return None if is_deeper(value, OUTPUT_DEPTH_MAX) else text
