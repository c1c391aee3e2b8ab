"""The submit function: gateway events and direct invocations in one warm environment."""

from __future__ import annotations

import base64
import json
from typing import Any

import psycopg
import pytest

from effect_broker.surfaces.refusing import InvocationRefused
from tests.guarantees import guarantee
from tests.integration.functions.invoking import (
    ARN,
    READ_DIFFERENTLY,
    Lambdas,
    charge,
    effects,
    http_event,
)

SUBMIT = {"operation": "submit", **charge()}


def refusal(lambdas: Lambdas, event: Any, **options: Any) -> tuple[str, dict[str, Any]]:
    """Return the name and the problem that a direct invocation ends with."""
    with pytest.raises(InvocationRefused) as refused:
        lambdas.invoke("submit", event, **options)
    return type(refused.value).__name__, json.loads(str(refused.value))


def defects(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines that were logged as errors."""
    return [it for it in capsys.readouterr().err.splitlines() if '"ERROR"' in it]


ACME = {"arn": f"{ARN}:tenant-acme"}


def connections(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'effect-broker'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_five_warm_calls_of_both_kinds_share_one_connection_and_one_effect(
    lambdas: Lambdas, fresh_database: str
) -> None:
    lambdas.environment("migrate").run(
        lambdas.environment("migrate").core.connections.close()
    )
    effect_ids = set()
    for number in range(5):
        if number % 2:
            answer = lambdas.direct(SUBMIT)
            assert answer["replayed"] is True
        else:
            status, answer = lambdas.http("POST", "/v1/effects", charge())
            assert status["statusCode"] == (202 if number == 0 else 200)
        effect_ids.add(answer["effect_id"])
        assert connections(fresh_database) == 1
    assert len(effect_ids) == 1


def test_problems_reach_the_gateway_as_text(lambdas: Lambdas) -> None:
    answer, document = lambdas.http("POST", "/v1/effects", '{"a":1,"a":2}')
    assert answer["statusCode"] == 400
    assert answer["headers"]["content-type"] == "application/problem+json"
    assert document["code"] == "invalid_json"


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("amount", READ_DIFFERENTLY)
def test_arguments_that_parsers_read_differently_are_refused_from_the_event(
    lambdas: Lambdas, fresh_database: str, amount: str, encoded: bool
) -> None:
    """As text; the runtime may have made half a surrogate pair of an escape in it."""
    event = http_event("POST", "/v1/effects", key=lambdas.keys["acme"])
    body = json.dumps(charge()).replace("100", amount)
    if encoded:
        event["isBase64Encoded"] = True
        body = base64.b64encode(body.encode("utf-8", "surrogatepass")).decode()
    answer = lambdas.invoke("submit", {**event, "body": body})
    assert answer["statusCode"] == 400
    assert answer["headers"]["content-type"] == "application/problem+json"
    problem = json.loads(answer["body"])
    assert problem["code"] == "invalid_json"
    assert problem["type"].startswith("urn:effect-broker:problem:")
    assert effects(fresh_database) == 0


def test_base64_bodies_are_read(lambdas: Lambdas) -> None:
    event = http_event("POST", "/v1/effects", key=lambdas.keys["acme"])
    encoded = base64.b64encode(json.dumps(charge()).encode()).decode()
    answer = lambdas.invoke("submit", {**event, "body": encoded, "isBase64Encoded": True})
    assert answer["statusCode"] == 202


def test_body_that_is_too_long_leaves_nothing_running_behind_its_answer(
    lambdas: Lambdas, capsys: pytest.CaptureFixture[str]
) -> None:
    answer, document = lambdas.http("POST", "/v1/effects", "x" * 300_000)
    assert (answer["statusCode"], document["code"]) == (413, "request_too_large")
    assert defects(capsys) == []


def test_query_and_headers_reach_the_application(lambdas: Lambdas) -> None:
    lambdas.http("POST", "/v1/effects", charge())
    answer, page = lambdas.http("GET", "/v1/effects?operation_prefix=order%3A1&limit=5")
    assert answer["statusCode"] == 200
    assert len(page["effects"]) == 1
    answer, effect = lambdas.http("GET", page["effects"][0]["links"]["effect"])
    assert answer["headers"]["etag"] == f'"{effect["version"]}"'


def test_killed_backend_costs_no_later_call_its_answer(
    lambdas: Lambdas, fresh_database: str
) -> None:
    lambdas.http("POST", "/v1/effects", charge())
    with psycopg.connect(fresh_database) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'effect-broker' AND datname = current_database()"
        )
    answer, effect = lambdas.http("POST", "/v1/effects", charge())
    assert (answer["statusCode"], effect["replayed"]) == (200, True)


def test_direct_invocation_carries_an_effect_through_its_operations(
    lambdas: Lambdas,
) -> None:
    made = lambdas.direct(SUBMIT)
    assert (made["status"], made["replayed"]) == ("prepared", False)
    named = {"effect_id": made["effect_id"]}
    assert lambdas.direct({"operation": "get", **named})["history"]
    assert lambdas.direct({"operation": "reconcile", **named})["status"] == "prepared"
    name, problem = refusal(lambdas, {"operation": "receipt", **named}, **ACME)
    assert (name, problem["effect_status"]) == ("ReceiptNotFound", "prepared")
    lambdas.invoke("dispatch", {"operation": "sweep"})
    assert lambdas.direct({"operation": "receipt", **named})["kind"] == "succeeded"
    assert lambdas.direct(SUBMIT)["receipt"]["kind"] == "succeeded"


@pytest.mark.parametrize(
    "arn",
    [
        ARN,
        f"{ARN}:live",
        f"{ARN}:$LATEST",
        f"{ARN}:7",
        f"{ARN}:tenant-",
        f"{ARN}:tenant-nobody",
        f"{ARN}:tenant-acme:x",
        f"{ARN}:TENANT-acme",
        "tenant-acme",
        "",
    ],
)
@guarantee("tenant-from-credential")
def test_only_an_enabled_tenants_alias_is_answered(lambdas: Lambdas, arn: str) -> None:
    name, problem = refusal(lambdas, SUBMIT, arn=arn)
    assert (name, problem["code"]) == ("Forbidden", "forbidden")


@guarantee("tenant-from-credential")
def test_tenant_comes_from_the_alias_and_reaches_no_other(lambdas: Lambdas) -> None:
    ours = lambdas.direct(SUBMIT)
    theirs = lambdas.direct(SUBMIT, slug="other")
    assert ours["effect_id"] != theirs["effect_id"]
    event = {"operation": "get", "effect_id": ours["effect_id"]}
    name, _ = refusal(lambdas, event, arn=f"{ARN}:tenant-other")
    assert name == "EffectNotFound"


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"operation": "resolve"}, "InvalidRequest"),
        ({**SUBMIT, "operation": None}, "InvalidRequest"),
        ([SUBMIT], "InvalidRequest"),
        ("submit", "InvalidRequest"),
        ({**SUBMIT, "tenant_id": "t"}, "InvalidFields"),
        ({**SUBMIT, "arguments": {"amount": float("nan")}}, "InvalidJson"),
        ({**SUBMIT, "arguments": {"amount": 2**53}}, "InvalidJson"),
        ({**SUBMIT, "arguments": {"amount": 1, "x": "\ud800"}}, "InvalidJson"),
        ({**SUBMIT, "arguments": {"amount": "1"}}, "InvalidArguments"),
        ({**SUBMIT, "requested_by": "x" * 300_000}, "RequestTooLarge"),
        ({**SUBMIT, "operation_key": "null"}, "InvalidOperationKey"),
        ({**SUBMIT, "tool": "nobody.knows"}, "UnknownTool"),
        ({"operation": "get", "effect_id": "x"}, "EffectNotFound"),
        ({"operation": "get"}, "InvalidFields"),
    ],
)
def test_refusals_have_names_that_workflows_can_catch(
    lambdas: Lambdas, event: Any, expected: str
) -> None:
    name, problem = refusal(lambdas, event, **ACME)
    assert name == expected
    assert problem["type"].startswith("urn:effect-broker:problem:")


def test_drift_names_the_effect_to_read(lambdas: Lambdas) -> None:
    made = lambdas.direct(SUBMIT)
    event = {"operation": "submit", **charge(amount=1)}
    name, problem = refusal(lambdas, event, **ACME)
    assert name == "PayloadDrift"
    assert problem["effect_id"] == made["effect_id"]


@guarantee("no-ledger-no-dispatch")
def test_ledger_away_is_503_and_a_name_to_retry_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tests.integration.functions.invoking import KEYRING

    url = "postgresql://nobody@127.0.0.1:1/none"
    monkeypatch.setenv("EFFECT_BROKER_DATABASE_URL", url)
    monkeypatch.setenv("EFFECT_BROKER_KEYRING", KEYRING)
    with Lambdas(keys={"acme": "ebk_" + "0" * 16 + "_" + "0" * 64}) as lambdas:
        answer, document = lambdas.http("POST", "/v1/effects", charge())
        assert (answer["statusCode"], document["code"]) == (503, "ledger_unavailable")
        assert int(answer["headers"]["retry-after"]) > 0
        assert lambdas.http("GET", "/readyz")[0]["statusCode"] == 503
        assert lambdas.http("GET", "/healthz")[0]["statusCode"] == 200
        name, _ = refusal(lambdas, SUBMIT, **ACME)
        assert name == "LedgerUnavailable"


def test_missing_settings_are_answered_not_raised_at_a_gateway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("EFFECT_BROKER_DATABASE_URL", raising=False)
    monkeypatch.delenv("EFFECT_BROKER_DATABASE_SECRET", raising=False)
    with Lambdas(keys={"acme": "k"}) as lambdas:
        answer, document = lambdas.http("GET", "/healthz")
        assert (answer["statusCode"], document["code"]) == (500, "internal_error")
        name, _ = refusal(lambdas, SUBMIT, **ACME)
        assert name == "SettingsInvalid"
