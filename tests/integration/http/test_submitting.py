"""POST /v1/effects: new, replay, drift, and what is refused before a row exists."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from httpx2 import Response

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.domain.status import EffectStatus
from effect_broker.ports import EffectQuery
from effect_broker.surfaces.requests import BODY_BYTES_MAX
from tests.guarantees import guarantee
from tests.integration.broker.holding import HoldingAdapters
from tests.integration.broker.test_interruptions import LosingLedger
from tests.integration.broker.world import contract
from tests.integration.http.api import KEY, Api, assert_problem, charge

_S = EffectStatus


async def rows(api: Api) -> int:
    return len(await api.world.ledger.page(api.world.tenant.tenant_id, EffectQuery()))


async def test_new_effect_is_202_with_where_to_look_and_when(api: Api) -> None:
    answer = await api.submit(requested_by="checkout", trace_id="t-1")
    body = answer.json()
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/v1/effects/{body['effect_id']}"
    assert answer.headers["etag"] == '"1"'
    assert int(answer.headers["retry-after"]) > 0
    assert "preference-applied" not in answer.headers
    assert (body["status"], body["version"], body["replayed"]) == ("prepared", 1, False)
    assert (body["operation_key"], body["tool"]) == (KEY, "sim.charge")
    assert (body["requested_by"], body["trace_id"]) == ("checkout", "t-1")
    assert body["contract"]["safety"] == "idempotent"
    assert body["contract"]["guarantee"]
    assert len(bytes.fromhex(body["request_hash"])) == 32
    assert body["deadlines"]["submit_until"] > body["created_at"]
    assert [step["action"] for step in body["next"]] == ["wait"]
    assert body["first_recorded_at"] == body["created_at"]
    assert body["receipt"] is None


async def test_answer_of_a_new_effect_is_what_reading_it_tells(api: Api) -> None:
    told = (await api.submit()).json()
    read = (await api.agent.get(f"/v1/effects/{told['effect_id']}")).json()
    for name in ("replayed", "first_recorded_at", "receipt"):
        del told[name]
    for name in ("history", "attempts", "arguments_preview"):
        del read[name]
    assert told["deadlines"].keys() == read["deadlines"].keys()
    for when in ("submit_until", "next_step_at"):
        assert told["deadlines"].pop(when)[:19] == read["deadlines"].pop(when)[:19]
    assert told == {**read, "reason": told["reason"]}


@guarantee("replay-answers-the-same")
async def test_same_request_again_is_a_replay_that_says_since_when(api: Api) -> None:
    first = (await api.submit()).json()
    answer = await api.submit()
    again = answer.json()
    assert answer.status_code == 200
    assert again["replayed"] is True
    assert again["effect_id"] == first["effect_id"]
    assert again["first_recorded_at"] == first["created_at"]
    assert await rows(api) == 1


async def test_replay_of_a_settled_effect_carries_its_receipt(api: Api) -> None:
    effect_id = await api.settled()
    answer = await api.submit()
    body = answer.json()
    receipt = (await api.agent.get(f"/v1/effects/{effect_id}/receipt")).json()
    assert (body["status"], body["terminal"]) == ("succeeded", True)
    assert body["receipt"] == receipt
    assert "retry-after" not in answer.headers


async def test_requester_and_trace_are_no_part_of_the_binding(api: Api) -> None:
    await api.submit(requested_by="a", trace_id="1")
    again = await api.submit(requested_by="b", trace_id="2")
    assert again.status_code == 200
    assert (again.json()["requested_by"], again.json()["trace_id"]) == ("a", "1")


ACTS = {
    _S.RETRYABLE: ["not_executed"],
    _S.OUTCOME_UNKNOWN: ["lose_answer"],
    _S.SUCCEEDED: ["commit"],
    _S.FAILED_FINAL: ["reject_final"],
    _S.MANUAL_REVIEW: ["key_conflict"],
}


@asynccontextmanager
async def standing(api: Api, status: EffectStatus) -> AsyncIterator[str]:
    """Yield the id of a charge that stands there."""
    world = api.world
    holding = HoldingAdapters(world.adapters, after_answer=False)
    held: asyncio.Task[Any] | None = None
    match status:
        case _S.DISPATCHING:
            effect_id = await api.effect_id()
            held = asyncio.create_task(world.dispatcher(adapters=holding).run_once())
        case _S.RECONCILING:
            await world.registry.publish(contract("reconcilable", version="2"))
            effect_id = await api.settled(KEY, "lose_answer")
            await world.let_pass(60)
            held = asyncio.create_task(world.reconciler(adapters=holding).run_once())
        case _S.COMPENSATED:
            effect_id = await api.settled(KEY, "commit")
            refund = await api.settled("order:1:refund:v1", "commit")
            body = {"compensated_by": refund, "reason": "It was cancelled."}
            path = f"/v1/effects/{effect_id}/compensation"
            assert (await api.operator.post(path, json=body)).status_code == 200
        case _S.PREPARED:
            effect_id = await api.effect_id()
        case _:
            effect_id = await api.settled(KEY, *ACTS[status])
    if held is not None:
        await holding.reached.wait()
    yield effect_id
    if held is not None:
        holding.go.set()
        await held


@pytest.mark.parametrize("status", list(_S), ids=str)
@guarantee("drift-is-refused")
async def test_drift_is_409_and_equality_200_wherever_the_effect_stands(
    api: Api, status: EffectStatus
) -> None:
    async with standing(api, status) as effect_id, Api.over(api.world) as cold:
        assert await api.status(effect_id) == status
        before = await rows(api)
        for process in (api, cold):
            answer = await process.submit(amount=987_654_321)
            document = assert_problem(answer, 409, "payload_drift")
            assert document["effect_id"] == effect_id
            assert document["effect_status"] == status
            assert document["differing_fields"] == ["amount"]
            assert "987654321" not in json.dumps(document)
            same = await process.submit()
            assert (same.status_code, same.json()["status"]) == (200, status)
        assert await rows(api) == before


@guarantee("drift-is-refused")
async def test_reworded_reason_is_409_that_names_it_and_sends_nothing(api: Api) -> None:
    """C23: free text is part of the intent unless the contract leaves it out."""
    text = {"type": "string"}
    properties = {"amount": {"type": "integer"}, "reason": text}
    schema = {"type": "object", "properties": properties, "required": ["amount"]}
    await api.world.registry.publish(contract(version="2", arguments=schema))

    async def submit(reason: str) -> Response:
        body = {**charge(), "arguments": {"amount": 100, "reason": reason}}
        return await api.agent.post("/v1/effects", json=body)

    effect_id = (await submit("the parcel was lost")).json()["effect_id"]
    await api.world.dispatcher().run_once()
    nudged = len(api.world.nudger.dispatches)
    document = assert_problem(await submit("parcel lost"), 409, "payload_drift")
    assert document["effect_id"] == effect_id
    assert document["effect_status"] == "succeeded"
    assert document["differing_fields"] == ["reason"]
    assert "parcel" not in json.dumps(document)
    await api.world.dispatcher().run_once()
    assert len(api.world.nudger.dispatches) == nudged
    assert len(api.world.target.requests) == await rows(api) == 1


@guarantee("replay-answers-the-same")
async def test_repeat_of_an_effect_whose_worker_died_is_200_and_one_charge(
    api: Api,
) -> None:
    """C34: died after its request and before any record; the repeat is no conflict."""
    effect_id = await api.effect_id()
    dead = LosingLedger(api.world.ledger, losses=float("inf"))
    with pytest.raises(LedgerUnavailable):
        await api.world.dispatcher(ledger=dead).run_once()
    again = await api.submit()
    body = again.json()
    assert (again.status_code, body["status"]) == (200, "dispatching")
    assert (body["effect_id"], body["replayed"]) == (effect_id, True)
    await api.world.let_pass(31)
    await api.world.sweeper.run_once()
    assert await api.status(effect_id) == "outcome_unknown"
    await api.world.settle()
    last = (await api.submit()).json()
    assert (last["effect_id"], last["status"]) == (effect_id, "succeeded")
    assert len(api.world.target.objects) == 1


async def test_other_tool_under_the_same_key_is_drift_even_if_nobody_knows_it(
    api: Api,
) -> None:
    await api.submit()
    document = assert_problem(await api.submit(tool="gone"), 409, "payload_drift")
    assert document["differing_fields"] == ["tool"]


@guarantee("replay-answers-the-same")
async def test_identical_retry_after_a_contract_deploy_is_a_replay(api: Api) -> None:
    first = (await api.submit()).json()
    await api.world.registry.publish(contract(version="2"))
    again = await api.submit()
    assert again.status_code == 200
    assert again.json()["contract"] == first["contract"]
    assert_problem(await api.submit(amount=2), 409, "payload_drift")


@guarantee("one-intent-per-key")
async def test_many_at_once_under_one_key_make_one_effect_and_all_get_an_answer(
    api: Api,
) -> None:
    answers = await asyncio.gather(*(api.submit() for _ in range(40)))
    assert sorted(answer.status_code for answer in answers) == [200] * 39 + [202]
    assert len({answer.json()["effect_id"] for answer in answers}) == 1
    assert await rows(api) == 1


async def test_more_callers_than_connections_all_get_a_row_and_an_answer(
    api: Api,
) -> None:
    answers = await asyncio.gather(
        *(api.submit(f"order:{number}:charge:v1") for number in range(200))
    )
    assert {answer.status_code for answer in answers} == {202}
    ids = {answer.json()["effect_id"] for answer in answers}
    assert len(ids) == 200
    assert {await api.status(effect_id) for effect_id in ids} == {"prepared"}


async def test_wait_holds_the_answer_until_the_effect_is_settled(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    nudged = asyncio.Event()

    async def nudge(*_: object) -> None:
        nudged.set()

    async def settle() -> None:
        await nudged.wait()
        await api.world.dispatcher().run_once()

    monkeypatch.setattr(api.world.nudger, "dispatch", nudge)

    answer, _ = await asyncio.gather(
        api.agent.post("/v1/effects", json=charge(), headers={"Prefer": "wait=20"}),
        settle(),
    )
    body = answer.json()
    assert answer.status_code == 202
    assert answer.headers["preference-applied"] == "wait=20"
    assert (body["status"], body["replayed"]) == ("succeeded", False)
    assert body["receipt"]["kind"] == "succeeded"


async def test_wait_that_runs_out_answers_with_what_stands(api: Api) -> None:
    answer = await api.agent.post(
        "/v1/effects", json=charge(), headers={"Prefer": "wait=0"}
    )
    assert answer.headers["preference-applied"] == "wait=0"
    assert answer.json()["status"] == "prepared"


async def test_wait_is_capped_and_tells_so(api: Api) -> None:
    await api.settled()
    answer = await api.agent.post(
        "/v1/effects", json=charge(), headers={"Prefer": "wait=600"}
    )
    assert answer.headers["preference-applied"] == "wait=20"


REFUSED_BYTES = [
    (b'{"amount":1,"amount":100}', "invalid_json"),
    (b'{"amount":NaN}', "invalid_json"),
    (b'{"amount":-Infinity}', "invalid_json"),
    (b'{"amount":1e400}', "invalid_json"),
    (b'{"amount":9007199254740993}', "invalid_json"),
    (b'{"amount":1,"note":"\\ud800"}', "invalid_json"),
    (b'{"amount":1,"\\udfff":1}', "invalid_json"),
    (b'{"amount":1,"note":"\xff"}', "invalid_json"),
    (b'{"amount":1} trailing', "invalid_json"),
    (b"[" * 100 + b"]" * 100, "invalid_json"),
    (b'{"amount":"1"}', "invalid_arguments"),
    (b'{"amount":1.5}', "invalid_arguments"),
    (b"{}", "invalid_arguments"),
    (b'"{}"', "invalid_request"),
]


async def test_arguments_that_parsers_read_differently_store_nothing(api: Api) -> None:
    for arguments, code in REFUSED_BYTES:
        body = (
            b'{"operation_key":"order:1:charge:v1","tool":"sim.charge","arguments":'
            + arguments
            + b"}"
        )
        answer = await api.agent.post(
            "/v1/effects", content=body, headers={"Content-Type": "application/json"}
        )
        assert_problem(answer, 400, code)
    assert await rows(api) == 0


async def test_invalid_arguments_name_places_and_no_values(api: Api) -> None:
    answer = await api.agent.post(
        "/v1/effects", json={**charge(), "arguments": {"amount": "canary"}}
    )
    document = assert_problem(answer, 400, "invalid_arguments")
    assert any("/amount" in pointer for pointer in document["pointers"])
    assert "canary" not in answer.text


ACCEPTED_KEYS = ["a", "A", "order:1", "a b", "x" * 255, "x~!@#$%^&*()_+|"]
REFUSED_KEYS = [
    "",
    " ",
    "a ",
    " a",
    "\u0410",  # a Cyrillic capital that looks like A
    "x" * 256,
    "x" * 300,
    "a\nb",
    "a\x00",
    "a\x7f",
    "é",
    "null",
    "undefined",
    "{order_id}",
]


async def test_operation_keys_outside_the_documented_set_are_refused(api: Api) -> None:
    for key in REFUSED_KEYS:
        assert_problem(await api.submit(key), 400, "invalid_operation_key")
    assert await rows(api) == 0


async def test_accepted_operation_keys_are_distinct_and_untouched(api: Api) -> None:
    answers = [await api.submit(key) for key in ACCEPTED_KEYS]
    assert [answer.status_code for answer in answers] == [202] * len(ACCEPTED_KEYS)
    assert [answer.json()["operation_key"] for answer in answers] == ACCEPTED_KEYS
    assert len({answer.json()["effect_id"] for answer in answers}) == len(ACCEPTED_KEYS)


async def test_missing_key_unknown_tool_and_disabled_tenant_have_stable_codes(
    api: Api,
) -> None:
    keyless = charge()
    del keyless["operation_key"]
    answer = await api.agent.post("/v1/effects", json=keyless)
    assert_problem(answer, 400, "invalid_operation_key")
    assert_problem(await api.submit(tool="nobody.knows"), 404, "unknown_tool")
    await api.world.registry.set_disabled(api.world.tenant.tenant_id, True)
    assert_problem(await api.submit(), 403, "forbidden")
    async with Api.over(api.world) as restarted:
        assert_problem(await restarted.submit(), 401, "unauthenticated")


async def test_unknown_fields_are_named(api: Api) -> None:
    document = assert_problem(await api.submit(task_token="t"), 400, "invalid_request")
    assert list(document["fields"]) == ['"task_token"']


async def test_body_limit_counts_decoded_bytes(api: Api) -> None:
    note = "x" * BODY_BYTES_MAX
    assert_problem(await api.submit(requested_by=note), 413, "request_too_large")
    headers = {"Content-Type": "application/json"}

    async def chunks() -> AsyncIterator[bytes]:  # no Content-Length
        for _ in range(5):
            yield b" " * (BODY_BYTES_MAX // 4)

    answer = await api.agent.post("/v1/effects", content=chunks(), headers=headers)
    assert_problem(answer, 413, "request_too_large")
    fits = json.dumps(charge()).encode()
    padded = fits + b" " * (BODY_BYTES_MAX - len(fits))
    answer = await api.agent.post("/v1/effects", content=padded, headers=headers)
    assert answer.status_code == 202


NOT_PLAIN_JSON = [
    {"Content-Type": "text/plain"},
    {"Content-Type": "application/x-www-form-urlencoded"},
    {"Content-Type": "application/json; charset=latin-1"},
    {"Content-Type": "application/json", "Content-Encoding": "gzip"},
]


async def test_body_that_is_not_plain_json_is_415(api: Api) -> None:
    content = json.dumps(charge()).encode()
    for headers in NOT_PLAIN_JSON:
        answer = await api.agent.post("/v1/effects", content=content, headers=headers)
        assert_problem(answer, 415, "unsupported_media_type")


async def test_json_with_a_utf8_charset_or_a_json_suffix_is_read(api: Api) -> None:
    content = json.dumps(charge()).encode()
    for media_type in ("application/json; charset=UTF-8", "application/cloud+json"):
        answer = await api.agent.post(
            "/v1/effects", content=content, headers={"Content-Type": media_type}
        )
        assert answer.status_code in (200, 202)
