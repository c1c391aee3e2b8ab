"""What another tenant owns is not found, whatever is guessed (design rule 13)."""

from __future__ import annotations

import pytest

from tests.guarantees import guarantee
from tests.integration.http.api import KEY, Api, assert_problem, charge

ROUTES = [
    ("GET", "", None),
    ("GET", "/history", None),
    ("GET", "/receipt", None),
    ("POST", "/reconcile", {}),
    ("POST", "/fork", {"at_sequence": 1}),
    ("POST", "/fork", {"live": True, "operation_key": "order:7:charge:v1"}),
    (
        "POST",
        "/resolve",
        {
            "decision": "committed",
            "reason": "x",
            "evidence": {},
            "expected_version": 3,
            "decision_id": "d",
        },
    ),
]


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
@guarantee("tenant-from-credential")
async def test_guessed_id_of_another_tenant_is_not_found(
    api: Api, method: str, path: str, body: object
) -> None:
    theirs = await api.settled(KEY, "lose_answer")
    nobodys = "0198c0de-0000-7000-8000-000000000001"
    answers = [
        await api.stranger.request(method, f"/v1/effects/{effect_id}{path}", json=body)
        for effect_id in (theirs, nobodys)
    ]
    for answer in answers:
        assert_problem(answer, 404, "effect_not_found")
    told = [answer.text.replace(theirs, "").replace(nobodys, "") for answer in answers]
    assert told[0] == told[1]
    assert await api.status(theirs) == "outcome_unknown"


@guarantee("tenant-from-credential")
async def test_compensation_reaches_across_no_tenant(api: Api) -> None:
    ours = await api.settled("order:1:charge:v1")
    made = await api.stranger.post("/v1/effects", json=charge("order:2:charge:v1"))
    theirs = made.json()["effect_id"]
    await api.world.dispatcher().run_once()
    body = {"compensated_by": theirs, "reason": "x"}
    answer = await api.operator.post(f"/v1/effects/{ours}/compensation", json=body)
    assert_problem(answer, 404, "effect_not_found")
    answer = await api.stranger.post(
        f"/v1/effects/{ours}/compensation", json={**body, "compensated_by": ours}
    )
    assert answer.status_code in (404, 409)
    assert await api.status(ours) == "succeeded"


async def test_equal_keys_of_two_tenants_are_two_effects(api: Api) -> None:
    ours = await api.submit()
    theirs = await api.stranger.post("/v1/effects", json=charge(amount=7))
    assert (ours.status_code, theirs.status_code) == (202, 202)
    assert ours.json()["effect_id"] != theirs.json()["effect_id"]
    assert ours.json()["request_hash"] != theirs.json()["request_hash"]


@guarantee("tenant-from-credential")
async def test_lists_show_the_callers_own_effects_only(api: Api) -> None:
    await api.submit()
    own = await api.stranger.post("/v1/effects", json=charge("order:9:charge:v1"))
    page = (await api.stranger.get("/v1/effects")).json()
    assert [effect["effect_id"] for effect in page["effects"]] == [
        own.json()["effect_id"]
    ]
    assert (await api.stranger.get("/v1/effects?operation_prefix=order:1")).json()[
        "effects"
    ] == []


async def test_no_route_under_v1_answers_without_a_key(api: Api) -> None:
    effect_id = await api.effect_id()
    for method, path, body in [
        *((method, f"/v1/effects/{effect_id}{path}", it) for method, path, it in ROUTES),
        ("POST", f"/v1/effects/{effect_id}/compensation", {}),
        ("POST", "/v1/effects", charge()),
        ("GET", "/v1/effects", None),
        ("GET", "/v1/tools", None),
    ]:
        answer = await api.anonymous.request(method, path, json=body)
        assert_problem(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")
