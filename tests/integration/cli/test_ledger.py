"""Months and old payloads, from the shell."""

from __future__ import annotations

import asyncio
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from effect_broker.ledger import retention
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.retention import PostgresRetention
from tests.guarantees import guarantee
from tests.integration.cli.commands import Commands
from tests.integration.cli.ledger_shop import CONTRACT, SECRET, send_all, submitted
from tests.integration.ledger.test_retention import id_of, old_month

__all__ = ["old_month"]

KEYS = [f"order:{number}:charge:v1" for number in range(3)]


@pytest.fixture
def shop(commands: Commands, tmp_path: Path) -> Commands:
    contract = tmp_path / "contracts.toml"
    contract.write_text(CONTRACT)
    commands.run("contracts", "publish", str(contract))
    commands.run("tenants", "create", "shop")
    return commands


@pytest.fixture
def busy_shop(shop: Commands) -> Commands:
    for key in KEYS:
        submitted(shop, key)
    return shop


@pytest.fixture
def old_shop(shop: Commands, old_month: date) -> Commands:
    """Return a shop whose effects were made in a month that is over."""
    march = date(2024, 3, 15)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("effect_broker.wiring.core.uuid7", lambda: id_of(march))
        for key in KEYS:
            submitted(shop, key)
    return shop


def sealed_somewhere(url: str) -> int:
    """Count the payloads that a database still holds."""

    async def run() -> int:
        connections = Connections(url)
        counts = await PostgresRetention(connections).sealed_by_key()
        await connections.close()
        return sum(sum(places.values()) for places in counts.values())

    return asyncio.run(run())


def months(commands: Commands, *options: str, status: int = 0) -> dict[str, Any]:
    rows = commands.lines("ledger", "partitions", *options, "--json", status=status)
    return {row["month"]: row for row in rows}


def test_months_are_listed_and_missing_ones_made(commands: Commands) -> None:
    listed = months(commands)
    assert {row["state"] for row in listed.values()} == {"live"}
    assert months(commands, "--make") == listed
    more = months(commands, "--make", "--months-ahead", "5")
    assert len(more) == len(listed) + 2
    assert max(more) in commands.text("ledger", "partitions")


def test_month_that_is_not_over_is_not_archived(busy_shop: Commands) -> None:
    month = min(months(busy_shop))
    archive = ("ledger", "partitions", "--archive", month, "--yes")
    assert "The month is not over" in busy_shop.text(*archive, status=1)
    drop = ("ledger", "partitions", "--drop", month, "--yes")
    assert "not archived" in busy_shop.text(*drop, status=1)
    absent = ("ledger", "partitions", "--archive", "1999-01", "--yes")
    assert "no partition" in busy_shop.text(*absent, status=1)
    busy_shop.run("ledger", "partitions", "--archive", "March", status=2)
    both = ("--archive", month, "--drop", month)
    busy_shop.run("ledger", "partitions", *both, status=2)


@guarantee("one-intent-per-key", "replay-answers-the-same")
def test_month_is_archived_and_dropped_and_its_effects_still_answer(
    old_shop: Commands,
) -> None:
    before = submitted(old_shop, KEYS[1])
    with_live = months(old_shop)["2024-03"]
    assert (with_live["state"], with_live["live"]) == ("over", 3)
    archive = ("ledger", "partitions", "--archive", "2024-03", "--yes")
    assert "is live" in old_shop.text(*archive, status=1)
    send_all(old_shop)
    assert months(old_shop, "--archive", "2024-03", "--yes")["2024-03"]["state"] == (
        "archived"
    )
    assert "2024-03" not in months(old_shop, "--drop", "2024-03", "--yes")
    replay = submitted(old_shop, KEYS[1])
    assert (replay["replayed"], replay["effect_id"]) == (True, before["effect_id"])
    assert replay["status"] == "succeeded"
    submitted(old_shop, KEYS[1], card="another", status=1)


def test_archiving_dropping_and_pruning_are_planned_and_asked_for(
    old_shop: Commands,
) -> None:
    send_all(old_shop)
    command = ("ledger", "partitions", "--archive", "2024-03")
    assert "Archive 2024-03 (" in old_shop.text(*command, status=1)
    (planned,) = old_shop.lines(*command, "--dry-run", "--json")
    assert (planned["month"], planned["state"]) == ("2024-03", "over")
    assert planned["bytes"] > 0
    old_shop.run(*command, "--yes")
    command = ("ledger", "partitions", "--drop", "2024-03")
    assert "for ever?" in old_shop.text(*command, status=1)
    assert months(old_shop)["2024-03"]["state"] == "archived"


def test_pruning_says_first_what_would_be_forgotten(busy_shop: Commands) -> None:
    send_all(busy_shop)
    stored = sealed_somewhere(busy_shop.url)
    prune = ("ledger", "prune", "--older-than", "0s")
    plan = busy_shop.line(*prune, "--dry-run", "--json")
    assert plan["prunable"] == len(KEYS)
    assert plan["bytes"] > len(SECRET) * len(KEYS)
    assert "the payloads of 3 effects" in busy_shop.text(*prune, status=1)
    assert sealed_somewhere(busy_shop.url) == stored
    later = busy_shop.line("ledger", "prune", "--older-than", "1h", "--yes", "--json")
    assert later == {"pruned": 0}
    assert busy_shop.line(*prune, "--yes", "--json") == {"pruned": len(KEYS)}
    assert sealed_somewhere(busy_shop.url) == 0
    assert busy_shop.line(*prune, "--yes", "--json") == {"pruned": 0}


@guarantee("replay-answers-the-same", "drift-is-refused")
def test_pruned_effects_still_answer_replays_and_conflicts(busy_shop: Commands) -> None:
    send_all(busy_shop)
    before = submitted(busy_shop, KEYS[1])
    busy_shop.run("ledger", "prune", "--older-than", "0s", "--yes")
    after = submitted(busy_shop, KEYS[1])
    assert (after["replayed"], after["effect_id"]) == (True, before["effect_id"])
    assert after["status"] == "succeeded"
    submitted(busy_shop, KEYS[1], card="another", status=1)
    assert len(busy_shop.lines("effects", "list", "--json")) == len(KEYS)


async def test_pruning_that_was_interrupted_goes_on(
    busy_shop: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(send_all, busy_shop)
    monkeypatch.setattr(retention, "BATCH", 1)
    connections = Connections(busy_shop.url)
    pruning = PostgresRetention(connections).prune(timedelta(0))
    assert await anext(pruning) == 1
    await pruning.aclose()  # type: ignore[attr-defined]
    left = [count async for count in PostgresRetention(connections).prune(timedelta(0))]
    assert sum(left) == len(KEYS) - 1
    await connections.close()


def test_live_effects_keep_their_payloads(busy_shop: Commands) -> None:
    prune = ("ledger", "prune", "--older-than", "0s", "--yes", "--json")
    assert busy_shop.line(*prune) == {"pruned": 0}
    assert sealed_somewhere(busy_shop.url) == len(KEYS)


def test_application_role_is_told_that_upkeep_is_the_owners(
    busy_shop: Commands, application_url: str
) -> None:
    listed = months(busy_shop)
    busy_shop.monkeypatch.setenv("EFFECT_BROKER_DATABASE_URL", application_url)
    for command in (
        ("prune", "--older-than", "0s", "--yes"),
        ("partitions", "--archive", "2024-03", "--yes"),
        ("reencrypt",),
    ):
        told = busy_shop.text("ledger", *command, status=1)
        assert "rights of the ledger's owner" in told
    assert months(busy_shop, "--make") == listed
