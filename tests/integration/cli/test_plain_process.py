"""The command line on a plain machine: from an empty database to an answered request."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from tests.integration.functions.invoking import CONTRACTS, KEYRING, charge

COMMAND: Final = [sys.executable, "-m", "effect_broker"]
NOBODY_LISTENS: Final = "postgresql://nobody@127.0.0.1:1/none"


class Shell:
    """Runs the command line against one database."""

    def __init__(self, url: str) -> None:
        settings = {"DATABASE_URL": url, "KEYRING": KEYRING}
        named = {f"EFFECT_BROKER_{name}": value for name, value in settings.items()}
        self.environment = os.environ | named

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    @contextmanager
    def serving(self) -> Iterator[tuple[str, subprocess.Popen[str]]]:
        with subprocess.Popen(
            [*COMMAND, "serve", "--port", "0"],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            try:
                yield process.stdout.readline().strip(), process
            finally:
                process.kill()
                process.communicate()


def test_empty_database_becomes_a_broker_that_answers(
    empty_database: str, tmp_path: Path
) -> None:
    shell = Shell(empty_database)
    contracts = tmp_path / "contracts.toml"
    contracts.write_text(CONTRACTS)
    shell.lines("migrate")
    (tool,) = shell.lines("contracts", "validate", str(contracts), "--json")
    assert (tool["tool"], tool["safety"]) == ("sim.charge", "idempotent")
    table = shell.run("contracts", "validate", str(contracts)).stdout
    assert table.split()[:4] == ["tool", "version", "safety", "guarantee"]
    (published,) = shell.lines("contracts", "publish", str(contracts))
    assert published["created"] is True
    (tenant,) = shell.lines("tenants", "create", "acme")
    assert tenant["created"] is True
    scopes = ["--scope", "submit", "--scope", "read"]
    (key,) = shell.lines("keys", "create", "acme", *scopes)
    with shell.serving() as (address, process):
        headers = {"Authorization": f"Bearer {key['key']}"}
        with httpx2.Client(base_url=address, headers=headers) as caller:
            assert caller.get("/readyz").json() == {"status": "ready"}
            made = caller.post("/v1/effects?q=canary", json=charge())
            assert made.status_code == 202
            metrics = caller.get("/metrics").text
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate()
    assert 'event="submitted",tool="sim.charge"} 1.0' in metrics
    assert process.returncode in (0, -signal.SIGTERM)
    assert [json.loads(line)["message"] for line in log.splitlines()].count(
        "request served"
    ) == 3
    assert "canary" not in log


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["contracts", "validate", "/nowhere.toml"], 1, "no such file"),
        (["tenants", "create", "No Slug"], 1, "slug"),
        (["keys", "create", "acme", "--scope", "root"], 1, "scopes"),
        (["keys", "create", "acme"], 2, "scope"),
        (["tenants", "create", "acme"], 3, "cannot be reached"),
    ],
)
def test_refusal_is_one_line_and_a_status(
    arguments: list[str], status: int, said: str
) -> None:
    done = Shell(NOBODY_LISTENS).run(*arguments)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
