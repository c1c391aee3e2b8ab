"""What callers may send, field by field: unknown fields are named, types never coerced.

The values come from the strict parser, or from a runtime that parsed them before us;
either way nothing is guessed and nothing is repaired.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from effect_broker.broker.resolving import Finding
from effect_broker.domain.durations import parse_duration
from effect_broker.domain.errors import (
    EffectNotFound,
    InvalidOperationKey,
    InvalidRequest,
)
from effect_broker.domain.intent import EffectRequest
from effect_broker.domain.resolution import Decision

BODY_BYTES_MAX: Final = 256 * 1024
"""Decoded bytes of one request: arguments are sealed and kept, and are no file store."""

TEXT_MAX: Final = 255
"""Characters of a name or a reference."""

PROSE_MAX: Final = 4000
"""Characters of a reason that a person writes."""

TOKEN_MAX: Final = 2048
"""Characters of a task token; Step Functions makes no longer ones than 1024."""

_COMPLAINTS_MAX: Final = 8
_NAME_SHOWN_MAX: Final = 64
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_RFC_3339: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_UNPRINTABLE_PROSE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

SUBMISSION: Final = ("operation_key", "tool", "arguments", "requested_by", "trace_id")
FINDING: Final = (
    "decision",
    "reason",
    "evidence",
    "observed_at",
    "expected_version",
    "decision_id",
    "external_id",
    "output",
)
COMPENSATION: Final = ("compensated_by", "reason")
FORK: Final = ("at_sequence", "live", "operation_key")


class InvalidFields(InvalidRequest):
    """Fields that are missing, unknown or of another type; `complaints` name each."""

    def __init__(self, complaints: Mapping[str, str]) -> None:
        shown = dict(list(complaints.items())[:_COMPLAINTS_MAX])
        super().__init__(
            "; ".join(f"{name}: {complaint}" for name, complaint in shown.items()) + "."
        )
        self.complaints = shown


class Fields:
    """Reads one JSON object; every complaint is gathered before the object is refused."""

    def __init__(self, value: object, *, known: tuple[str, ...]) -> None:
        if not isinstance(value, Mapping):
            raise InvalidRequest("The body must be a JSON object.")
        self._value = value
        self._complaints: dict[str, str] = {}
        for name in value:
            if name not in known:
                self.complain(_shown(name), f"unknown field (known: {', '.join(known)})")

    def complain(self, name: str, complaint: str) -> None:
        """Note what is wrong with a field."""
        self._complaints.setdefault(name, complaint)

    def text(self, name: str, *, required: bool = True, longest: int = TEXT_MAX) -> str:
        """Read a string of printable characters; absent and null are the same, as ''."""
        value = self._present(name, required)
        if value is None:
            return ""
        unprintable = _UNPRINTABLE if longest <= TEXT_MAX else _UNPRINTABLE_PROSE
        if not isinstance(value, str):
            self.complain(name, "must be a string")
        elif not 1 <= len(value) <= longest or not value.strip():
            self.complain(name, f"must be 1 to {longest} characters, not blank")
        elif unprintable.search(value):
            self.complain(name, "must not contain control characters")
        else:
            return value
        return ""

    def texts(self, name: str) -> list[str]:
        """Read a list of strings that must be there."""
        value = self._present(name, required=True)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(it, str) for it in value):
            self.complain(name, "must be a list of strings")
            return []
        return value

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Read a JSON object that must be there."""
        value = self._present(name, required=True)
        if isinstance(value, Mapping):
            return value
        if value is not None:
            self.complain(name, "must be an object")
        return {}

    def anything(self, name: str, *, required: bool = False) -> Any:
        """Read any JSON value."""
        return self._present(name, required)

    def flag(self, name: str) -> bool:
        """Read a boolean; absent is false."""
        value = self._present(name, required=False)
        if value is not None and not isinstance(value, bool):
            self.complain(name, "must be true or false")
        return value is True

    def whole(self, name: str, *, smallest: int = 1) -> int:
        """Read an integer that must be there."""
        value = self._present(name, required=True)
        if value is None:
            return smallest
        if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
            self.complain(name, f"must be an integer of at least {smallest}")
            return smallest
        return value

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        """Read one of a closed list."""
        value = self._present(name, required=True)
        if value in allowed and isinstance(value, str):
            return value
        if value is not None:
            self.complain(name, f"must be one of {', '.join(allowed)}")
        return allowed[0]

    def instant(self, name: str, *, required: bool = False) -> datetime | None:
        """Read an RFC 3339 instant with its offset."""
        value = self._present(name, required)
        if value is None:
            return None
        instant = _instant(value)
        if instant is None:
            self.complain(name, "must be an RFC 3339 instant with an offset")
        return instant

    def span(self, name: str) -> timedelta | None:
        """Read a span of time such as 30s, 5m or 24h; absent is None."""
        value = self._present(name, required=False)
        if value is None:
            return None
        try:
            return parse_duration(value if isinstance(value, str) else "")
        except ValueError:
            self.complain(name, "must be a span such as 30s, 5m or 24h")
            return None

    def identifier(self, name: str) -> UUID | None:
        """Read a UUID that must be there."""
        value = self._present(name, required=True)
        identifier = _uuid(value)
        if identifier is None and value is not None:
            self.complain(name, "must be an effect id")
        return identifier

    def absent(self, name: str, complaint: str) -> None:
        """Refuse a field that would mean nothing beside the others."""
        if self._value.get(name) is not None:
            self.complain(name, complaint)

    def check(self) -> None:
        """Accept the object.

        Raises:
            InvalidOperationKey: only the operation key is missing or no string.
            InvalidFields: any other complaint.
        """
        if list(self._complaints) == ["operation_key"]:
            raise InvalidOperationKey(
                f"operation_key {self._complaints['operation_key']}: it names the"
                " business intent, and is never made up here."
            )
        if self._complaints:
            raise InvalidFields(self._complaints)

    def _present(self, name: str, required: bool) -> Any:
        value = self._value.get(name)
        if value is None and required:
            self.complain(name, "is required")
        return value


