"""dispatch and reconcile: nudges, sweeps, and what the queue is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from effect_broker.surfaces.refusing import InvocationRefused
from tests.guarantees import guarantee
from tests.integration.functions.invoking import SWEEP, Lambdas, charge, nudges


def submit(lambdas: Lambdas, number: int = 1, *acts: str) -> str:
    body = charge(f"order:{number}:charge:v1", 100, *acts)
    return str(lambdas.http("POST", "/v1/effects", body)[1]["effect_id"])


def effect(lambdas: Lambdas, effect_id: str) -> dict[str, Any]:
    read: dict[str, Any] = lambdas.http("GET", f"/v1/effects/{effect_id}")[1]
    return read


def test_nudge_sends_the_effect_and_only_that(lambdas: Lambdas) -> None:
    first, second = submit(lambdas, 1), submit(lambdas, 2)
    answer = lambdas.invoke("dispatch", nudges(first))
    assert answer["batchItemFailures"] == []
    assert answer["reports"][0]["attempts"] == 1
    assert effect(lambdas, first)["status"] == "succeeded"
    assert effect(lambdas, second)["status"] == "prepared"


def test_sweep_finds_what_no_nudge_announced(lambdas: Lambdas) -> None:
    effect_ids = [submit(lambdas, number) for number in range(3)]
    lambdas.invoke("dispatch", SWEEP)
    assert {effect(lambdas, it)["status"] for it in effect_ids} == {"succeeded"}


def test_unknown_outcome_is_a_success_for_the_queue(lambdas: Lambdas) -> None:
    lost, fine = submit(lambdas, 1, "lose_answer"), submit(lambdas, 2)
    answer = lambdas.invoke("dispatch", nudges(lost, "{", fine))
    assert answer["batchItemFailures"] == [{"itemIdentifier": "m1"}]
    assert effect(lambdas, lost)["status"] == "outcome_unknown"
    again = lambdas.invoke("dispatch", nudges(lost, fine))
    assert again["reports"][0]["attempts"] == 0
    assert len(effect(lambdas, lost)["attempts"]) == 1


def test_lost_answer_is_reconciled_to_one_effect(lambdas: Lambdas) -> None:
    lost = submit(lambdas, 1, "lose_answer")
    lambdas.invoke("dispatch", nudges(lost))
    for _ in range(4):
        lambdas.invoke("reconcile", SWEEP)
        lambdas.invoke("dispatch", SWEEP)
    settled = effect(lambdas, lost)
    assert settled["status"] == "succeeded"
    assert [it["outcome"] for it in settled["attempts"]] == ["ambiguous", "committed"]


def test_sweep_tells_how_many_are_unproved_and_for_how_long(
    lambdas: Lambdas, capsys: pytest.CaptureFixture[str]
) -> None:
    body = charge("order:1:charge:v1", 100, *["lose_answer"] * 9)
    lambdas.http("POST", "/v1/effects", body)
    lambdas.invoke("dispatch", SWEEP)
    capsys.readouterr()
    lambdas.invoke("reconcile", SWEEP)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (count,) = [it for it in lines if "effect_broker_unknown_effects" in it]
    assert (count["contract"], count["tool"]) == ("sim-charge", "sim.charge")
    assert count["effect_broker_unknown_effects"] == 1
    assert any("effect_broker_unknown_oldest_age_seconds" in it for it in lines)


def test_invocation_without_time_claims_nothing(lambdas: Lambdas) -> None:
    effect_id = submit(lambdas)
    for left in (0, 5_000, 9_000):
        lambdas.invoke("dispatch", nudges(effect_id), milliseconds_left=left)
    assert effect(lambdas, effect_id)["status"] == "prepared"
    lambdas.invoke("dispatch", nudges(effect_id), milliseconds_left=15_000)
    assert effect(lambdas, effect_id)["status"] == "succeeded"


@pytest.mark.parametrize("name", ["dispatch", "reconcile"])
def test_event_that_is_neither_batch_nor_sweep_is_refused(
    lambdas: Lambdas, name: str
) -> None:
    with pytest.raises(InvocationRefused) as refused:
        lambdas.invoke(name, {"hello": "world"})
    assert type(refused.value).__name__ == "InvalidRequest"


@guarantee("nothing-outlives-its-invocation")
def test_what_outlives_an_invocation_is_ended_before_it_returns(
    lambdas: Lambdas,
) -> None:
    import asyncio

    environment = lambdas.environment("dispatch")
    ended: list[str] = []

    async def lingers() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("ended")

    async def leaves_something_behind() -> None:
        environment.left = asyncio.create_task(lingers())
        await asyncio.sleep(0)

    with environment.invocation():
        environment.run(leaves_something_behind())
        assert ended == []
    assert ended == ["ended"]
