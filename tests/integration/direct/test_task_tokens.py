"""A workflow that waits is told from the ledger: once it is settled, whatever crashed."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import psycopg
import pytest

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.ledger.callbacks import PostgresCallbacks
from effect_broker.surfaces.refusing import InvocationRefused
from tests.guarantees import guarantee
from tests.integration.direct.step_functions import WaitingTasks
from tests.integration.functions.invoking import SWEEP, Lambdas, charge, nudges

TOKEN = "canary-AAAAKgAAAAIAAAAAAAAAAb3Zz/token+0="


def submitted(lambdas: Lambdas, *acts: str, token: str = TOKEN) -> str:
    event = {"operation": "submit", **charge("order:1:charge:v1", 100, *acts)}
    return str(lambdas.direct({**event, "task_token": token})["effect_id"])


def leases_over(url: str) -> None:
    """Let the time pass that holds a callback back."""
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE effect_broker.effect_callbacks SET due_at = now()")


def kept(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM effect_broker.effect_callbacks"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_task_succeeds_with_the_receipt_right_after_it_was_recorded(
    lambdas: Lambdas, tasks: WaitingTasks, fresh_database: str
) -> None:
    effect_id = submitted(lambdas)
    assert tasks.told == {}
    answer = lambdas.invoke("dispatch", nudges(effect_id))
    assert answer["answered"] == 1
    told = tasks.told[TOKEN]
    assert told["operation"] == "SendTaskSuccess"
    output = json.loads(told["output"])
    assert (output["effect_id"], output["status"]) == (effect_id, "succeeded")
    receipt = lambdas.direct({"operation": "receipt", "effect_id": effect_id})
    assert output["receipt"] == receipt
    assert kept(fresh_database) == 0


def test_running_effect_leaves_its_task_waiting(
    lambdas: Lambdas, tasks: WaitingTasks, fresh_database: str
) -> None:
    submitted(lambdas)
    lambdas.invoke("reconcile", SWEEP)
    assert (tasks.told, kept(fresh_database)) == ({}, 1)


def test_failed_effect_ends_its_task_by_a_name_of_its_own(
    lambdas: Lambdas, tasks: WaitingTasks
) -> None:
    effect_id = submitted(lambdas, "reject_final")
    lambdas.invoke("dispatch", nudges(effect_id))
    told = tasks.told[TOKEN]
    assert (told["operation"], told["error"]) == ("SendTaskFailure", "EffectFailed")
    cause = json.loads(told["cause"])
    assert (cause["effect_id"], cause["status"]) == (effect_id, "failed_final")


@guarantee("lost-answer-is-unknown")
def test_lost_answer_keeps_the_task_waiting_until_it_is_settled(
    lambdas: Lambdas, tasks: WaitingTasks, fresh_database: str
) -> None:
    effect_id = submitted(lambdas, "lose_answer")
    lambdas.invoke("dispatch", nudges(effect_id))
    assert tasks.told == {}
    for _ in range(4):
        lambdas.invoke("reconcile", SWEEP)
        lambdas.invoke("dispatch", SWEEP)
    leases_over(fresh_database)
    lambdas.invoke("reconcile", SWEEP)
    assert json.loads(tasks.told[TOKEN]["output"])["status"] == "succeeded"


def test_unknown_that_only_a_person_can_move_ends_under_its_own_name(
    lambdas: Lambdas, tasks: WaitingTasks, fresh_database: str
) -> None:
    """P6: neither name nor cause means that it failed, and no retrier names it."""
    effect_id = submitted(lambdas, "lose_answer")
    lambdas.invoke("dispatch", nudges(effect_id))
    with psycopg.connect(fresh_database) as connection:
        connection.execute("UPDATE effect_broker.effect_work SET due_at = 'infinity'")
    lambdas.invoke("reconcile", nudges(effect_id))
    told = tasks.told[TOKEN]
    assert (told["operation"], told["error"]) == ("SendTaskFailure", "OutcomeUnknown")
    cause = json.loads(told["cause"])
    assert cause["status"] == "outcome_unknown"
    assert "do not submit it under a new key" in cause["outcome"]
    assert "fail" not in told["cause"].lower()


def test_replay_with_a_new_token_is_answered_though_all_is_settled(
    lambdas: Lambdas, tasks: WaitingTasks
) -> None:
    """A retried task has a new token, and the same key finds the same effect."""
    effect_id = submitted(lambdas)
    lambdas.invoke("dispatch", nudges(effect_id))
    assert submitted(lambdas, token="second") == effect_id
    lambdas.invoke("reconcile", nudges(effect_id))
    assert tasks.told["second"]["output"] == tasks.told[TOKEN]["output"]


def test_crash_after_telling_tells_again_and_ends(
    lambdas: Lambdas,
    tasks: WaitingTasks,
    fresh_database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    effect_id = submitted(lambdas)
    with monkeypatch.context() as crashing:

        async def dies(*_: object) -> bool:
            raise LedgerUnavailable("killed before it was forgotten")

        crashing.setattr(PostgresCallbacks, "end", dies)
        with pytest.raises(InvocationRefused):
            lambdas.invoke("dispatch", nudges(effect_id))
    assert (len(tasks.told), kept(fresh_database)) == (1, 1)
    lambdas.invoke("reconcile", SWEEP)
    assert len(tasks.requests) == 1, "its lease has not ended"
    leases_over(fresh_database)
    lambdas.invoke("reconcile", SWEEP)
    assert len(tasks.requests) == 2
    assert (len(tasks.told), kept(fresh_database)) == (1, 0)


def test_crash_before_telling_leaves_the_token_to_the_next_sweep(
    lambdas: Lambdas,
    tasks: WaitingTasks,
    fresh_database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    effect_id = submitted(lambdas)
    with monkeypatch.context() as crashing:

        async def dies(*_: object, **__: object) -> Any:
            raise LedgerUnavailable("killed before it was taken")

        crashing.setattr(PostgresCallbacks, "claim", dies)
        with pytest.raises(InvocationRefused):
            lambdas.invoke("dispatch", nudges(effect_id))
    assert tasks.told == {}
    leases_over(fresh_database)
    assert lambdas.invoke("reconcile", SWEEP)["answered"] == 1
    assert tasks.told[TOKEN]["operation"] == "SendTaskSuccess"


def test_service_that_throttles_is_asked_again_later(
    lambdas: Lambdas, tasks: WaitingTasks, fresh_database: str
) -> None:
    effect_id = submitted(lambdas)
    tasks.away = 10
    assert lambdas.invoke("dispatch", nudges(effect_id))["answered"] == 0
    tasks.away = 0
    leases_over(fresh_database)
    assert lambdas.invoke("reconcile", SWEEP)["answered"] == 1


@guarantee("nothing-in-the-clear")
def test_token_stands_nowhere_in_the_clear(
    lambdas: Lambdas, tasks: WaitingTasks, fresh_database: str
) -> None:
    submitted(lambdas)
    with psycopg.connect(fresh_database) as connection:
        found = connection.execute(
            "SELECT c::text, encode(sealed, 'escape') FROM"
            " effect_broker.effect_callbacks c"
        ).fetchall()
    assert len(found) == 1
    assert "canary" not in str(found)
    with pytest.raises(InvocationRefused) as refused:
        lambdas.direct({"operation": "get", "effect_id": "x", "task_token": TOKEN})
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("token", ["", " ", 7, ["x"], "x" * 2049, "\x00"])
def test_what_is_no_token_is_refused_and_nothing_is_stored(
    lambdas: Lambdas, token: object, fresh_database: str
) -> None:
    with pytest.raises(InvocationRefused) as refused:
        submitted(lambdas, token=token)  # type: ignore[arg-type]
    assert type(refused.value).__name__ == "InvalidFields"
    with psycopg.connect(fresh_database) as connection:
        row = connection.execute("SELECT count(*) FROM effect_broker.effect_intents")
        assert row.fetchone() == (0,)


@guarantee("tenant-from-credential")
def test_token_is_answered_for_its_own_tenants_effect_only(
    lambdas: Lambdas, tasks: WaitingTasks
) -> None:
    ours = submitted(lambdas)
    event = {"operation": "submit", **charge("order:1:charge:v1"), "task_token": "other"}
    theirs = lambdas.direct(event, slug="other")["effect_id"]
    assert ours != theirs
    lambdas.invoke("dispatch", nudges(ours))
    assert set(tasks.told) == {TOKEN}
    assert UUID(json.loads(tasks.told[TOKEN]["output"])["effect_id"]) == UUID(ours)
