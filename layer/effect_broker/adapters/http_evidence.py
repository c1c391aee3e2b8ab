"""What may be told of an exchange: statuses, digests and times, never what was in it."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

from effect_broker.adapters.wire.exchange import Exchange, WireRequest
from effect_broker.domain.outcome import Evidence

RETRY_AFTER_MAX: Final = timedelta(hours=1)
"""A target may ask for patience, not for an effect that is forgotten."""

HEADERS_SHOWN: Final = (
    b"date",
    b"retry-after",
    b"request-id",
    b"x-request-id",
    b"x-amzn-requestid",
    b"x-correlation-id",
    b"idempotent-replayed",
)
"""Headers that name the target's record of the request; any other may repeat a secret."""

_VALUE_LENGTH_MAX: Final = 128


def evidence_of(request: WireRequest | None, known: Exchange) -> Evidence:
    """Describe an exchange for the ledger.

    `request_digest` and `response_digest` are SHA-256 over the bodies as they stood on
    the wire, to compare attempts by; `bytes_may_have_left` is false only by proof.
    """
    facts: dict[str, Any] = {"bytes_may_have_left": known.sent}
    if request is not None:
        facts["request_digest"] = hashlib.sha256(request.body).hexdigest()
    if known.failure:
        facts["failure"] = known.failure
    if known.sent:
        facts["reused_connection"] = known.reused
    if known.status is not None:
        facts |= {
            "status": known.status,
            "response_digest": hashlib.sha256(known.body).hexdigest(),
            "response_bytes": len(known.body),
            "response_complete": known.complete,
            "headers": _shown(known),
        }
    return facts


def retry_after(known: Exchange, wall: float) -> timedelta | None:
    """Read Retry-After in seconds or as a date (by the target's own clock), capped."""
    text = (known.header(b"retry-after") or "").strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:9])), RETRY_AFTER_MAX)
    until = _date(text)
    if until is None:
        return None
    now = target_time(known) or datetime.fromtimestamp(wall, UTC)
    return max(timedelta(0), min(until - now, RETRY_AFTER_MAX))


def target_time(known: Exchange) -> datetime | None:
    """Return the moment at which the target says that it answered."""
    return _date(known.header(b"date") or "")


def _date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            return moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        return None


def _shown(known: Exchange) -> dict[str, str]:
    values = {name.decode(): known.header(name) for name in HEADERS_SHOWN}
    return {
        name: value[:_VALUE_LENGTH_MAX]
        for name, value in values.items()
        if value is not None and value.isascii() and value.isprintable()
    }
