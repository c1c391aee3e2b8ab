"""One application behind every kind of front door that Lambda has."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest

from tests.integration.functions.invoking import Lambdas, charge, http_event

Event = dict[str, Any]
Shape = Callable[[str, str, str | None, str], Event]


def http_api(method: str, path: str, body: str | None, key: str) -> Event:
    return http_event(method, path, body, key=key)


def http_api_stage(method: str, path: str, body: str | None, key: str) -> Event:
    """A named stage stands in the path of an HTTP API's event."""
    event = http_event(method, f"/prod{path}", body, key=key)
    event["requestContext"]["stage"] = "prod"
    return event


def http_api_stage_named_like_a_root(
    method: str, path: str, body: str | None, key: str
) -> Event:
    """Under a mapped domain the stage is not in the path, whatever it is called."""
    event = http_event(method, path, body, key=key)
    event["requestContext"]["stage"] = "v1"
    return event


def function_url(method: str, path: str, body: str | None, key: str) -> Event:
    event = http_event(method, path, body, key=key)
    event["requestContext"]["domainName"] = "abc.lambda-url.eu-central-1.on.aws"
    event["cookies"] = ["a=b"]
    return event


def rest_api(method: str, path: str, body: str | None, key: str) -> Event:
    path, _, query = path.partition("?")
    pairs = parse_qsl(query)
    return {
        "resource": "/{proxy+}",
        "path": path,
        "httpMethod": method,
        "headers": headers(key),
        "multiValueHeaders": {name: [it] for name, it in headers(key).items()},
        "queryStringParameters": dict(pairs) or None,
        "multiValueQueryStringParameters": {name: [it] for name, it in pairs} or None,
        "requestContext": {
            "stage": "prod",
            "identity": {"sourceIp": "127.0.0.1"},
            "httpMethod": method,
        },
        "body": body,
        "isBase64Encoded": False,
    }


def load_balancer(method: str, path: str, body: str | None, key: str) -> Event:
    """A load balancer leaves the query as it came: still encoded."""
    path, _, query = path.partition("?")
    return {
        "httpMethod": method,
        "path": path,
        "queryStringParameters": dict(
            pair.split("=") for pair in query.split("&") if pair
        ),
        "headers": {**headers(key), "x-forwarded-for": "127.0.0.1"},
        "requestContext": {"elb": {"targetGroupArn": "arn:aws:elasticloadbalancing:x"}},
        "body": body or "",
        "isBase64Encoded": False,
    }


def load_balancer_multi(method: str, path: str, body: str | None, key: str) -> Event:
    """Once multi-value headers are switched on, a load balancer takes no others."""
    event = load_balancer(method, path, body, key)
    single, query = event.pop("headers"), event.pop("queryStringParameters")
    return {
        **event,
        "multiValueHeaders": {name: [value] for name, value in single.items()},
        "multiValueQueryStringParameters": {name: [it] for name, it in query.items()},
    }


def headers(key: str) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {key}",
        "Content-Type": "application/json",
        "Host": "api.example",
    }


SHAPES = [
    http_api,
    http_api_stage,
    http_api_stage_named_like_a_root,
    function_url,
    rest_api,
    load_balancer,
    load_balancer_multi,
]


