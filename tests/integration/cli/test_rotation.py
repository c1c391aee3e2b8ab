"""C45: keys rotate under running work; none is dropped that something stands under."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from effect_broker.domain.errors import KeysMissing
from effect_broker.ledger.retention import RESEAL_BATCH
from effect_broker.settings import Settings
from effect_broker.telemetry import NullMeter
from effect_broker.wiring.core import Core
from tests.guarantees import guarantee
from tests.integration.broker.world import KEYRING, World
from tests.integration.cli.commands import Commands
from tests.integration.cli.ledger_shop import (
    CONTRACT,
    keyring,
    send_all,
    submitted,
    use_keyring,
)
from tests.integration.cli.test_effects import in_world

KEYS = [f"order:{number}:charge:v1" for number in range(3)]
MANY = 150
BOTH = keyring("k1", "k2", active="k2")
ONLY_NEW = keyring("k2", active="k2")


@pytest.fixture
def shop(commands: Commands, tmp_path: Path) -> Commands:
    contract = tmp_path / "contracts.toml"
    contract.write_text(CONTRACT)
    commands.run("contracts", "publish", str(contract))
    commands.run("tenants", "create", "shop")
    for key in KEYS:
        submitted(commands, key)
    return commands


def rotated(commands: Commands, *options: str, status: int = 0) -> dict[str, Any]:
    return commands.line("ledger", "reencrypt", "--json", *options, status=status)


def drift(commands: Commands, key: str) -> str:
    """Return what a conflict says, which needs the stored arguments opened."""
    return commands.text(
        *("effects", "submit", "--operation-key", key, "--tool", "sim.charge"),
        *("--arguments", '{"card": "another"}'),
        status=1,
    )


@guarantee("key-rotation-keeps-keys")
def test_rotation_seals_everything_anew_and_the_old_key_may_go(shop: Commands) -> None:
    """C45: payloads and receipts open under the new key alone, and keys sent stay."""
    send_all(shop)
    use_keyring(shop, BOTH)
    submitted(shop, "order:9:charge:v1")
    planned = rotated(shop, "--dry-run")
    assert (planned["resealed"], planned["retired"]) == (0, [])
    assert planned["left"]["k1"]["arguments"] == len(KEYS)
    assert planned["left"]["k2"] == {"arguments": 1}
    done = rotated(shop)
    assert done["resealed"] == sum(planned["left"]["k1"].values())
    assert done["retired"] == ["k1"]
    assert set(done["left"]) == {"k2"}
    again = rotated(shop)
    assert (again["resealed"], again["retired"]) == (0, [])
    use_keyring(shop, ONLY_NEW)
    replay = submitted(shop, KEYS[0])
    assert (replay["replayed"], replay["status"]) == (True, "succeeded")
    assert "card" in drift(shop, KEYS[0])
    assert "May leave" not in shop.text("ledger", "reencrypt")


@guarantee("key-rotation-keeps-keys")
@pytest.mark.parametrize("ended", [False, True], ids=["live", "ended"])
@pytest.mark.parametrize(
    ("lost", "ring"),
    [("k1", ONLY_NEW), ("h1", keyring("k1", active="k1", hmac=("h2",)))],
)
def test_process_refuses_a_keyring_without_a_key_that_rows_stand_under(
    shop: Commands, lost: str, ring: str, ended: bool
) -> None:
    """C45: whether the effects are live or ended long ago, and on every surface."""
    if ended:
        send_all(shop)
    use_keyring(shop, ring)
    for command in (
        ("serve", "--port", "0"),
        (
            *("effects", "submit", "--operation-key", "order:9:charge:v1"),
            *("--tool", "sim.charge", "--arguments", "{}"),
        ),
    ):
        assert f"lacks {lost}" in shop.text(*command, status=1)
    use_keyring(shop, KEYRING)
    assert submitted(shop, KEYS[0])["replayed"]


@pytest.mark.parametrize("ring", [ONLY_NEW, "file:/nowhere", "{}"])
async def test_nothing_is_claimed_or_reserved_without_the_ledgers_keys(
    commands: Commands, ring: str
) -> None:
    """C45: a Lambda's first call is refused before it reads or writes anything."""
    await asyncio.to_thread(commands.run, "tenants", "create", "shop")
    opened = Core(Settings(database_url=commands.url, keyring=KEYRING), NullMeter())
    assert await opened.registry.tenants()
    refused = Core(Settings(database_url=commands.url, keyring=ring), NullMeter())
    for call in (refused.check_ready, refused.measure_unknown, refused.registry.tenants):
        with pytest.raises(KeysMissing):
            await call()
    for core in (opened, refused):
        await core.connections.close()


