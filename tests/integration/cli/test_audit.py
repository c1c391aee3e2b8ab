"""The audit from the shell: the demo target's books beside the ledger's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from effect_broker.settings import Settings
from effect_broker.telemetry import NullMeter
from effect_broker.wiring.core import Core
from effect_broker.wiring.workers import Workers
from examples.crash_matrix.target.client import RunningTarget, run_target
from tests.integration.cli.commands import Commands
from tests.integration.functions.invoking import Lambdas
from tests.integration.target_calls import charge_body, post

CONTRACT = """
[[contracts]]
tool = "demo.charge"
name = "demo-charge"
version = "1"
safety = "unsafe"
adapter = "http"
attempt_timeout = "3s"
lease = "5s"
settlement_bound = "1s"
[contracts.arguments]
type = "object"
[contracts.http]
url = "/plain/charges"
base_url = { secret = "demo/base_url" }
external_id = "/id"
allow_private = true
[contracts.http.meaning]
"2xx" = "committed"
[contracts.listing]
url = "/plain/charges?created_after={created_after}&created_before={created_before}"
items = "/data"
external_id = "/id"
key = "/order"
"""
LONG_AGO = "2026-01-01"


@pytest.fixture
def target(tmp_path: Path) -> Iterator[RunningTarget]:
    with run_target(tmp_path / "charges.db") as running:
        yield running


@pytest.fixture
def shop(commands: Commands, target: RunningTarget, tmp_path: Path) -> Commands:
    secret = "EFFECT_BROKER_SECRET__DEMO__BASE_URL"
    commands.monkeypatch.setenv(secret, target.url)
    contract = tmp_path / "contracts.toml"
    contract.write_text(CONTRACT)
    commands.run("contracts", "publish", str(contract))
    commands.run("tenants", "create", "shop")
    return commands


def charge(commands: Commands, number: int) -> str:
    """Submit a charge and let a worker send it."""
    arguments = {"amount": number, "currency": "eur", "order": f"order-{number}"}
    effect = commands.line(
        *("effects", "submit", "--operation-key", f"order:{number}:charge:v1"),
        *("--tool", "demo.charge", "--arguments", json.dumps(arguments), "--json"),
    )

    async def run() -> None:
        core = Core(Settings.from_environment(), NullMeter())
        await Workers(core, "worker").dispatcher.run_once()
        await core.connections.close()

    asyncio.run(run())
    return str(effect["effect_id"])


def grown_old(commands: Commands) -> None:
    """Move what was sent away from the window's edge."""
    with psycopg.connect(commands.url, autocommit=True) as connection:
        connection.execute(
            "ALTER TABLE effect_broker.effect_attempts DISABLE TRIGGER ALL"
        )
        connection.execute(
            "UPDATE effect_broker.effect_attempts SET"
            " started_at = started_at - interval '1 hour',"
            " send_deadline = send_deadline - interval '1 hour'"
        )


def audited(commands: Commands, status: int) -> dict[str, Any]:
    return commands.line(
        *("audit", "demo.charge", "--from", LONG_AGO, "--json"), status=status
    )


def test_equal_books_end_with_0(shop: Commands) -> None:
    charge(shop, 1)
    charge(shop, 2)
    report = audited(shop, status=0)
    assert (report["effects"], report["objects"], report["differences"]) == (2, 2, 0)


def test_every_difference_is_told_and_nothing_changes(
    shop: Commands, target: RunningTarget
) -> None:
    lost = charge(shop, 1)
    charge(shop, 2)
    target.reset()
    post(target, "plain", body=charge_body(order="order-9"))
    grown_old(shop)
    report = audited(shop, status=1)
    kinds = {row["found"]: row for row in report["findings"]}
    assert set(kinds) == {"effect without object", "object without effect"}
    assert lost in {row["effect_id"] for row in report["findings"]}
    told = shop.text("audit", "demo.charge", "--from", LONG_AGO, status=1)
    assert "effect without object" in told
    assert "2 effects and 1 objects read" in told


def test_reconcile_function_tells_an_operator_the_same(
    shop: Commands, target: RunningTarget
) -> None:
    charge(shop, 1)
    post(target, "plain", body=charge_body(order="order-9"))
    grown_old(shop)
    asked = {
        "operation": "audit",
        "tool": "demo.charge",
        "created_after": f"{LONG_AGO}T00:00:00Z",
    }
    with Lambdas() as lambdas:
        told = lambdas.invoke("reconcile", asked)
        for broken in (
            {**asked, "tool": "no.such"},
            {**asked, "created_after": "yesterday"},
            {**asked, "effect_id": "1"},
        ):
            with pytest.raises(Exception, match=r"no\.such|created_after|effect_id"):
                lambdas.invoke("reconcile", broken)
    report = audited(shop, status=1)
    assert told["findings"] == report["findings"]
    assert [row["found"] for row in told["findings"]] == ["object without effect"]


def test_target_that_is_away_is_no_finding(shop: Commands, target: RunningTarget) -> None:
    charge(shop, 1)
    target.kill()
    told = shop.text("audit", "demo.charge", "--from", LONG_AGO, status=1)
    assert "could not be read" in told
    assert "effect without object" not in told


def test_window_and_tool_must_mean_something(shop: Commands) -> None:
    assert "No contract" in shop.text("audit", "no.such", "--from", LONG_AGO, status=1)
    shop.run("audit", "demo.charge", "--from", "yesterday", status=2)
    shop.run("audit", "demo.charge", "--from", "2026-01-01T00:00:00", status=2)
