"""What operators and callers may ask of an effect that waits."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from httpx2 import Response

from tests.guarantees import guarantee
from tests.integration.broker.world import contract
from tests.integration.http.api import KEY, Api, assert_problem


async def unknown(api: Api, key: str = KEY) -> dict[str, Any]:
    effect_id = await api.settled(key, "lose_answer")
    effect: dict[str, Any] = (await api.agent.get(f"/v1/effects/{effect_id}")).json()
    assert effect["status"] == "outcome_unknown"
    return effect


def finding(effect: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "decision": "committed",
        "reason": "It stands in the console.",
        "evidence": {"console": "one charge"},
        "observed_at": effect["updated_at"],
        "expected_version": effect["version"],
        "decision_id": "ticket-1",
        **changes,
    }


async def resolve(api: Api, effect: dict[str, Any], **changes: Any) -> Response:
    return await api.operator.post(
        f"/v1/effects/{effect['effect_id']}/resolve", json=finding(effect, **changes)
    )


async def test_committed_finding_settles_the_effect_with_its_receipt(api: Api) -> None:
    effect = await unknown(api)
    answer = await resolve(api, effect, external_id="ch_9", output={"id": "ch_9"})
    body = answer.json()
    assert answer.status_code == 200
    assert (body["status"], body["decision_id"]) == ("succeeded", "ticket-1")
    assert answer.headers["etag"] == f'"{body["version"]}"'
    receipt = (await api.agent.get(body["links"]["receipt"])).json()
    assert (receipt["source"], receipt["external_id"]) == ("operator", "ch_9")
    assert receipt["output"] == {"id": "ch_9"}
    history = (await api.agent.get(body["links"]["history"])).json()
    assert history["events"][-1]["actor"].startswith("key:")


async def test_same_decision_again_answers_what_it_did(api: Api) -> None:
    effect = await unknown(api)
    first = (await resolve(api, effect)).json()
    again = await resolve(api, effect)
    assert again.status_code == 200
    assert again.json()["decision_version"] == first["decision_version"]
    fresh = await resolve(api, effect, observed_at="2026-01-01T00:00:00Z")
    assert fresh.json()["decision_version"] == first["decision_version"]
    other = await resolve(api, effect, decision="failed")
    assert_problem(other, 409, "decision_refused")


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": "Somebody else saw it."},
        {"evidence": {"console": "two charges"}},
        {"external_id": "ch_8"},
        {"output": {"id": "ch_8"}},
    ],
    ids=lambda changes: next(iter(changes)),
)
async def test_decision_id_on_other_grounds_is_another_decision(
    api: Api, changes: dict[str, Any]
) -> None:
    effect = await unknown(api)
    assert (await resolve(api, effect, external_id="ch_9")).status_code == 200
    other = await resolve(api, effect, **{"external_id": "ch_9", **changes})
    assert_problem(other, 409, "decision_refused")


@pytest.mark.parametrize("decision", ["committed", "not_committed", "failed"])
async def test_nobody_has_looked_in_the_future(api: Api, decision: str) -> None:
    effect = await unknown(api)
    answer = await resolve(
        api, effect, decision=decision, observed_at="9999-12-31T23:59:59Z"
    )
    assert_problem(answer, 409, "decision_refused")


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-W01-1T00:00:00Z",
        "2026-01-01T00:00:00,5Z",
        "2026-01-01T00:00:00+01:00:30",
        "2026-01-01T00:00:00",
        "2026-01-01",
        "٢026-01-01T00:00:00Z",
    ],
)
async def test_instant_that_is_not_rfc_3339_is_refused_by_its_name(
    api: Api, text: str
) -> None:
    effect = await unknown(api)
    document = assert_problem(
        await resolve(api, effect, observed_at=text), 400, "invalid_request"
    )
    assert "observed_at" in document["detail"]


async def test_finding_from_the_first_day_is_recorded_and_repeated(api: Api) -> None:
    effect = await unknown(api)
    for _ in range(2):
        answer = await resolve(api, effect, observed_at="0001-01-01T00:00:00.5+00:00")
        assert answer.status_code == 200


async def test_finding_about_an_old_version_is_refused(api: Api) -> None:
    effect = await unknown(api)
    answer = await resolve(api, effect, expected_version=1)
    document = assert_problem(answer, 409, "version_conflict")
    assert document["version"] == effect["version"]


@guarantee("operator-evidence-is-dated")
async def test_absence_seen_too_early_says_from_when_it_counts(api: Api) -> None:
    effect = await unknown(api)
    answer = await resolve(api, effect, decision="not_committed")
    document = assert_problem(answer, 409, "decision_refused")
    assert document["not_before"][:19] == effect["deadlines"]["resolvable_after"][:19]
    assert await api.status(effect["effect_id"]) == "outcome_unknown"


async def test_absence_seen_after_settlement_permits_another_send(api: Api) -> None:
    effect = await unknown(api)
    await api.world.let_pass(60)
    now = datetime.fromisoformat(effect["updated_at"]) + timedelta(milliseconds=1)
    answer = await resolve(
        api, effect, decision="not_committed", observed_at=now.isoformat()
    )
    assert answer.json()["status"] == "prepared"


@pytest.mark.parametrize(
    "path", ["resolve", "compensation"], ids=["resolving", "compensating"]
)
async def test_agent_key_never_resolves_or_compensates(api: Api, path: str) -> None:
    effect = await unknown(api)
    for caller in (api.agent, api.reader):
        answer = await caller.post(
            f"/v1/effects/{effect['effect_id']}/{path}", json=finding(effect)
        )
        document = assert_problem(answer, 403, "forbidden")
        assert document["scope"] == "operate"
    assert await api.status(effect["effect_id"]) == "outcome_unknown"


async def test_reader_neither_submits_nor_asks_for_reconciliation(api: Api) -> None:
    effect = await unknown(api)
    answer = await api.reader.post("/v1/effects", json={})
    assert assert_problem(answer, 403, "forbidden")["scope"] == "submit"
    answer = await api.reader.post(f"/v1/effects/{effect['effect_id']}/reconcile")
    assert_problem(answer, 403, "forbidden")


async def test_asking_for_reconciliation_makes_it_due_and_forces_nothing(
    api: Api,
) -> None:
    effect = await unknown(api)
    answer = await api.agent.post(f"/v1/effects/{effect['effect_id']}/reconcile")
    body = answer.json()
    assert answer.status_code == 200
    assert body["status"] == "outcome_unknown"
    assert body["deadlines"]["next_step_at"] <= body["updated_at"]
    assert len(api.world.target.requests) == 1
    empty = await api.agent.post(f"/v1/effects/{effect['effect_id']}/reconcile", json={})
    assert empty.status_code == 200


async def test_asking_about_a_settled_effect_changes_nothing(api: Api) -> None:
    effect_id = await api.settled()
    before = (await api.agent.get(f"/v1/effects/{effect_id}")).json()
    answer = await api.agent.post(f"/v1/effects/{effect_id}/reconcile")
    assert (answer.status_code, answer.json()["version"]) == (200, before["version"])


async def test_unsafe_effect_is_not_asked_about_and_offers_only_a_finding(
    api: Api,
) -> None:
    await api.world.registry.publish(contract("unsafe", version="2"))
    effect = await unknown(api)
    assert [step["action"] for step in effect["next"]] == ["resolve"]
    answer = await api.agent.post(f"/v1/effects/{effect['effect_id']}/reconcile")
    assert answer.json()["version"] == effect["version"]


async def test_reconcile_takes_no_wishes(api: Api) -> None:
    effect = await unknown(api)
    answer = await api.agent.post(
        f"/v1/effects/{effect['effect_id']}/reconcile", json={"force": True}
    )
    assert_problem(answer, 400, "invalid_request")


async def test_compensation_links_two_succeeded_effects_and_keeps_the_receipt(
    api: Api,
) -> None:
    charge = await api.settled("order:1:charge:v1")
    refund = await api.settled("order:1:refund:v1")
    receipt = (await api.agent.get(f"/v1/effects/{charge}/receipt")).content
    body = {"compensated_by": refund, "reason": "The order was cancelled."}
    answer = await api.operator.post(f"/v1/effects/{charge}/compensation", json=body)
    assert answer.json()["status"] == "compensated", answer.text
    assert (await api.agent.get(f"/v1/effects/{charge}/receipt")).content == receipt
    itself = await api.operator.post(
        f"/v1/effects/{refund}/compensation", json={**body, "compensated_by": refund}
    )
    assert_problem(itself, 409, "decision_refused")


async def test_unsettled_effect_is_not_compensated(api: Api) -> None:
    refund = await api.settled("order:1:refund:v1")
    charge = await api.effect_id("order:1:charge:v1")
    answer = await api.operator.post(
        f"/v1/effects/{charge}/compensation",
        json={"compensated_by": refund, "reason": "x"},
    )
    assert_problem(answer, 409, "decision_refused")