def submission(value: object, *, known: tuple[str, ...] = SUBMISSION) -> EffectRequest:
    """Read a submission; the operation key's own rules are the domain's.

    Raises:
        InvalidRequest: the fields are not exactly what a submission has.
    """
    fields = Fields(value, known=known)
    operation_key = fields.anything("operation_key", required=True)
    if operation_key is not None and not isinstance(operation_key, str):
        fields.complain("operation_key", "must be a string")
    request = EffectRequest(
        operation_key=operation_key,
        tool=fields.text("tool"),
        arguments=fields.mapping("arguments"),
        requested_by=fields.text("requested_by", required=False) or None,
        trace_id=fields.text("trace_id", required=False) or None,
    )
    fields.check()
    return request


def task_token(value: Mapping[str, Any]) -> str | None:
    """Read the token of a caller that waits, where a submission brings one.

    Raises:
        InvalidRequest: it is no token.
    """
    fields = Fields({"task_token": value.get("task_token")}, known=("task_token",))
    token = fields.text("task_token", required=False, longest=TOKEN_MAX)
    fields.check()
    return token or None


def finding(value: object, *, actor: str) -> Finding:
    """Read an operator's finding; evidence is an object, or a text that is kept as one.

    Raises:
        InvalidRequest: the fields are not exactly what a finding has.
    """
    fields = Fields(value, known=FINDING)
    evidence = fields.anything("evidence", required=True)
    if isinstance(evidence, str):
        evidence = {"text": fields.text("evidence", longest=PROSE_MAX)}
    elif evidence is not None:
        evidence = fields.mapping("evidence")
    read = Finding(
        decision=Decision(fields.choice("decision", tuple(Decision))),
        reason=fields.text("reason", longest=PROSE_MAX),
        evidence=evidence,
        expected_version=fields.whole("expected_version"),
        decision_id=fields.text("decision_id"),
        actor=actor,
        observed_at=fields.instant("observed_at"),
        external_id=fields.text("external_id", required=False) or None,
        output=fields.anything("output"),
    )
    fields.check()
    return read


def compensation(value: object) -> tuple[UUID, str]:
    """Read which effect compensated, and why.

    Raises:
        InvalidRequest: the fields are not exactly these two.
    """
    fields = Fields(value, known=COMPENSATION)
    compensated_by = fields.identifier("compensated_by")
    reason = fields.text("reason", longest=PROSE_MAX)
    fields.check()
    assert compensated_by is not None, "a missing identifier is a complaint"
    return compensated_by, reason


def fork(value: object) -> int | str:
    """Read a fork: the sequence to simulate from, or the operation key of live work.

    Raises:
        InvalidRequest: it is neither of the two, or both.
    """
    fields = Fields(value, known=FORK)
    if fields.flag("live"):
        fields.absent("at_sequence", "has no meaning for live work")
        operation_key = fields.text("operation_key")
        fields.check()
        return operation_key
    fields.absent("operation_key", 'needs "live": true')
    sequence = fields.whole("at_sequence")
    fields.check()
    return sequence


def effect_id(text: str) -> UUID:
    """Read an effect id from a path or an event.

    Raises:
        EffectNotFound: it is no effect id, so that no effect has it.
    """
    identifier = _uuid(text)
    if identifier is None:
        raise EffectNotFound("No effect has this id.")
    return identifier


def _uuid(value: object) -> UUID | None:
    try:
        return UUID(value) if isinstance(value, str) and len(value) == 36 else None
    except ValueError:
        return None


def _instant(value: object) -> datetime | None:
    """Read RFC 3339 as UTC; an offset must not lead out of the calendar."""
    if not isinstance(value, str) or not _RFC_3339.fullmatch(value):
        return None
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _shown(name: object) -> str:
    """Render a field's name for a message: short, and in ASCII."""
    text = str(name)
    cut = text if len(text) <= _NAME_SHOWN_MAX else text[:_NAME_SHOWN_MAX] + "…"
    return json.dumps(cut)
