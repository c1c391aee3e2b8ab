"""What an agent's role, which may invoke one tenant's alias, can not do."""

from __future__ import annotations

from typing import Any

import pytest

from effect_broker.surfaces.refusing import InvocationRefused
from tests.guarantees import guarantee
from tests.integration.functions.invoking import ARN, Lambdas, charge, nudges


def refused(lambdas: Lambdas, event: Any, *, slug: str = "acme") -> str:
    with pytest.raises(InvocationRefused) as refusal:
        lambdas.invoke("submit", event, arn=f"{ARN}:tenant-{slug}")
    return type(refusal.value).__name__


@pytest.fixture
def unknown(lambdas: Lambdas) -> str:
    event = {"operation": "submit", **charge("order:1:charge:v1", 100, "lose_answer")}
    effect_id = str(lambdas.direct(event)["effect_id"])
    lambdas.invoke("dispatch", nudges(effect_id))
    return effect_id


@pytest.mark.parametrize(
    "operation",
    ["resolve", "compensate", "compensation", "fork", "fork_live", "create_key"],
)
def test_invoker_of_an_alias_never_decides_nor_manages(
    lambdas: Lambdas, unknown: str, operation: str
) -> None:
    finding = {
        "decision": "committed",
        "reason": "x",
        "evidence": {},
        "expected_version": 3,
        "decision_id": "d",
    }
    event = {"operation": operation, "effect_id": unknown, **finding}
    assert refused(lambdas, event) == "InvalidRequest"
    told = lambdas.direct({"operation": "get", "effect_id": unknown})
    assert told["status"] == "outcome_unknown"


@pytest.mark.parametrize("operation", ["list", "effects", "tenants", "list_tenants"])
def test_invoker_of_an_alias_lists_nobody(lambdas: Lambdas, operation: str) -> None:
    assert refused(lambdas, {"operation": operation}) == "InvalidRequest"


@pytest.mark.parametrize("operation", ["get", "receipt", "reconcile"])
@guarantee("tenant-from-credential")
def test_another_tenants_alias_finds_nothing(
    lambdas: Lambdas, unknown: str, operation: str
) -> None:
    event = {"operation": operation, "effect_id": unknown}
    assert refused(lambdas, event, slug="other") == "EffectNotFound"
    named = {**event, "tenant": "acme"}
    assert refused(lambdas, named, slug="other") == "InvalidFields"


def test_gateway_event_without_a_key_is_no_direct_invocation(lambdas: Lambdas) -> None:
    """The alias opens direct calls only: a request needs its key all the same."""
    event = {
        "version": "2.0",
        "rawPath": "/v1/effects",
        "rawQueryString": "",
        "headers": {"host": "x"},
        "requestContext": {
            "http": {"method": "GET", "path": "/v1/effects", "sourceIp": "127.0.0.1"}
        },
    }
    answer = lambdas.invoke("submit", event, arn=f"{ARN}:tenant-acme")
    assert answer["statusCode"] == 401