def told_headers(answer: Event) -> dict[str, str]:
    named = dict(answer.get("headers") or {})
    named |= {name: it[0] for name, it in (answer.get("multiValueHeaders") or {}).items()}
    return {name.lower(): value for name, value in named.items()}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_front_door_leads_to_the_same_answers(
    lambdas: Lambdas, shape: Shape
) -> None:
    def call(method: str, path: str, body: object = None, **changes: Any) -> Any:
        text = None if body is None else json.dumps(body)
        event = shape(method, path, text, lambdas.keys["acme"]) | changes
        answer = lambdas.invoke("submit", event)
        assert answer["isBase64Encoded"] is False
        return answer["statusCode"], told_headers(answer), json.loads(answer["body"])

    key = "order:1/ä+b".encode("ascii", "xmlcharrefreplace").decode()
    status, named, effect = call("POST", "/v1/effects", charge(key))
    assert status == 202
    assert named["location"] == f"/v1/effects/{effect['effect_id']}"
    assert named["etag"] == '"1"'
    encoded = base64.b64encode(json.dumps(charge(key)).encode()).decode()
    event = shape("POST", "/v1/effects", None, lambdas.keys["acme"])
    event |= {"body": encoded, "isBase64Encoded": True}
    again = json.loads(lambdas.invoke("submit", event)["body"])
    assert (again["effect_id"], again["replayed"]) == (effect["effect_id"], True)
    query = "operation_prefix=order%3A1%2F%26&limit=5"
    status, _, page = call("GET", f"/v1/effects?{query}")
    assert [it["effect_id"] for it in page["effects"]] == [effect["effect_id"]]
    status, named, problem = call("GET", "/v1/nothing")
    assert (status, problem["code"]) == (404, "route_not_found")
    assert named["content-type"] == "application/problem+json"
    status, _, problem = call("POST", "/v1/effects", {"a": "x" * 300_000})
    assert (status, problem["code"]) == (413, "request_too_large")
    assert call("GET", "/healthz")[0] == 200


@pytest.mark.parametrize("shape", SHAPES)
def test_a_body_is_measured_once_it_is_decoded(lambdas: Lambdas, shape: Shape) -> None:
    """Base64 makes a body a third longer; what counts is what it holds."""
    fields = charge()
    fields["requested_by"] = "x" * 100
    filled = json.dumps(fields).ljust(256 * 1024).encode()
    for body, expected in ((filled, 202), (filled + b" ", 413)):
        event = shape("POST", "/v1/effects", None, lambdas.keys["acme"])
        event |= {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}
        assert lambdas.invoke("submit", event)["statusCode"] == expected


@pytest.mark.parametrize("shape", SHAPES)
def test_function_without_its_settings_still_answers_its_front_door(
    shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EFFECT_BROKER_DATABASE_URL", raising=False)
    with Lambdas() as lambdas:
        answer = lambdas.invoke("submit", shape("GET", "/healthz", None, ""))
    assert answer["statusCode"] == 500
    assert told_headers(answer)["content-type"] == "application/problem+json"
    if shape is load_balancer_multi:
        assert answer["multiValueHeaders"]["content-type"]


def whole(**changes: Any) -> Event:
    event = http_event("POST", "/v1/effects", "{}")
    return {**event, **changes}


@pytest.mark.parametrize("function", ["submit", "mcp"])
@pytest.mark.parametrize(
    "event",
    [
        {"requestContext": {}},
        {"requestContext": {"http": None}},
        {"requestContext": {}, "Records": [{}]},
        {"requestContext": {}, "version": "2.0"},
        {"requestContext": {"elb": {}}},
        {"requestContext": {}, "resource": "/", "httpMethod": "GET"},
        whole(body=5),
        whole(body={"a": 1}),
        whole(body={}),
        whole(body=["a"]),
        whole(body="a", isBase64Encoded=True),
        whole(headers=None),
        whole(headers={"authorization": None}),
        whole(headers={"authorization": 5}),
        whole(headers={"host": "a:b"}),
        whole(rawQueryString=None),
        whole(rawQueryString="\ud800"),
        whole(cookies=[5]),
        whole(requestContext={"http": {"method": 5, "path": "/", "sourceIp": ""}}),
        whole(requestContext={"http": {"method": [], "path": "/", "sourceIp": ""}}),
        whole(requestContext={"http": {"method": "GET", "path": 5, "sourceIp": ""}}),
    ],
)
def test_event_that_no_gateway_sends_is_a_bad_request_and_no_defect(
    lambdas: Lambdas, function: str, event: Event, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = lambdas.invoke(function, event)
    assert answer["statusCode"] == 400
    assert json.loads(answer["body"])["code"] == "invalid_request"
    assert '"ERROR"' not in capsys.readouterr().err


@pytest.mark.parametrize("event", [None, 5, "x", [], {}, {"operation": "submit"}])
def test_mcp_answers_what_is_no_request_at_all_as_a_bad_one(
    lambdas: Lambdas, event: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lambdas.invoke("mcp", event)["statusCode"] == 400
    assert '"ERROR"' not in capsys.readouterr().err
