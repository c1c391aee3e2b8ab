"""The mcp function: warm and cold, by the events of a function URL."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.functions.invoking import READ_DIFFERENTLY, Lambdas, effects

KEY = "order:1:charge:v1"


def event(method: str, body: object, key: str | None) -> dict[str, Any]:
    """Return what a function URL sends for one POST of an MCP client."""
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "host": "abc.lambda-url.eu-central-1.on.aws",
    }
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": "/mcp",
        "rawQueryString": "",
        "headers": headers,
        "requestContext": {
            "http": {
                "method": method,
                "path": "/mcp",
                "protocol": "HTTP/1.1",
                "sourceIp": "127.0.0.1",
                "userAgent": "client",
            },
            "stage": "$default",
            "domainName": "abc.lambda-url.eu-central-1.on.aws",
            "timeEpoch": 0,
        },
        "body": body if isinstance(body, str) else json.dumps(body),
        "isBase64Encoded": False,
    }


def call(name: str, arguments: dict[str, Any], request_id: int = 1) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {
        "jsonrpc": "2.0",
        "id": request_id,
        "method": "tools/call",
        "params": params,
    }


def posted(lambdas: Lambdas, body: object, key: str | None = "acme") -> Any:
    sent = event("POST", body, lambdas.keys[key] if key else None)
    return lambdas.invoke("mcp", sent)


def charge(amount: int = 100) -> dict[str, Any]:
    return {"operation_key": KEY, "amount": amount}


def test_five_warm_calls_of_one_key_are_one_effect_on_one_connection(
    lambdas: Lambdas,
) -> None:
    ids = set()
    for number in range(5):
        answer = posted(lambdas, call("sim.charge", charge(), number))
        assert answer["statusCode"] == 200, answer
        result = json.loads(answer["body"])["result"]
        assert result["isError"] is False
        ids.add(result["structuredContent"]["effect_id"])
    assert len(ids) == 1
    connections = lambdas.environment("mcp").core.connections
    assert len(connections._free) == 1


def test_listing_between_calls_and_a_cold_environment_agree(lambdas: Lambdas) -> None:
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    first = json.loads(posted(lambdas, listing)["body"])["result"]["tools"]
    effect = json.loads(posted(lambdas, call("sim.charge", charge()))["body"])["result"]
    assert "sim.charge" in {tool["name"] for tool in first}
    with Lambdas(lambdas.keys) as cold:
        again = json.loads(posted(cold, call("sim.charge", charge()))["body"])["result"]
    told = again["structuredContent"]
    assert told["effect_id"] == effect["structuredContent"]["effect_id"]
    assert told["replayed"] is True


def test_nothing_is_answered_without_a_key_or_to_a_body_read_two_ways(
    lambdas: Lambdas,
) -> None:
    assert posted(lambdas, call("sim.charge", charge()), None)["statusCode"] == 401
    doubled = '{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}'
    assert posted(lambdas, doubled)["statusCode"] == 400
    assert (
        lambdas.invoke("mcp", event("GET", "", lambdas.keys["acme"]))["statusCode"] == 405
    )


@pytest.mark.parametrize("amount", READ_DIFFERENTLY)
def test_arguments_that_parsers_read_differently_are_refused_from_the_event(
    lambdas: Lambdas, fresh_database: str, amount: str
) -> None:
    body = json.dumps(call("sim.charge", charge())).replace("100", amount)
    answer = posted(lambdas, body)
    assert answer["statusCode"] == 400
    assert json.loads(answer["body"])["error"]["code"] == -32700
    assert effects(fresh_database) == 0


def test_another_tenants_key_reaches_another_effect(lambdas: Lambdas) -> None:
    mine = json.loads(posted(lambdas, call("sim.charge", charge()))["body"])
    theirs = json.loads(posted(lambdas, call("sim.charge", charge(7)), "other")["body"])
    assert (
        mine["result"]["structuredContent"]["effect_id"]
        != theirs["result"]["structuredContent"]["effect_id"]
    )
