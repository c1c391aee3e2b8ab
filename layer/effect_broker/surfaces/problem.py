"""Refusals as problem+json (RFC 9457): one table from error to answer, for all surfaces.

A problem names places and facts, never an argument, a result, an operation key or a
credential. A state that is running or unknown is no problem and has no row here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from effect_broker.domain import errors
from effect_broker.domain.errors import EffectBrokerError
from effect_broker.surfaces.requests import InvalidFields

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:effect-broker:problem:"
RETRY_AFTER_SECONDS: Final = 2
"""How soon a repeat is worth trying while the ledger is away; a failover takes longer."""

SAFE_TO_REPEAT: Final = (
    "Nothing was sent by this request; it is safe to repeat with the same key."
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One refusal: `members` are the typed fields beside RFC 9457's own."""

    status: int
    code: str
    title: str
    detail: str
    members: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the problem as a JSON object."""
        return {
            "type": TYPE_PREFIX + self.code,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            **self.members,
        }

    def body(self) -> bytes:
        """Return the problem as ASCII JSON; text that UTF-8 cannot hold stays escaped."""
        return json.dumps(self.document(), separators=(",", ":")).encode("ascii")


@dataclass(frozen=True, slots=True)
class Row:
    """How one error class is answered; `explains`: its own message may be shown."""

    status: int
    title: str
    explains: bool = True


_INTERNAL: Final = Row(500, "The broker has met a defect", explains=False)

ROWS: Final[Mapping[type[EffectBrokerError], Row]] = {
    EffectBrokerError: _INTERNAL,
    errors.InvalidRequest: Row(400, "The request cannot be understood"),
    errors.InvalidJson: Row(400, "The body is not one strict JSON value"),
    errors.InvalidOperationKey: Row(400, "The operation key is not acceptable"),
    errors.InvalidArguments: Row(400, "The arguments do not fit the tool's schema"),
    errors.RequestTooLarge: Row(413, "The body is too large"),
    errors.Unauthenticated: Row(401, "A valid API key is required"),
    errors.Forbidden: Row(403, "The API key does not allow this"),
    errors.RateLimited: Row(429, "The API key asks too often"),
    errors.NotFound: Row(404, "There is no such thing"),
    errors.UnknownTool: Row(404, "No contract names this tool"),
    errors.EffectNotFound: Row(404, "There is no such effect"),
    errors.ReceiptNotFound: Row(404, "The effect has no receipt yet"),
    errors.Conflict: Row(409, "The request contradicts what is recorded"),
    errors.PayloadDrift: Row(409, "The operation key stands for another payload"),
    errors.VersionConflict: Row(409, "The effect has moved on"),
    errors.PreconditionFailed: Row(412, "The effect is not at the version named"),
    errors.DecisionRefused: Row(409, "The decision is not allowed"),
    errors.ContractConflict: Row(409, "The contract version has another document"),
    errors.ContractInvalid: Row(422, "The contract cannot be loaded"),
    errors.LedgerUnavailable: Row(503, "The ledger cannot be reached", explains=False),
    errors.SchemaMismatch: Row(503, "The ledger's schema is not this version's"),
    errors.DispatchHeld: Row(503, "Dispatch is held until an operator releases it"),
    errors.Fenced: Row(409, "Somebody else holds this effect"),
    errors.IllegalTransition: _INTERNAL,
    errors.CipherError: _INTERNAL,
    errors.KeysMissing: Row(503, "The broker lacks keys of its ledger", explains=False),
    errors.SecretNotFound: _INTERNAL,
    errors.TargetUnreadable: _INTERNAL,
}
"""Every leaf and branch of the error tree; a test fails on one that is missing."""

FRAMEWORK: Final[Mapping[int, tuple[str, str]]] = {
    400: ("invalid_request", "The request cannot be understood"),
    404: ("route_not_found", "There is no such path"),
    405: ("method_not_allowed", "The path does not take this method"),
    406: ("not_acceptable", "No such representation exists"),
    413: ("request_too_large", "The body is too large"),
    415: ("unsupported_media_type", "The body must be application/json, not encoded"),
    422: ("invalid_request", "The request cannot be understood"),
}
"""Answers that the web framework decides before a use case is reached."""


def problem_of(error: EffectBrokerError) -> Problem:
    """Return the answer to a refusal, by the nearest class that has a row."""
    row = next(ROWS[cls] for cls in type(error).__mro__ if cls in ROWS)
    if row is _INTERNAL:
        return internal_problem()
    return Problem(
        status=row.status,
        code=error.code,
        title=row.title,
        detail=error.message if row.explains else SAFE_TO_REPEAT,
        members=_members(error),
        headers=_headers(row.status, error),
    )


def internal_problem() -> Problem:
    """Return the answer to a defect; `instance` finds it in the log."""
    return Problem(
        status=500,
        code="internal_error",
        title=_INTERNAL.title,
        detail="The effect may be recorded; it is safe to repeat with the same key.",
        members={"instance": f"urn:uuid:{uuid4()}"},
    )


def framework_problem(
    status: int, detail: str, headers: Mapping[str, str] | None = None
) -> Problem:
    """Return the answer to what the web framework refused."""
    known = FRAMEWORK.get(status)
    code, title = known or (f"http_{status}", "The request was refused")
    return Problem(status, code, title, detail, headers=dict(headers or {}))


def _headers(status: int, error: EffectBrokerError) -> dict[str, str]:
    if status == 401:
        return {"WWW-Authenticate": 'Bearer realm="effect-broker"'}
    if isinstance(error, errors.RateLimited):
        return {"Retry-After": str(error.retry_after_seconds)}
    if status == 503:
        return {"Retry-After": str(RETRY_AFTER_SECONDS)}
    return {}


def _members(error: EffectBrokerError) -> dict[str, Any]:
    """Return the typed fields of an error that callers act on."""
    match error:
        case errors.PayloadDrift():
            return {
                "effect_id": str(error.effect_id),
                "effect_status": str(error.status),
                "differing_fields": list(error.fields),
                "links": {"effect": f"/v1/effects/{error.effect_id}"},
            }
        case errors.ReceiptNotFound():
            return {
                "effect_id": str(error.effect_id),
                "effect_status": str(error.status),
                "links": {"effect": f"/v1/effects/{error.effect_id}"},
            }
        case InvalidFields():
            return {"fields": dict(error.complaints)}
        case errors.InvalidArguments() if error.pointers:
            return {"pointers": list(error.pointers)}
        case errors.VersionConflict() if error.version is not None:
            return {"version": error.version}
        case errors.DecisionRefused() if error.not_before is not None:
            return {"not_before": error.not_before.isoformat()}
        case errors.Forbidden():
            return {"scope": error.scope}
        case errors.RateLimited():
            return {
                "safe_to_repeat": True,
                "retry_after_seconds": error.retry_after_seconds,
            }
        case errors.LedgerUnavailable() | errors.DispatchHeld():
            return {"safe_to_repeat": True, "retry_after_seconds": RETRY_AFTER_SECONDS}
        case _:
            return {}
