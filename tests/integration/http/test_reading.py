"""Reading an effect: its detail, history, receipt and place in a list."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from effect_broker.client.answers import Effect
from effect_broker.surfaces.cli.effects_telling import print_effect
from effect_broker.surfaces.mcp.answers import effect_result
from effect_broker.surfaces.telling import effect_answer
from tests.guarantees import guarantee
from tests.integration.broker.holding import HoldingAdapters, RaisingAdapters
from tests.integration.broker.world import contract
from tests.integration.http.api import KEY, Api, assert_problem

WORDS_THAT_MEAN_FAILED = re.compile(
    r"fail|error|reject|declin|abort|cancel|refus|unsuccess|did not happen|not done", re.I
)


async def read(api: Api, effect_id: str, path: str = "") -> Any:
    answer = await api.agent.get(f"/v1/effects/{effect_id}{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def listed(api: Api, query: str = "") -> list[str]:
    answer = await api.agent.get(f"/v1/effects{query}")
    assert answer.status_code == 200, answer.text
    return [effect["operation_key"] for effect in answer.json()["effects"]]


async def test_detail_tells_history_attempts_and_a_masked_preview(api: Api) -> None:
    effect_id = await api.settled()
    answer = await api.agent.get(f"/v1/effects/{effect_id}")
    body = answer.json()
    assert answer.headers["etag"] == f'"{body["version"]}"'
    assert [event["type"] for event in body["history"]] == [
        "EffectReserved",
        "AttemptStarted",
        "ReceiptRecorded",
    ]
    assert [event["sequence"] for event in body["history"]] == [1, 2, 3]
    (attempt,) = body["attempts"]
    assert (attempt["ordinal"], attempt["outcome"]) == (1, "committed")
    assert attempt["send_deadline"] > attempt["started_at"]
    assert "100" not in str(body["arguments_preview"])
    assert [step["action"] for step in body["next"]] == ["get_receipt"]


@guarantee("lost-answer-is-unknown")
async def test_unknown_outcome_is_a_plain_answer_that_claims_nothing(api: Api) -> None:
    effect_id = await api.settled(KEY, "lose_answer")
    body = await read(api, effect_id)
    assert (body["status"], body["unknown"]) == ("outcome_unknown", True)
    assert not body["terminal"]
    assert [step["action"] for step in body["next"]] == [
        "request_reconciliation",
        "resolve",
    ]
    assert body["deadlines"]["resolvable_after"] > body["updated_at"]
    replay = await api.submit()
    page = await api.agent.get("/v1/effects?status=outcome_unknown")
    for text in (str(body), replay.text, page.text):
        assert not WORDS_THAT_MEAN_FAILED.search(text.replace("failed_final", "")), text


async def answer_lost(api: Api) -> str:
    return await api.settled(KEY, "lose_answer")


async def lease_ended(api: Api) -> str:
    effect_id = await api.effect_id()
    holding = HoldingAdapters(api.world.adapters, after_answer=True)
    held = asyncio.create_task(api.world.dispatcher(adapters=holding).run_once())
    await holding.reached.wait()
    held.cancel()
    await asyncio.gather(held, return_exceptions=True)
    await api.world.let_pass(60)
    await api.world.sweeper.run_once()
    return effect_id


async def adapter_broke(api: Api) -> str:
    effect_id = await api.effect_id()
    raising = RaisingAdapters(api.world.adapters, OSError("gone"))
    await api.world.dispatcher(adapters=raising).run_once()
    return effect_id


async def contract_violated(api: Api) -> str:
    return await api.settled(KEY, "key_conflict")


async def nothing_left_to_try(api: Api) -> str:
    await api.world.registry.publish(contract(version="2", key_records="successes"))
    effect_id = await api.settled(KEY, "hide_commit")
    await api.world.settle()
    return effect_id


async def earlier_attempt_unproved(api: Api) -> str:
    effect_id = await api.settled(KEY, "lose_request", "not_executed")
    await api.world.let_pass(60)
    await api.world.reconciler().run_once()
    await api.world.dispatcher().run_once()
    return effect_id


@guarantee("lost-answer-is-unknown")
@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (answer_lost, "outcome_unknown"),
        (lease_ended, "outcome_unknown"),
        (adapter_broke, "outcome_unknown"),
        (contract_violated, "manual_review"),
        (nothing_left_to_try, "manual_review"),
        (earlier_attempt_unproved, "outcome_unknown"),
    ],
)
async def test_ambiguous_ending_is_told_by_no_surface_as_a_failure(
    api: Api,
    capsys: pytest.CaptureFixture[str],
    ending: Callable[[Api], Awaitable[str]],
    status: str,
) -> None:
    effect_id = await ending(api)
    body = await read(api, effect_id)
    assert (body["status"], body["unknown"], body["terminal"]) == (status, True, False)
    told = Effect.of(body)
    view = await api.world.broker.get(api.world.tenant.tenant_id, UUID(effect_id))
    answer = effect_answer(view)
    print_effect("acme", answer, as_json=False)
    texts = {
        "http": body["outcome"],
        "replay": (await api.submit()).json()["outcome"],
        "mcp": effect_result(answer).advice.replace("neither done nor failed", ""),
        "cli": capsys.readouterr().out,
        "client": f"{told.status} {told.outcome}",
    }
    for surface, text in texts.items():
        assert text
        assert not WORDS_THAT_MEAN_FAILED.search(text), (surface, text)


async def test_running_effect_is_a_plain_answer_that_claims_nothing(api: Api) -> None:
    effect_id = await api.effect_id()
    text = (await api.agent.get(f"/v1/effects/{effect_id}")).text
    assert not WORDS_THAT_MEAN_FAILED.search(text), text


async def test_receipt_is_the_same_bytes_each_time(api: Api) -> None:
    effect_id = await api.settled()
    first = await api.agent.get(f"/v1/effects/{effect_id}/receipt")
    again = await api.agent.get(f"/v1/effects/{effect_id}/receipt")
    assert first.status_code == 200
    assert first.content == again.content
    assert first.json()["kind"] == "succeeded"
    assert len(api.world.target.requests) == 1


async def test_receipt_that_is_not_there_yet_says_where_the_effect_stands(
    api: Api,
) -> None:
    effect_id = await api.effect_id()
    answer = await api.agent.get(f"/v1/effects/{effect_id}/receipt")
    document = assert_problem(answer, 404, "receipt_not_found")
    assert (document["effect_id"], document["effect_status"]) == (effect_id, "prepared")


async def test_history_folds_to_a_point_and_compares_two(api: Api) -> None:
    effect_id = await api.settled()
    whole = await read(api, effect_id, "/history")
    assert (whole["state"]["status"], len(whole["events"])) == ("succeeded", 3)
    assert whole["difference"] is None
    then = await read(api, effect_id, "/history?at_sequence=2&compare_to=3")
    assert (then["state"]["status"], len(then["events"])) == ("dispatching", 2)
    assert then["compared_to"]["status"] == "succeeded"
    assert then["difference"]["status"] == ["dispatching", "succeeded"]
    assert "attempts" not in then["difference"]


async def test_point_that_the_history_does_not_have_is_not_found(api: Api) -> None:
    effect_id = await api.effect_id()
    answer = await api.agent.get(f"/v1/effects/{effect_id}/history?at_sequence=9")
    assert_problem(answer, 404, "effect_not_found")
    for query in ("at_sequence=0", "at_sequence=x", "at_seq=1"):
        answer = await api.agent.get(f"/v1/effects/{effect_id}/history?{query}")
        assert_problem(answer, 400, "invalid_request")


async def test_pages_are_newest_first_and_cover_each_effect_once(api: Api) -> None:
    keys = [f"order:{number}:charge:v1" for number in range(5)]
    for key in keys:
        await api.effect_id(key)
    seen: list[str] = []
    query = "?limit=2"
    sizes = []
    while True:
        page = (await api.agent.get(f"/v1/effects{query}")).json()
        seen += [effect["operation_key"] for effect in page["effects"]]
        sizes.append(len(page["effects"]))
        if page["next_cursor"] is None:
            break
        query = f"?limit=2&cursor={page['next_cursor']}"
    assert seen == keys[::-1]
    assert sizes == [2, 2, 1]


async def test_page_that_ends_exactly_has_no_cursor(api: Api) -> None:
    await api.effect_id()
    page = (await api.agent.get("/v1/effects?limit=1")).json()
    assert page["next_cursor"] is None


async def test_filters_narrow_the_list(api: Api) -> None:
    await api.settled("order:1:charge:v1")
    await api.settled("order:2:charge:v1", "lose_answer")
    await api.effect_id("refund:3:pay:v1")
    assert await listed(api, "?status=succeeded") == ["order:1:charge:v1"]
    assert await listed(api, "?status=outcome_unknown") == ["order:2:charge:v1"]
    assert await listed(api, "?operation_prefix=refund:") == ["refund:3:pay:v1"]
    assert await listed(api, "?operation_prefix=%25") == []
    assert await listed(api, "?tool=other") == []
    assert len(await listed(api, "?tool=sim.charge")) == 3
    assert await listed(api, "?older_than=1h") == []
    assert len(await listed(api, "?older_than=0s")) == 3


async def test_effect_that_goes_again_unproved_is_still_listed_as_unknown(
    api: Api,
) -> None:
    effect_id = await api.settled(KEY, "lose_answer")
    await api.world.let_pass(2)
    await api.world.reconciler().run_once()
    body = await read(api, effect_id)
    assert (body["status"], body["unknown"]) == ("prepared", True)
    assert "may have acted" in body["outcome"]
    assert await listed(api, "?status=outcome_unknown") == [KEY]


async def test_misspelt_or_impossible_filters_are_refused_not_ignored(api: Api) -> None:
    for query in (
        "state=prepared",
        "status=failed",
        "limit=0",
        "limit=1000",
        "limit=x",
        "cursor=zzz",
        "older_than=5",
        "tool=%00",
        "operation_prefix=",
    ):
        answer = await api.agent.get(f"/v1/effects?{query}")
        assert_problem(answer, 400, "invalid_request")


async def test_tools_tell_schema_class_and_guarantee(api: Api) -> None:
    (tool,) = (await api.agent.get("/v1/tools")).json()["tools"]
    assert tool["tool"] == "sim.charge"
    assert tool["arguments"]["required"] == ["amount"]
    assert tool["contract"]["safety"] == "idempotent"
    assert "one observable effect" in tool["contract"]["guarantee"]
