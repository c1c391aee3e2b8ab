"""What a client raises: the broker's own tree by its codes, and two things of its own.

EffectBrokerError
├── Unreachable                 no answer: what was asked may be done, or still be done
├── BrokerDefect                an answer that is none; says what the broker's log knows
├── LedgerUnavailable           503, still, after the repeats
├── RateLimited                 429, still, after the repeats
├── InvalidRequest              400, 413, 415, and what is refused before it is sent
│   ├── InvalidJson
│   ├── InvalidOperationKey
│   ├── InvalidArguments        `pointers`
│   └── RequestTooLarge
├── Unauthenticated             401
├── Forbidden                   403; `scope`
├── NotFound                    404
│   ├── UnknownTool
│   ├── EffectNotFound
│   └── ReceiptNotFound         `effect_id`, `status`
└── Conflict                    409
    ├── PayloadDrift            `effect_id`, `status`, `fields`: read it, do not re-key
    ├── VersionConflict         `version`
    │   └── PreconditionFailed  412
    └── DecisionRefused         `not_before`

No state of an effect is here: a running, unknown or failed one is an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from effect_broker.domain import errors
from effect_broker.domain.errors import EffectBrokerError

Document = Mapping[str, Any]


class Unreachable(EffectBrokerError):
    """No answer came, or none could be read: what was asked may be done all the same.

    The same request with the same key is safe to repeat; a new key is not.
    """

    code = "unreachable"


class BrokerDefect(EffectBrokerError):
    """The broker answered with a defect, or something else answered in its place.

    `status` is the HTTP status; `instance` finds the defect in the broker's log. The same
    request with the same key is safe to repeat.
    """

    code = "internal_error"

    def __init__(self, message: str, *, status: int, instance: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.instance = instance


def refusal_of(status: int, document: Document) -> EffectBrokerError:
    """Return the error that a problem document stands for.

    A code that this release does not know is known by its status.
    """
    code, detail = str(document.get("code", "")), _said(status, document)
    made = _BY_CODE.get(code)
    try:
        if made is not None:
            return made(detail, document)
    except (KeyError, TypeError, ValueError):
        pass  # a member is missing: what is known of the status still holds
    if status in _BY_STATUS:
        return _BY_STATUS[status](detail, document)
    instance = document.get("instance")
    return BrokerDefect(
        detail, status=status, instance=instance if isinstance(instance, str) else None
    )


def _said(status: int, document: Document) -> str:
    detail = document.get("detail")
    return detail if isinstance(detail, str) else f"The broker answered {status}."


def _drift(detail: str, document: Document) -> EffectBrokerError:
    return errors.PayloadDrift(
        effect_id=UUID(document["effect_id"]),
        status=str(document["effect_status"]),
        fields=list(document["differing_fields"]),
    )


def _no_receipt(detail: str, document: Document) -> EffectBrokerError:
    return errors.ReceiptNotFound(
        detail,
        effect_id=UUID(document["effect_id"]),
        status=str(document["effect_status"]),
    )


def _refused(detail: str, document: Document) -> EffectBrokerError:
    text = document.get("not_before")
    not_before = datetime.fromisoformat(text) if text is not None else None
    return errors.DecisionRefused(detail, not_before=not_before)


def _plain(kind: type[EffectBrokerError]) -> Callable[[str, Document], EffectBrokerError]:
    return lambda detail, _: kind(detail)


_PLAIN: Final = (
    errors.InvalidRequest,
    errors.InvalidJson,
    errors.InvalidOperationKey,
    errors.RequestTooLarge,
    errors.Unauthenticated,
    errors.NotFound,
    errors.UnknownTool,
    errors.EffectNotFound,
    errors.Conflict,
    errors.ContractConflict,
    errors.LedgerUnavailable,
    errors.SchemaMismatch,
    errors.DispatchHeld,
    errors.Fenced,
)

_BY_CODE: Final[Mapping[str, Callable[[str, Document], EffectBrokerError]]] = {
    **{kind.code: _plain(kind) for kind in _PLAIN},
    "payload_drift": _drift,
    "receipt_not_found": _no_receipt,
    "decision_refused": _refused,
    "invalid_arguments": lambda detail, document: errors.InvalidArguments(
        detail, pointers=[str(it) for it in document.get("pointers", ())]
    ),
    "forbidden": lambda detail, document: errors.Forbidden(
        detail, scope=str(document.get("scope", ""))
    ),
    "rate_limited": lambda detail, document: errors.RateLimited(
        detail, retry_after_seconds=int(document["retry_after_seconds"])
    ),
    "version_conflict": lambda detail, document: errors.VersionConflict(
        detail, version=document.get("version")
    ),
    "precondition_failed": lambda detail, document: errors.PreconditionFailed(
        detail, version=document.get("version")
    ),
}

_BY_STATUS: Final[Mapping[int, Callable[[str, Document], EffectBrokerError]]] = {
    400: _plain(errors.InvalidRequest),
    401: _plain(errors.Unauthenticated),
    403: lambda detail, _: errors.Forbidden(detail, scope=""),
    404: _plain(errors.NotFound),
    405: _plain(errors.InvalidRequest),
    409: _plain(errors.Conflict),
    412: lambda detail, _: errors.PreconditionFailed(detail),
    413: _plain(errors.RequestTooLarge),
    415: _plain(errors.InvalidRequest),
    422: _plain(errors.InvalidRequest),
    429: lambda detail, _: errors.RateLimited(detail, retry_after_seconds=1),
    503: _plain(errors.LedgerUnavailable),
}
"""What a status means where the code says nothing: gateways refuse in words of their
own."""
