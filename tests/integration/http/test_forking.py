"""Forks over HTTP: simulated from what is on record, live only by who may operate."""

from __future__ import annotations

import pytest

from tests.guarantees import guarantee
from tests.integration.http.api import Api, assert_problem

NOBODYS = "0198c0de-0000-7000-8000-000000000001"


@guarantee("replay-cannot-send")
async def test_simulated_fork_goes_on_with_recorded_answers_and_sends_nothing(
    api: Api,
) -> None:
    """C53: a reader may simulate, since nothing is written and no target is reached."""
    effect_id = await api.settled()
    sent = len(api.world.target.requests)
    answer = await api.reader.post(
        f"/v1/effects/{effect_id}/fork", json={"at_sequence": 1}
    )
    told = answer.json()
    assert answer.status_code == 200
    assert told["start"]["status"] == "prepared"
    assert [event["type"] for event in told["recorded"]] == [
        "AttemptStarted",
        "ReceiptRecorded",
    ]
    assert (told["end"]["status"], told["receipt"]["kind"]) == ("succeeded", "succeeded")
    assert len(api.world.target.requests) == sent
    assert len((await api.agent.get("/v1/effects")).json()["effects"]) == 1


async def test_live_fork_reserves_the_payload_under_a_key_of_its_own(api: Api) -> None:
    effect_id = await api.settled()
    path = f"/v1/effects/{effect_id}/fork"
    body = {"live": True, "operation_key": "order:1:charge:v2"}
    answer = await api.operator.post(path, json=body)
    made = answer.json()
    assert (answer.status_code, made["replayed"]) == (202, False)
    assert made["effect_id"] != effect_id
    assert answer.headers["location"] == f"/v1/effects/{made['effect_id']}"
    assert made["requested_by"].startswith("key:")
    again = await api.operator.post(path, json=body)
    assert (again.status_code, again.json()["effect_id"]) == (200, made["effect_id"])
    own = {"live": True, "operation_key": "order:1:charge:v1"}
    assert_problem(await api.operator.post(path, json=own), 400, "invalid_operation_key")


async def test_agents_key_never_forks_live(api: Api) -> None:
    effect_id = await api.settled()
    body = {"live": True, "operation_key": "order:1:charge:v2"}
    for caller in (api.agent, api.reader):
        answer = await caller.post(f"/v1/effects/{effect_id}/fork", json=body)
        assert assert_problem(answer, 403, "forbidden")["scope"] == "operate"
    assert len((await api.agent.get("/v1/effects")).json()["effects"]) == 1


@guarantee("tenant-from-credential")
async def test_another_tenants_effect_is_not_forked(api: Api) -> None:
    effect_id = await api.settled()
    for body in ({"at_sequence": 1}, {"live": True, "operation_key": "order:9:charge"}):
        answer = await api.stranger.post(f"/v1/effects/{effect_id}/fork", json=body)
        assert_problem(answer, 404, "effect_not_found")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"at_sequence": 0}, 400),
        ({"at_sequence": True}, 400),
        ({"at_sequence": 9}, 404),
        ({"at_sequence": 1, "operation_key": "order:9:charge"}, 400),
        ({"at_sequence": 1, "live": True, "operation_key": "order:9:charge"}, 400),
        ({"live": True}, 400),
        ({"live": "yes", "operation_key": "order:9:charge"}, 400),
        ({"at_sequence": 1, "more": 1}, 400),
    ],
)
async def test_fork_is_one_of_the_two_and_nothing_else(
    api: Api, body: object, status: int
) -> None:
    effect_id = await api.settled()
    answer = await api.operator.post(f"/v1/effects/{effect_id}/fork", json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
