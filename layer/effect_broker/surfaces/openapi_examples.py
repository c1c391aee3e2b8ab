"""Examples of the OpenAPI document, told by the code that tells the real answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

from effect_broker.domain.contract import SafetyClass
from effect_broker.domain.errors import (
    DecisionRefused,
    EffectBrokerError,
    InvalidArguments,
    LedgerUnavailable,
    PayloadDrift,
    PreconditionFailed,
    RateLimited,
    ReceiptNotFound,
    UnknownTool,
)
from effect_broker.domain.status import TERMINAL, EffectStatus
from effect_broker.surfaces.answers import (
    ContractAnswer,
    Deadlines,
    EffectAnswer,
    NextAction,
    ReceiptAnswer,
    ResolvedAnswer,
    SubmitAnswer,
)
from effect_broker.surfaces.problem import problem_of
from effect_broker.surfaces.telling import links_of, next_of, outcome_sentence

Examples = Mapping[str, Mapping[str, Any]]

_ID: Final = UUID("0198c0de-0000-7000-8000-000000000001")
_AT: Final = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)

_RECEIPT: Final[Mapping[str, Any]] = {
    "receipt_id": "0198c0de-0000-7000-8000-000000000002",
    "effect_id": str(_ID),
    "kind": "succeeded",
    "source": "attempt",
    "reason": "committed",
    "external_id": "ch_1",
    "output": {"id": "ch_1", "amount": 4200},
    "flags": [],
    "contract": {"name": "payments-charge", "version": "2026-01"},
    "downstream_key_digest": "3f" * 32,
    "evidence_digest": "5a" * 32,
    "target_time": None,
    "digest": "9c" * 32,
    "created_at": (_AT + timedelta(seconds=1)).isoformat(),
}

_SUBMISSION: Final = {
    "operation_key": "order:ord_123:charge:v1",
    "tool": "payments.charge",
    "arguments": {"amount": 4200, "currency": "EUR"},
    "requested_by": "checkout",
}

_FINDING: Final = {
    "decision": "committed",
    "reason": "The charge stands in the provider's dashboard.",
    "evidence": {"dashboard": "charge ch_1"},
    "observed_at": (_AT + timedelta(minutes=10)).isoformat(),
    "expected_version": 3,
    "decision_id": "ticket-77",
    "external_id": "ch_1",
}


@cache
def request_examples() -> Mapping[str, Examples]:
    """Return example bodies by operation."""
    return {
        "submit_effect": _named(charge=("A charge", _SUBMISSION)),
        "resolve_effect": _named(committed=("The target has done it", _FINDING)),
        "compensate_effect": _named(
            refund=(
                "A refund undid the charge",
                {"compensated_by": str(_ID), "reason": "The order was cancelled."},
            )
        ),
        "fork_effect": _named(
            simulated=("On record only", {"at_sequence": 2}),
            live=(
                "Reserve the payload anew",
                {"live": True, "operation_key": "order:ord_123:charge:v2"},
            ),
        ),
    }


@cache
def response_examples() -> Mapping[str, Mapping[str, Examples]]:
    """Return example answers by operation and status code."""
    new = _submit(EffectStatus.PREPARED, version=1, replayed=False)
    running = _submit(EffectStatus.DISPATCHING, version=2, replayed=True)
    settled = _submit(EffectStatus.SUCCEEDED, version=3, replayed=True)
    unknown = _submit(EffectStatus.OUTCOME_UNKNOWN, version=3, replayed=True)
    resolved = ResolvedAnswer(
        **_members(EffectStatus.SUCCEEDED, 4),
        decision_id="ticket-77",
        decision_version=4,
    )
    return {
        "submit_effect": {
            "202": _named(new=("Recorded for the first time", _plain(new))),
            "200": _named(
                replay=("The same request again, settled", _plain(settled)),
                running=("The same request again, under way", _plain(running)),
                unknown=("The same request again, answer missing", _plain(unknown)),
            ),
        },
        "get_receipt": {"200": _named(succeeded=("Proof of a commit", _RECEIPT))},
        "reconcile_effect": {
            "200": _named(unknown=("Asked for", _plain(_effect_unknown())))
        },
        "resolve_effect": {"200": _named(committed=("Recorded", _plain(resolved)))},
        "fork_effect": {"202": _named(live=("Reserved anew", _plain(new)))},
    }


@cache
def problem_examples() -> Mapping[tuple[str, int], Examples]:
    """Return example problems by operation and status code."""
    drift = PayloadDrift(effect_id=_ID, status="dispatching", fields=["amount"])
    unsettled = DecisionRefused(
        "A request could still have been on its way when the target was looked at.",
        not_before=_AT + timedelta(seconds=42),
    )
    missing = ReceiptNotFound(
        "The effect is dispatching; a receipt exists once it is settled.",
        effect_id=_ID,
        status="dispatching",
    )
    return {
        ("submit_effect", 409): _problem(conflict=drift),
        ("submit_effect", 404): _problem(
            unknown_tool=UnknownTool("No contract names the tool 'payments.chrage'.")
        ),
        ("submit_effect", 400): _problem(
            arguments=InvalidArguments(
                "The arguments do not fit the tool's schema.", pointers=["/amount: type"]
            )
        ),
        ("submit_effect", 503): _problem(away=LedgerUnavailable("away")),
        ("submit_effect", 429): _problem(
            often=RateLimited("This key asks faster than it may.", retry_after_seconds=1)
        ),
        ("resolve_effect", 412): _problem(
            stale=PreconditionFailed("The effect is at version 4.", version=4)
        ),
        ("get_receipt", 404): _problem(not_yet=missing),
        ("resolve_effect", 409): _problem(too_early=unsettled),
    }


def _named(**examples: tuple[str, Any]) -> Examples:
    return {
        name: {"summary": summary, "value": value}
        for name, (summary, value) in examples.items()
    }


def _problem(**errors: EffectBrokerError) -> Examples:
    return {
        name: {"summary": problem.title, "value": problem.document()}
        for name, problem in ((name, problem_of(error)) for name, error in errors.items())
    }


def _plain(answer: EffectAnswer) -> Any:
    return json.loads(answer.model_dump_json())


def _effect_unknown() -> EffectAnswer:
    return EffectAnswer(**_members(EffectStatus.OUTCOME_UNKNOWN, 4))


def _submit(status: EffectStatus, *, version: int, replayed: bool) -> SubmitAnswer:
    return SubmitAnswer(
        **_members(status, version),
        replayed=replayed,
        first_recorded_at=_AT,
        receipt=ReceiptAnswer(dict(_RECEIPT)) if status in TERMINAL else None,
    )


def _members(status: EffectStatus, version: int) -> dict[str, Any]:
    unknown = status is EffectStatus.OUTCOME_UNKNOWN
    return {
        "effect_id": str(_ID),
        "operation_key": _SUBMISSION["operation_key"],
        "tool": _SUBMISSION["tool"],
        "status": status,
        "outcome": outcome_sentence(status, unknown=unknown),
        "unknown": unknown,
        "unknown_since": _AT + timedelta(seconds=2) if unknown else None,
        "terminal": status in TERMINAL,
        "version": version,
        "reason": "answer_lost" if unknown else None,
        "created_at": _AT,
        "updated_at": _AT + timedelta(seconds=version - 1),
        "requested_by": _SUBMISSION["requested_by"],
        "trace_id": None,
        "contract": ContractAnswer(
            name="payments-charge",
            version="2026-01",
            safety=SafetyClass.IDEMPOTENT,
            guarantee="Exactly one observable effect while the contract holds.",
        ),
        "request_hash": "c4" * 32,
        "deadlines": Deadlines(submit_until=_AT + timedelta(hours=1)),
        "next": _next(status),
        "links": links_of(str(_ID)),
    }


def _next(status: EffectStatus) -> list[NextAction]:
    if status in TERMINAL:
        return next_of(str(_ID), ["get_receipt"])
    if status is EffectStatus.OUTCOME_UNKNOWN:
        return next_of(str(_ID), ["request_reconciliation", "resolve"])
    return next_of(str(_ID), ["wait"])
