"""What an operator reads and decides from the shell, over a real ledger."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

from effect_broker.ledger.connection import Connections
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.ledger.registry import PostgresRegistry
from tests.guarantees import guarantee
from tests.integration.broker.world import MovableClock, World, contract, postgres_time
from tests.integration.cli.commands import Commands

T = TypeVar("T")

KEY = "order:1:charge:v1"
NOBODYS = "0198c0de-0000-7000-8000-000000000001"


def in_world(url: str, act: Callable[[World], Awaitable[T]], **changes: Any) -> T:
    """Let something happen in a broker around this database."""

    async def run() -> T:
        connections = Connections(url, limit=2)
        world = World(
            ledger=PostgresLedger(connections),
            registry=PostgresRegistry(connections),
            clock=MovableClock(),
            pass_time=postgres_time(url),
        )
        try:
            return await act(await world.open(contract(**changes)))
        finally:
            await connections.close()

    return asyncio.run(run())


def effect_after(url: str, key: str, *acts: str, **changes: Any) -> str:
    """Return the id of a charge after one pass of a dispatcher."""

    async def act(world: World) -> str:
        reservation = await world.submit(key, *acts)
        await world.dispatcher().run_once()
        return str(reservation.effect.effect_id)

    return in_world(url, act, **changes)


@pytest.fixture
def unknown(commands: Commands) -> str:
    return effect_after(commands.url, KEY, "lose_answer")


@pytest.fixture
def done(commands: Commands) -> str:
    return effect_after(commands.url, "order:2:charge:v1")


def test_operators_home_says_age_contract_why_and_what_may_be_done(
    commands: Commands, unknown: str, done: str
) -> None:
    (row,) = commands.lines("effects", "list", "--status", "outcome_unknown", "--json")
    assert (row["effect_id"], row["tenant"], row["unknown"]) == (unknown, "acme", True)
    assert (row["contract"]["name"], row["reason"]) == ("sim-charge", "lost")
    assert 0 <= row["age_seconds"] < 60
    assert [step["action"] for step in row["next"]] == [
        "request_reconciliation",
        "resolve",
    ]
    printed = commands.text("effects", "list", "--status", "outcome_unknown")
    for said in (unknown, KEY, "sim-charge 1", "lost", "effects reconcile"):
        assert said in printed
    assert "absence counts if seen after" in printed
    assert done not in printed


def test_unsafe_effect_offers_only_a_finding(commands: Commands) -> None:
    effect_after(commands.url, KEY, "lose_answer", safety="unsafe")
    printed = commands.text("effects", "list", "--status", "outcome_unknown")
    assert "effects resolve" in printed
    assert "effects reconcile" not in printed


@guarantee("unknowns-are-listed")
def test_killed_workers_effect_is_listed_before_any_sweep(commands: Commands) -> None:
    """P7: the age counts from the end of the lease, whoever has looked."""

    async def act(world: World) -> str:
        reservation = await world.submit(KEY)
        await world.ledger.claim(await order_of(world))
        await world.let_pass(60)
        return str(reservation.effect.effect_id)

    effect_id = in_world(commands.url, act)
    (row,) = commands.lines("effects", "list", "--status", "outcome_unknown", "--json")
    assert (row["effect_id"], row["unknown"]) == (effect_id, True)
    assert row["age_seconds"] > 20


async def order_of(world: World) -> Any:
    from effect_broker.ids import uuid7
    from effect_broker.ports import ClaimOrder, ContractTerms
    from tests.integration.broker.world import MARGIN

    (published,) = await world.registry.contracts()
    terms = [ContractTerms(published.contract_id, bytes(32))]
    return ClaimOrder(uuid7(), "killed", 1, terms, MARGIN)


def test_list_is_narrowed_cut_and_says_that_there_is_more(commands: Commands) -> None:
    keys = [f"order:{number}:charge:v1" for number in range(4)]

    async def act(world: World) -> list[str]:
        made = [await world.submit(key) for key in keys]
        return [str(reservation.effect.effect_id) for reservation in made]

    ids = in_world(commands.url, act)
    rows = commands.lines("effects", "list", "--limit", "3", "--json")
    assert [row["effect_id"] for row in rows] == ids[::-1][:3]
    assert "raise --limit" in commands.text("effects", "list", "--limit", "3")
    assert "raise --limit" not in commands.text("effects", "list", "--limit", "4")
    narrowed = commands.line("effects", "list", "--operation-prefix", "order:2", "--json")
    assert narrowed["effect_id"] == ids[2]
    assert commands.lines("effects", "list", "--older-than", "1h", "--json") == []
    assert commands.lines("effects", "list", "--status", "succeeded", "--json") == []
    assert "No such effect." in commands.text("effects", "list", "--tool", "none")


def test_lists_reach_every_tenant_or_the_named_one(
    commands: Commands, unknown: str
) -> None:
    commands.run("tenants", "create", "zoo")
    theirs = commands.line(*submission("order:9:charge:v1"), "--tenant", "zoo", "--json")[
        "effect_id"
    ]
    listed = commands.lines("effects", "list", "--json")
    assert [(row["tenant"], row["effect_id"]) for row in listed] == [
        ("zoo", theirs),
        ("acme", unknown),
    ]
    (row,) = commands.lines("effects", "list", "--tenant", "zoo", "--json")
    assert row["effect_id"] == theirs
    assert "No effect" in commands.text(
        "effects", "inspect", unknown, "--tenant", "zoo", status=1
    )


def submission(key: str, amount: int = 100) -> tuple[str, ...]:
    arguments = json.dumps({"amount": amount})
    return (
        *("effects", "submit", "--operation-key", key),
        *("--tool", "sim.charge", "--arguments", arguments),
    )


def test_submission_from_the_shell_is_the_same_effect_by_the_same_key(
    commands: Commands, done: str
) -> None:
    again = commands.line(*submission("order:2:charge:v1"), "--json")
    assert (again["effect_id"], again["replayed"]) == (done, True)
    assert again["receipt"]["kind"] == "succeeded"
    drifted = commands.text(*submission("order:2:charge:v1", 7), status=1)
    assert done in drifted
    assert "amount" in drifted


def test_arguments_come_from_a_file_too_and_are_read_strictly(
    commands: Commands, done: str, tmp_path: Path
) -> None:
    file = tmp_path / "arguments.json"
    call = ("effects", "submit", "--operation-key", "order:5:charge:v1")
    named = (*call, "--tool", "sim.charge", "--arguments", f"@{file}")
    assert "No such file" in commands.text(*named, status=2)
    for text in ('{"amount": 1, "amount": 2}', '{"amount": NaN}', "[1]", "nonsense"):
        file.write_text(text)
        commands.run(*named, status=2)
    assert (
        commands.lines("effects", "list", "--operation-prefix", "order:5", "--json") == []
    )
    file.write_text('{"amount": 1}')
    assert "prepared" in commands.text(*named)


def test_inspection_draws_the_history_with_its_attempts(
    commands: Commands, unknown: str
) -> None:
    printed = commands.text("effects", "inspect", unknown)
    for said in (
        "● EffectReserved",
        "● AttemptStarted",
        "● OutcomeLost",
        "dispatching → outcome_unknown",
        "attempt 1  key generation 1",
        "bytes may have left",
        "resolvable after",
        "do not submit it under a new key",
    ):
        assert said in printed, printed
    assert printed.index("EffectReserved") < printed.index("OutcomeLost")
    assert "fail" not in printed.lower(), "P6: an unknown outcome is no failure"


def test_inspection_at_a_point_shows_how_it_stood_there(
    commands: Commands, unknown: str
) -> None:
    document = commands.line(
        "effects", "inspect", unknown, "--at-sequence", "2", "--json"
    )
    assert [event["sequence"] for event in document["history"]] == [1, 2]
    assert document["state"]["status"] == "dispatching"
    printed = commands.text("effects", "inspect", unknown, "--at-sequence", "2")
    assert "dispatching at event 2" in printed
    assert "OutcomeLost" not in printed
    assert "no event 9" in commands.text(
        "effects", "inspect", unknown, "--at-sequence", "9", status=1
    )


def test_targets_words_move_no_cursor(commands: Commands) -> None:
    effect_id = effect_after(commands.url, KEY, "lose_answer")
    with psycopg.connect(commands.url) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "UPDATE effect_broker.effect_attempt_endings SET reason = E'\\x1b[2Jgone'"
        )
    printed = commands.text("effects", "inspect", effect_id)
    assert "gone" in printed
    assert "\x1b" not in printed


def test_reconciliation_is_asked_for_and_named_after_the_operator(
    commands: Commands, unknown: str
) -> None:
    told = commands.line("effects", "reconcile", unknown, "--json")
    assert told["status"] == "outcome_unknown"
    history = commands.line("effects", "inspect", unknown, "--json")["history"]
    assert history[-1]["type"] == "ReconciliationRequested"
    assert history[-1]["actor"].startswith("operator:")


def finding(effect_id: str, version: int, *more: str) -> tuple[str, ...]:
    return (
        *("effects", "resolve", effect_id, "--reason", "Seen in the console."),
        *("--evidence", '{"console": "one charge"}', "--expected-version", str(version)),
        *more,
    )


def test_finding_of_a_commit_settles_the_effect_once(
    commands: Commands, unknown: str
) -> None:
    version = commands.line("effects", "inspect", unknown, "--json")["version"]
    call = finding(unknown, version, "--decision", "committed", "--external-id", "ch_9")
    assert "succeeded" in commands.text(*call)
    again = commands.line(*call, "--json")
    assert (again["status"], again["version"]) == ("succeeded", version + 1)


@guarantee("operator-evidence-is-dated")
def test_absence_seen_too_early_is_refused_with_the_instant(
    commands: Commands, unknown: str
) -> None:
    version = commands.line("effects", "inspect", unknown, "--json")["version"]
    now = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    call = finding(unknown, version, "--decision", "not_committed", "--observed-at", now)
    assert "look again at" in commands.text(*call, status=1)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--decision", "perhaps"), "must be one of"),
        (("--decision", "committed", "--observed-at", "today"), "RFC 3339"),
        (("--decision", "committed", "--expected-version", "1"), "read it"),
    ],
)
def test_finding_that_cannot_be_meant_is_refused(
    commands: Commands, unknown: str, more: tuple[str, ...], said: str
) -> None:
    assert said in commands.text(*finding(unknown, 3, *more), status=1)


def test_compensation_links_two_effects(commands: Commands, done: str) -> None:
    refund = effect_after(commands.url, "order:2:refund:v1")
    call = ("effects", "compensate", done, "--by", refund, "--reason", "Cancelled.")
    assert commands.line(*call, "--json")["status"] == "compensated"
    assert "once" in commands.text(
        *("effects", "compensate", done, "--by", done, "--reason", "x"), status=1
    ) or "itself" in commands.text(
        *("effects", "compensate", refund, "--by", refund, "--reason", "x"), status=1
    )


def test_fork_on_record_sends_nothing_and_tells_where_it_ends(
    commands: Commands, done: str
) -> None:
    told = commands.line("effects", "fork", done, "--at-sequence", "1", "--json")
    assert told["start"]["status"] == "prepared"
    assert [event["type"] for event in told["recorded"]] == [
        "AttemptStarted",
        "ReceiptRecorded",
    ]
    assert told["end"]["status"] == "succeeded"
    assert told["receipt"]["kind"] == "succeeded"
    assert "nothing is sent" in commands.text(
        "effects", "fork", done, "--at-sequence", "1"
    )
    assert len(commands.lines("effects", "list", "--json")) == 1


@guarantee("replay-cannot-send")
def test_live_fork_needs_a_key_of_its_own(commands: Commands, done: str) -> None:
    call = ("effects", "fork", done, "--live", "--operation-key")
    assert "of its own" in commands.text(*call, "order:2:charge:v1", status=1)
    made = commands.line(*call, "order:2:charge:v2", "--json")
    assert made["effect_id"] != done
    assert (made["status"], made["replayed"]) == ("prepared", False)
    for misused in ((), ("--live",), ("--at-sequence", "1", "--live")):
        commands.run("effects", "fork", done, *misused, status=2)


def test_verification_finds_an_edited_history(commands: Commands, done: str) -> None:
    other = effect_after(commands.url, "order:3:charge:v1")
    assert commands.line("effects", "verify", done, "--json")["holds"] is True
    with psycopg.connect(commands.url) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "UPDATE effect_broker.effect_events SET actor = 'nobody'"
            " WHERE effect_id = %s AND sequence = 2",
            [done],
        )
    rows = commands.lines("effects", "verify", other, done, "--json", status=1)
    assert [row["holds"] for row in rows] == [True, False]
    assert "sequence 2" in commands.text("effects", "verify", done, status=1)


def test_contradicted_effects_are_a_list_of_their_own(
    commands: Commands, done: str
) -> None:
    assert commands.lines("effects", "list", "--contradicted", "--json") == []
    with psycopg.connect(commands.url) as connection:
        connection.execute(
            "INSERT INTO effect_broker.effect_contradictions"
            " SELECT effect_id, 4, tenant_id, now() FROM effect_broker.effect_intents"
        )
    (row,) = commands.lines("effects", "list", "--contradicted", "--json")
    assert row["effect_id"] == done


@pytest.mark.parametrize("command", ["inspect", "reconcile", "verify"])
def test_nobodys_effect_is_not_found(commands: Commands, command: str) -> None:
    for effect_id in (NOBODYS, "x"):
        assert "No effect has this id" in commands.text(
            "effects", command, effect_id, status=1
        )


def test_tenant_must_be_named_where_it_could_be_meant_differently(
    commands: Commands,
) -> None:
    assert "--tenant" in commands.text(*submission(KEY), status=1)
    commands.monkeypatch.setenv("EFFECT_BROKER_TENANT", "nobody")
    assert "no tenant 'nobody'" in commands.text(*submission(KEY), status=1)


@guarantee("tenant-from-credential")
def test_api_key_alone_reaches_nothing_by_the_command_line(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that holds a key, and may start a shell, has no ledger to operate on."""
    monkeypatch.delenv("EFFECT_BROKER_DATABASE_URL")
    monkeypatch.delenv("EFFECT_BROKER_KEYRING")
    monkeypatch.setenv("EFFECT_BROKER_API_KEY", "ebk_" + "0" * 16 + "_" + "0" * 64)
    for arguments in (
        ("effects", "list"),
        ("effects", "resolve", NOBODYS, *finding(NOBODYS, 1, "--decision", "failed")[3:]),
        ("tenants", "list"),
        ("keys", "create", "acme", "--scope", "operate"),
    ):
        assert "EFFECT_BROKER_DATABASE_URL" in commands.text(*arguments, status=1)
