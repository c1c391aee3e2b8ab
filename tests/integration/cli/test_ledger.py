"""Upkeep from the shell: months, old payloads, keys that rotate or are missing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import psycopg
import pytest

from effect_broker.cipher import AesGcmCipher
from effect_broker.domain.errors import CipherError
from effect_broker.settings import Settings
from effect_broker.telemetry import NullMeter
from effect_broker.wiring.core import Core
from effect_broker.wiring.workers import Workers
from tests.guarantees import guarantee
from tests.integration.broker.world import KEYRING
from tests.integration.cli.commands import Commands

CONTRACT = """
[[contracts]]
tool = "sim.charge"
name = "sim-charge"
version = "1"
safety = "unsafe"
adapter = "simulated"
attempt_timeout = "10s"
lease = "30s"
settlement_bound = "30s"
[contracts.arguments]
type = "object"
"""
SECRET = "4111-canary"


def keyring(*data: str, active: str, hmac: str = "h1") -> str:
    ring = json.loads(KEYRING)
    key = ring["data_keys"]["k1"]
    ring["data_keys"] = {name: key[:-4] + f"{n}{n}8=" for n, name in enumerate(data)}
    ring["data_keys"] |= {"k1": key} if "k1" in data else {}
    ring["hmac_keys"] = {hmac: ring["hmac_keys"]["h1"]}
    return json.dumps(ring | {"active_data_key": active})


@pytest.fixture
def shop(commands: Commands, tmp_path: Any) -> Commands:
    contract = tmp_path / "contracts.toml"
    contract.write_text(CONTRACT)
    commands.run("contracts", "publish", str(contract))
    commands.run("tenants", "create", "shop")
    for number in range(3):
        submit(commands, f"order:{number}:charge:v1")
    return commands


def submit(commands: Commands, key: str, card: str = SECRET) -> dict[str, Any]:
    arguments = json.dumps({"card": card})
    return commands.line(
        *("effects", "submit", "--operation-key", key, "--tool", "sim.charge"),
        *("--arguments", arguments, "--json"),
    )


def send_all(commands: Commands) -> None:
    """Let a worker send what was submitted, to the target that says yes to all."""

    async def run() -> None:
        settings = Settings(database_url=commands.url, keyring=KEYRING)
        core = Core(settings, NullMeter())
        report = await Workers(core, "worker").dispatcher.run_once()
        await core.connections.close()
        assert report.recorded == report.attempts > 0

    asyncio.run(run())


def test_months_are_listed_and_missing_ones_made(commands: Commands) -> None:
    months = commands.lines("ledger", "partitions", "--json")
    assert {row["state"] for row in months} == {"live"}
    last = max(row["month"] for row in months)
    with psycopg.connect(commands.url, autocommit=True) as connection:
        suffix = last.replace("-", "_")
        for (table,) in connection.execute(
            "SELECT unnest(effect_broker.partitioned_tables())"
        ).fetchall():
            connection.execute(f"DROP TABLE effect_broker.{table}_{suffix}".encode())
    assert last not in commands.text("ledger", "partitions")
    assert commands.lines("ledger", "partitions", "--make", "--json") == months


def test_month_that_is_not_over_is_not_archived(shop: Commands) -> None:
    month = shop.lines("ledger", "partitions", "--json")[0]["month"]
    assert "month" in shop.text("ledger", "partitions", "--archive", month, status=1)
    refused = shop.text("ledger", "partitions", "--drop", month, "--yes", status=1)
    assert "effect-broker:" in refused
    shop.run("ledger", "partitions", "--archive", "March", status=2)


def test_dropping_and_pruning_ask_first(shop: Commands) -> None:
    shop.run("ledger", "partitions", "--drop", "2024-01", status=1)
    shop.run("ledger", "prune", "--older-than", "1s", status=1)


def test_rotation_seals_everything_anew_and_says_what_is_left(
    shop: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EFFECT_BROKER_KEYRING", keyring("k1", "k2", active="k2"))
    submit(shop, "order:9:charge:v1")
    done = shop.line("ledger", "reencrypt")
    assert (done["resealed"], done["data_keys_in_use"]) == (3, ["k2"])
    assert shop.line("ledger", "reencrypt")["resealed"] == 0
    monkeypatch.setenv("EFFECT_BROKER_KEYRING", keyring("k1", active="k1"))
    assert "k2" in shop.text("ledger", "reencrypt", status=1)


def test_rotation_that_was_interrupted_goes_on(
    shop: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EFFECT_BROKER_KEYRING", keyring("k1", "k2", active="k2"))
    seal, sealed = AesGcmCipher.seal, list[Any]()

    def interrupted(self: AesGcmCipher, plaintext: bytes, **place: Any) -> Any:
        sealed.append(place)
        if len(sealed) > 1:
            raise CipherError("interrupted")
        return seal(self, plaintext, **place)

    with monkeypatch.context() as patched:
        patched.setattr(AesGcmCipher, "seal", interrupted)
        shop.run("ledger", "reencrypt", status=1)
    done = shop.line("ledger", "reencrypt")
    assert (done["resealed"], done["data_keys_in_use"]) == (2, ["k2"])


def test_pruned_effects_still_answer_replays_and_conflicts(shop: Commands) -> None:
    for _ in range(2):
        send_all(shop)
    done = shop.line("ledger", "prune", "--older-than", "0s", "--yes")
    assert done == {"pruned": 3}
    assert submit(shop, "order:1:charge:v1")["replayed"] is True
    arguments = json.dumps({"card": "another"})
    shop.run(
        *("effects", "submit", "--operation-key", "order:1:charge:v1"),
        *("--tool", "sim.charge", "--arguments", arguments),
        status=1,
    )


def test_application_role_is_told_that_upkeep_is_the_owners(
    shop: Commands, application_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EFFECT_BROKER_DATABASE_URL", application_url)
    told = shop.text("ledger", "prune", "--older-than", "0s", "--yes", status=1)
    assert "rights of the ledger's owner" in told


@guarantee("key-rotation-keeps-keys")
@pytest.mark.parametrize(
    ("lost", "ring"),
    [
        ("k1", keyring("k2", active="k2")),
        ("h1", keyring("k1", active="k1", hmac="h2")),
    ],
)
def test_process_refuses_to_start_without_a_key_that_stored_work_relies_on(
    shop: Commands, monkeypatch: pytest.MonkeyPatch, lost: str, ring: str
) -> None:
    monkeypatch.setenv("EFFECT_BROKER_KEYRING", ring)
    told = shop.text("serve", "--port", "0", status=1)
    assert f"lacks {lost}" in told
