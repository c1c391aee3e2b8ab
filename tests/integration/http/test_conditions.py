"""What a request asks beside its body: for which version, how often, how long, whence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from httpx2 import ASGITransport, AsyncClient

from effect_broker.surfaces.http_api import HttpParts, create_app
from effect_broker.surfaces.limiting import Rate, RateLimiter
from tests.integration.http.api import Api, assert_problem, charge
from tests.integration.http.test_operating import finding, unknown


async def resolved(api: Api, effect: dict[str, Any], tag: str, **changes: Any) -> Any:
    return await api.operator.post(
        f"/v1/effects/{effect['effect_id']}/resolve",
        json=finding(effect, **changes),
        headers={"If-Match": tag},
    )


async def test_finding_meant_for_a_stale_version_is_412_and_changes_nothing(
    api: Api,
) -> None:
    effect = await unknown(api)
    for changes in ({}, {"expected_version": 2}):
        answer = await resolved(api, effect, '"2"', **changes)
        document = assert_problem(answer, 412, "precondition_failed")
        assert document["version"] == effect["version"]
    assert await api.status(effect["effect_id"]) == "outcome_unknown"
    stale = await resolved(api, effect, f'"{effect["version"]}"', expected_version=1)
    assert_problem(stale, 409, "version_conflict")


async def test_finding_for_the_version_that_was_read_is_recorded_and_repeatable(
    api: Api,
) -> None:
    effect = await unknown(api)
    read = await api.operator.get(f"/v1/effects/{effect['effect_id']}")
    tag = read.headers["etag"]
    first = await resolved(api, effect, tag)
    assert (first.status_code, first.json()["status"]) == (200, "succeeded")
    again = await resolved(api, effect, tag)
    assert again.status_code == 200
    assert again.headers["etag"] == first.headers["etag"] != tag


async def test_compensation_meant_for_a_stale_version_is_412(api: Api) -> None:
    done, refund = await api.settled("order:1:charge"), await api.settled("order:1:back")
    path = f"/v1/effects/{done}/compensation"
    body = {"compensated_by": refund, "reason": "cancelled"}
    for tag in ('"2"', 'W/"3"', '"1", "2"', '"x"'):
        answer = await api.operator.post(path, json=body, headers={"If-Match": tag})
        assert_problem(answer, 412, "precondition_failed")
    assert await api.status(done) == "succeeded"
    answer = await api.operator.post(path, json=body, headers={"If-Match": "3"})
    assert_problem(answer, 400, "invalid_request")
    for _ in range(2):
        answer = await api.operator.post(path, json=body, headers={"If-Match": '"3"'})
        assert (answer.status_code, answer.headers["etag"]) == (200, '"4"')


def limited(api: Api, rate: Rate) -> AsyncClient:
    parts: HttpParts = api.app.state.parts
    app = create_app(replace(parts, limiter=RateLimiter(rate)))
    return AsyncClient(transport=ASGITransport(app), base_url="http://api")


async def test_key_that_asks_too_often_is_429_and_others_are_not(api: Api) -> None:
    caller = limited(api, Rate(0.1, 2))
    agent = {"Authorization": api.agent.headers["authorization"]}
    reader = {"Authorization": api.reader.headers["authorization"]}
    for number in range(2):
        body = charge(f"order:{number}:charge:v1")
        answer = await caller.post("/v1/effects", json=body, headers=agent)
        assert answer.status_code == 202
    body = charge("order:2:charge:v1")
    answer = await caller.post("/v1/effects", json=body, headers=agent)
    document = assert_problem(answer, 429, "rate_limited")
    assert 1 <= int(answer.headers["retry-after"]) <= 10
    assert document["safe_to_repeat"] is True
    assert (await caller.get("/v1/effects", headers=reader)).status_code == 200
    page = (await api.agent.get("/v1/effects")).json()
    assert len(page["effects"]) == 2


async def test_wrong_keys_use_up_nobodys_rate_and_probes_have_none(api: Api) -> None:
    caller = limited(api, Rate(0.1, 1))
    for _ in range(5):
        wrong = {"Authorization": "Bearer ebk_" + "0" * 16 + "_" + "0" * 64}
        assert (await caller.get("/v1/tools", headers=wrong)).status_code == 401
        assert (await caller.get("/healthz")).status_code == 200
    agent = {"Authorization": api.agent.headers["authorization"]}
    assert (await caller.get("/v1/tools", headers=agent)).status_code == 200


PREFLIGHT = {
    "Origin": "https://console.example",
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
}


async def test_no_origin_may_call_unless_it_is_named(api: Api) -> None:
    answer = await api.agent.options("/v1/effects", headers=PREFLIGHT)
    assert_problem(answer, 405, "method_not_allowed")
    plain = await api.agent.get("/v1/tools", headers={"Origin": PREFLIGHT["Origin"]})
    assert not [it for it in plain.headers if it.startswith("access-control-")]


async def test_named_origin_may_call_and_read_the_tags(api: Api) -> None:
    parts: HttpParts = api.app.state.parts
    app = create_app(replace(parts, cors_origins=("https://console.example",)))
    caller = AsyncClient(transport=ASGITransport(app), base_url="http://api")
    asked = await caller.options("/v1/effects", headers=PREFLIGHT)
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == "https://console.example"
    assert "access-control-allow-credentials" not in asked.headers
    key = {"Authorization": api.agent.headers["authorization"]}
    called = await caller.get("/v1/tools", headers={**key, "Origin": PREFLIGHT["Origin"]})
    assert "ETag" in called.headers["access-control-expose-headers"]
    refused = await caller.options(
        "/v1/effects", headers={**PREFLIGHT, "Origin": "https://evil.example"}
    )
    assert_problem(refused, 400, "invalid_request")
    assert "access-control-allow-origin" not in refused.headers


async def test_reading_waits_for_the_end_if_asked_to(api: Api) -> None:
    effect_id = await api.settled()
    answer = await api.agent.get(
        f"/v1/effects/{effect_id}", headers={"Prefer": "wait=20"}
    )
    assert answer.headers["preference-applied"] == "wait=20"
    assert answer.json()["terminal"] is True
    waiting = await api.effect_id("order:2:charge:v1")
    answer = await api.agent.get(f"/v1/effects/{waiting}", headers={"Prefer": "wait=0"})
    assert answer.json()["status"] == "prepared"


@pytest.mark.parametrize("value", ["wait=x", "respond-async", "wait"])
async def test_preference_that_cannot_be_read_is_not_applied(
    api: Api, value: str
) -> None:
    effect_id = await api.effect_id()
    answer = await api.agent.get(f"/v1/effects/{effect_id}", headers={"Prefer": value})
    assert answer.status_code == 200
    assert "preference-applied" not in answer.headers
