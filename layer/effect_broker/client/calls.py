"""Requests as values: what to send, how to read its answer, and why a repeat is safe.

Both forms of the client send these and nothing else; nothing here sends anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode
from uuid import UUID

from effect_broker.client import answers
from effect_broker.domain.canonical import canonical
from effect_broker.domain.durations import format_duration
from effect_broker.domain.errors import EffectNotFound
from effect_broker.domain.identity import check_operation_key
from effect_broker.domain.intent import EffectRequest
from effect_broker.domain.status import EffectStatus

T = TypeVar("T")

WAIT_SECONDS_MAX: Final = 20
"""The longest that the broker holds an answer back."""

REPEATS: Final[Mapping[str, str]] = {
    "submit": "the operation key: the same request again is the same effect",
    "get": "reads",
    "list": "reads",
    "history": "reads",
    "receipt": "reads",
    "tools": "reads",
    "fork": "reads: a simulation sends and writes nothing",
    "fork_live": "the new operation key: the same fork again is the same effect",
    "reconcile": "asks for what is due already; it never forces a send",
    "resolve": "the decision id: the same decision is recorded once",
    "compensate": "the same link again is the same link",
}
"""Every call, and what makes it safe to repeat. A call that is not here is not
repeated."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request; `name` is its place in `REPEATS`."""

    name: str
    method: str
    path: str
    read: Callable[[Mapping[str, Any]], T]
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_seconds: int = 0

    @property
    def may_be_repeated(self) -> bool:
        """Say whether a client may send this again by itself."""
        return self.name in REPEATS


def submit(request: EffectRequest, wait_seconds: int) -> Call[answers.Submission]:
    """Reserve an effect, or ask what its key stands for.

    Raises:
        InvalidOperationKey, InvalidJson: refused here, before anything is sent.
    """
    check_operation_key(request.operation_key)
    body: dict[str, Any] = {
        "operation_key": request.operation_key,
        "tool": request.tool,
        "arguments": dict(request.arguments),
    }
    for name in ("requested_by", "trace_id"):
        if (value := getattr(request, name)) is not None:
            body[name] = value
    return _post(
        "submit",
        "/v1/effects",
        body,
        answers.Submission.of,
        headers=_prefer(wait_seconds),
        wait_seconds=wait_seconds,
    )


def get(effect_id: UUID | str, wait_seconds: int = 0) -> Call[answers.InspectedEffect]:
    """Read an effect, once terminal or after the wait."""
    return Call(
        "get",
        "GET",
        _effect(effect_id),
        answers.InspectedEffect.of,
        headers=_prefer(wait_seconds),
        wait_seconds=wait_seconds,
    )


def page(
    *,
    status: EffectStatus | str | None,
    contradicted: bool,
    tool: str | None,
    older_than: timedelta | None,
    operation_prefix: str | None,
    limit: int,
    cursor: str | None,
) -> Call[answers.Page]:
    """Read a page of effects."""
    wanted = {
        "status": None if status is None else str(status),
        "contradicted": "true" if contradicted else None,
        "tool": tool,
        "older_than": None if older_than is None else format_duration(older_than),
        "operation_prefix": operation_prefix,
        "limit": str(limit),
        "cursor": cursor,
    }
    query = urlencode({name: it for name, it in wanted.items() if it is not None})
    return Call("list", "GET", f"/v1/effects?{query}", answers.Page.of)


def history(
    effect_id: UUID | str, at_sequence: int | None, compare_to: int | None
) -> Call[answers.History]:
    """Read a history up to a point, against another."""
    wanted = {"at_sequence": at_sequence, "compare_to": compare_to}
    query = urlencode({name: it for name, it in wanted.items() if it is not None})
    path = f"{_effect(effect_id)}/history" + (f"?{query}" if query else "")
    return Call("history", "GET", path, answers.History.of)


def receipt(effect_id: UUID | str) -> Call[answers.Receipt]:
    """Read a receipt."""
    path = f"{_effect(effect_id)}/receipt"
    return Call("receipt", "GET", path, answers.Receipt.of)


def tools() -> Call[list[answers.Tool]]:
    """Read which tools may be named."""
    return Call("tools", "GET", "/v1/tools", lambda it: list(answers.tools_of(it)))


def reconcile(effect_id: UUID | str) -> Call[answers.Effect]:
    """Ask for reconciliation."""
    path = f"{_effect(effect_id)}/reconcile"
    return _post("reconcile", path, {}, answers.Effect.of)


def resolve(
    effect_id: UUID | str,
    *,
    decision: str,
    reason: str,
    evidence: Mapping[str, Any] | str,
    expected_version: int,
    decision_id: str,
    observed_at: datetime | None,
    external_id: str | None,
    output: Any,
) -> Call[answers.Effect]:
    """Record an operator's finding."""
    body = {
        "decision": decision,
        "reason": reason,
        "evidence": evidence if isinstance(evidence, str) else dict(evidence),
        "expected_version": expected_version,
        "decision_id": decision_id,
        "observed_at": None if observed_at is None else observed_at.isoformat(),
        "external_id": external_id,
        "output": output,
    }
    stated = {name: it for name, it in body.items() if it is not None}
    return _post("resolve", f"{_effect(effect_id)}/resolve", stated, answers.Effect.of)


def compensate(
    effect_id: UUID | str,
    compensated_by: UUID | str,
    reason: str,
    expected_version: int | None,
) -> Call[answers.Effect]:
    """Link the effect that undid another."""
    return _post(
        "compensate",
        f"{_effect(effect_id)}/compensation",
        {"compensated_by": str(compensated_by), "reason": reason},
        answers.Effect.of,
        headers={} if expected_version is None else {"If-Match": f'"{expected_version}"'},
    )


def fork(effect_id: UUID | str, at_sequence: int) -> Call[answers.ForkedHistory]:
    """Simulate a fork."""
    path = f"{_effect(effect_id)}/fork"
    return _post("fork", path, {"at_sequence": at_sequence}, answers.ForkedHistory.of)


def fork_live(effect_id: UUID | str, operation_key: str) -> Call[answers.Submission]:
    """Reserve an effect's payload anew.

    Raises:
        InvalidOperationKey: refused here, before anything is sent.
    """
    body = {"live": True, "operation_key": check_operation_key(operation_key)}
    return _post("fork_live", f"{_effect(effect_id)}/fork", body, answers.Submission.of)


def _post(
    name: str,
    path: str,
    body: Mapping[str, Any],
    read: Callable[[Mapping[str, Any]], T],
    *,
    headers: Mapping[str, str] | None = None,
    wait_seconds: int = 0,
) -> Call[T]:
    """Build a request with one strict body: every repeat has the same bytes."""
    told = {"Content-Type": "application/json", **(headers or {})}
    return Call(name, "POST", path, read, canonical(dict(body)), told, wait_seconds)


def _effect(effect_id: UUID | str) -> str:
    """Return an effect's path; whatever is no id cannot change where it leads."""
    try:
        return f"/v1/effects/{UUID(str(effect_id))}"
    except ValueError:
        raise EffectNotFound("No effect has this id.") from None


def _prefer(wait_seconds: int) -> dict[str, str]:
    return {"Prefer": f"wait={wait_seconds}"} if wait_seconds else {}