def test_doctor_and_owners_commands_work_without_the_lost_key(shop: Commands) -> None:
    """Whoever must mend it is not kept out; the doctor says what is lost."""
    use_keyring(shop, ONLY_NEW)
    rows = shop.lines("doctor", "--deep", "--json", status=1)
    (found,) = [row for row in rows if row["check"] == "keys in use"]
    assert found["verdict"] == "broken"
    assert "k1" in found["what"]
    assert shop.lines("ledger", "partitions", "--json")
    done = rotated(shop, status=1)
    assert (done["resealed"], done["unreadable"]) == (0, len(KEYS))
    assert done["retired"] == []
    assert {row["data_key_id"] for row in done["named"]} == {"k1"}
    assert "no data key 'k1'" in shop.text("ledger", "reencrypt", status=1)


@guarantee("key-rotation-keeps-keys")
def test_tenant_moves_to_another_hmac_key_and_keeps_the_keys_it_sent(
    shop: Commands,
) -> None:
    """C45: reserved before, recovered after: the target sees the key that was stored."""
    before = {key: downstream_key(shop, key) for key in KEYS}
    use_keyring(shop, keyring("k1", active="k1", hmac=("h1", "h2")))
    shop.run("tenants", "rekey", "shop", "--hmac-key-id", "h3", status=1)
    moved = shop.line("tenants", "rekey", "shop", "--hmac-key-id", "h2")
    assert moved["hmac_key_id"] == "h2"
    submitted(shop, "order:9:charge:v1")
    assert {key: downstream_key(shop, key) for key in KEYS} == before
    assert downstream_key(shop, "order:9:charge:v1")[1] == "h2"
    assert submitted(shop, KEYS[0])["replayed"]
    assert rotated(shop)["hmac_keys_in_use"] == ["h1", "h2"], "live work may need h1"
    use_keyring(shop, keyring("k1", active="k1", hmac=("h2",)))
    assert "lacks h1" in shop.text("serve", "--port", "0", status=1)
    use_keyring(shop, keyring("k1", active="k1", hmac=("h1", "h2")))
    send_all(shop, keyring("k1", active="k1", hmac=("h1", "h2")))
    assert rotated(shop)["retired"] == ["h1"]
    use_keyring(shop, keyring("k1", active="k1", hmac=("h2",)))
    assert submitted(shop, KEYS[0])["replayed"]


def downstream_key(commands: Commands, operation_key: str) -> tuple[str, str]:
    with psycopg.connect(commands.url) as connection:
        row = connection.execute(
            "SELECT downstream_key, hmac_key_id FROM effect_broker.effect_intents"
            " WHERE operation_key = %s",
            [operation_key],
        ).fetchone()
    assert row is not None
    return row[0], row[1]


def test_rotation_that_was_killed_goes_on(commands: Commands) -> None:
    """The first batch is committed, the second one waits for a lock when it is killed."""

    async def fill(world: World) -> None:
        for number in range(MANY):
            await world.submit(f"order:{number}:charge:v1")

    in_world(commands.url, fill)
    use_keyring(commands, BOTH)
    with psycopg.connect(commands.url) as holding:
        holding.execute(
            "SELECT FROM effect_broker.effect_intents ORDER BY tenant_id DESC,"
            " effect_id DESC LIMIT 1 FOR UPDATE"
        )
        with subprocess.Popen(
            [sys.executable, "-m", "effect_broker", "ledger", "reencrypt"]
        ) as rotating:
            _wait_for_a_lock(commands.url, rotating)
            rotating.kill()
        left = rotated(commands, "--dry-run")["left"]
        _end_who_waits(commands.url)
    assert left["k1"]["arguments"] == MANY - RESEAL_BATCH
    done = rotated(commands)
    assert done["resealed"] == MANY - RESEAL_BATCH
    assert done["left"] == {"k2": {"arguments": MANY}}
    use_keyring(commands, ONLY_NEW)
    rows = commands.lines("effects", "list", "--limit", "200", "--json")
    assert len(rows) == MANY


WAITING = (
    " FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    " AND datname = current_database()"
)


def _wait_for_a_lock(url: str, process: subprocess.Popen[bytes]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(f"SELECT count(*){WAITING}").fetchone() == (0,):
            assert process.poll() is None, "it ended before it met the lock"
            time.sleep(0.02)


def _end_who_waits(url: str) -> None:
    """The server would go on with a statement whose client is gone."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SELECT pg_terminate_backend(pid){WAITING}")
