"""A shop whose effects the commands over the ledger are tried on."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from typing import Any

from effect_broker.settings import Settings
from effect_broker.telemetry import NullMeter
from effect_broker.wiring.core import Core
from effect_broker.wiring.workers import Workers
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


def keyring(*data: str, active: str, hmac: tuple[str, ...] = ("h1",)) -> str:
    """Return a keyring with these keys; k1 and h1 are those of every test's keyring."""
    known = json.loads(KEYRING)
    known["data_keys"] |= {name: _key(name) for name in data if name != "k1"}
    known["hmac_keys"] |= {name: _key(name) for name in hmac if name != "h1"}
    return json.dumps(
        {
            "data_keys": {name: known["data_keys"][name] for name in data},
            "active_data_key": active,
            "hmac_keys": {name: known["hmac_keys"][name] for name in hmac},
        }
    )


def _key(name: str) -> str:
    return b64encode(name.encode().ljust(32, b".")).decode()


def use_keyring(commands: Commands, ring: str) -> None:
    """Let every process that starts from now on have another keyring."""
    commands.monkeypatch.setenv("EFFECT_BROKER_KEYRING", ring)


def submitted(
    commands: Commands, key: str, card: str = SECRET, status: int = 0
) -> dict[str, Any]:
    """Submit a charge and return what is told."""
    arguments = json.dumps({"card": card})
    told = commands.run(
        *("effects", "submit", "--operation-key", key, "--tool", "sim.charge"),
        *("--arguments", arguments, "--json"),
        status=status,
    ).stdout
    return json.loads(told) if told else {}


def send_all(commands: Commands, ring: str = KEYRING) -> None:
    """Let a worker send what was submitted, to the target that says yes to all."""

    async def run() -> None:
        core = Core(Settings(database_url=commands.url, keyring=ring), NullMeter())
        dispatcher = Workers(core, "worker").dispatcher
        while (await dispatcher.run_once()).attempts:
            pass
        await core.connections.close()

    asyncio.run(run())
