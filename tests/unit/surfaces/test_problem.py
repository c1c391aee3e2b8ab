from __future__ import annotations

import inspect
import json
from datetime import UTC, datetime
from uuid import UUID

import pytest

from effect_broker.domain import errors
from effect_broker.domain.errors import EffectBrokerError
from effect_broker.surfaces.problem import (
    MEDIA_TYPE,
    ROWS,
    framework_problem,
    internal_problem,
    problem_of,
)
from effect_broker.surfaces.requests import InvalidFields

EFFECT = UUID("0198c0de-0000-7000-8000-000000000001")
AT = datetime(2026, 1, 5, tzinfo=UTC)

EXAMPLES: dict[str, tuple[EffectBrokerError, int, str]] = {
    "EffectBrokerError": (EffectBrokerError("boom"), 500, "internal_error"),
    "InvalidRequest": (errors.InvalidRequest("x"), 400, "invalid_request"),
    "InvalidJson": (errors.InvalidJson("x"), 400, "invalid_json"),
    "InvalidOperationKey": (
        errors.InvalidOperationKey("x"),
        400,
        "invalid_operation_key",
    ),
    "InvalidArguments": (
        errors.InvalidArguments("x", pointers=["/amount: type"]),
        400,
        "invalid_arguments",
    ),
    "RequestTooLarge": (errors.RequestTooLarge("x"), 413, "request_too_large"),
    "Unauthenticated": (errors.Unauthenticated("x"), 401, "unauthenticated"),
    "Forbidden": (errors.Forbidden("x", scope="operate"), 403, "forbidden"),
    "RateLimited": (
        errors.RateLimited("x", retry_after_seconds=3),
        429,
        "rate_limited",
    ),
    "NotFound": (errors.NotFound("x"), 404, "not_found"),
    "UnknownTool": (errors.UnknownTool("x"), 404, "unknown_tool"),
    "EffectNotFound": (errors.EffectNotFound("x"), 404, "effect_not_found"),
    "ReceiptNotFound": (
        errors.ReceiptNotFound("x", effect_id=EFFECT, status="dispatching"),
        404,
        "receipt_not_found",
    ),
    "Conflict": (errors.Conflict("x"), 409, "conflict"),
    "PayloadDrift": (
        errors.PayloadDrift(effect_id=EFFECT, status="prepared", fields=["amount"]),
        409,
        "payload_drift",
    ),
    "VersionConflict": (
        errors.VersionConflict("x", version=3),
        409,
        "version_conflict",
    ),
    "PreconditionFailed": (
        errors.PreconditionFailed("x", version=3),
        412,
        "precondition_failed",
    ),
    "DecisionRefused": (
        errors.DecisionRefused("x", not_before=AT),
        409,
        "decision_refused",
    ),
    "ContractConflict": (errors.ContractConflict("x"), 409, "contract_conflict"),
    "ContractInvalid": (errors.ContractInvalid("x"), 422, "contract_invalid"),
    "LedgerUnavailable": (errors.LedgerUnavailable("x"), 503, "ledger_unavailable"),
    "SchemaMismatch": (errors.SchemaMismatch("x"), 503, "schema_mismatch"),
    "DispatchHeld": (errors.DispatchHeld("x"), 503, "dispatch_held"),
    "Fenced": (errors.Fenced("x"), 409, "fenced"),
    "IllegalTransition": (
        errors.IllegalTransition(old=None, event="e", new="n"),
        500,
        "internal_error",
    ),
    "CipherError": (errors.CipherError("x"), 500, "internal_error"),
    "KeysMissing": (errors.KeysMissing("The keyring lacks k1."), 503, "keys_missing"),
    "TargetUnreadable": (errors.TargetUnreadable("x"), 500, "internal_error"),
    "SecretNotFound": (errors.SecretNotFound("x"), 500, "internal_error"),
}


def tree() -> set[str]:
    return {
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, EffectBrokerError)
    }


def test_every_error_of_the_tree_has_a_row_and_an_example() -> None:
    assert {kind.__name__ for kind in ROWS} == tree() == set(EXAMPLES)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_every_error_becomes_a_problem_with_its_stable_code(name: str) -> None:
    error, status, code = EXAMPLES[name]
    problem = problem_of(error)
    document = json.loads(problem.body())
    assert (problem.status, problem.code) == (status, code)
    assert document["type"] == f"urn:effect-broker:problem:{code}"
    assert document["status"] == status
    assert {"type", "title", "status", "detail", "code"} <= set(document)
    assert MEDIA_TYPE == "application/problem+json"


def test_drift_names_the_effect_and_the_fields_and_tells_to_read() -> None:
    document = problem_of(EXAMPLES["PayloadDrift"][0]).document()
    assert document["effect_id"] == str(EFFECT)
    assert document["effect_status"] == "prepared"
    assert document["differing_fields"] == ["amount"]
    assert document["links"]["effect"].endswith(str(EFFECT))
    assert "Read that effect" in document["detail"]


def test_missing_receipt_says_where_the_effect_stands() -> None:
    document = problem_of(EXAMPLES["ReceiptNotFound"][0]).document()
    assert (document["effect_id"], document["effect_status"]) == (
        str(EFFECT),
        "dispatching",
    )


def test_ledger_away_says_when_and_that_a_repeat_is_safe() -> None:
    problem = problem_of(errors.LedgerUnavailable("connection to 10.0.0.1 refused"))
    assert int(problem.headers["Retry-After"]) > 0
    assert problem.members["safe_to_repeat"] is True
    assert "same key" in problem.detail
    assert "10.0.0.1" not in problem.body().decode()


def test_missing_credential_is_told_how_to_authenticate() -> None:
    assert (
        problem_of(errors.Unauthenticated("x"))
        .headers["WWW-Authenticate"]
        .startswith("Bearer")
    )


def test_refused_decision_says_from_when_it_could_be_taken() -> None:
    document = problem_of(EXAMPLES["DecisionRefused"][0]).document()
    assert document["not_before"] == AT.isoformat()


def test_defect_tells_nothing_but_where_the_log_knows_more() -> None:
    first, second = internal_problem(), problem_of(errors.CipherError("key k1 is gone"))
    assert "k1" not in second.body().decode()
    assert first.members["instance"] != second.members["instance"]


def test_subclass_without_a_row_is_answered_as_its_base() -> None:
    problem = problem_of(InvalidFields({"tool": "is required"}))
    assert (problem.status, problem.code) == (400, "invalid_request")
    assert problem.members["fields"] == {"tool": "is required"}


def test_text_that_utf8_cannot_hold_still_makes_valid_json() -> None:
    body = problem_of(errors.InvalidRequest("\ud800 é")).body()
    assert json.loads(body)["detail"] == "\ud800 é"
    body.decode("ascii")


def test_unforeseen_framework_status_keeps_its_number() -> None:
    assert framework_problem(418, "x").code == "http_418"
