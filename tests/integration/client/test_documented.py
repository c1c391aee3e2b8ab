"""The documented programs, run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.crash_matrix.target.client import run_target
from tests.integration.cli.test_plain_process import Shell

ROOT = Path(__file__).parents[3]
PROGRAM = re.compile(r"```python\n(import .*?)```", re.DOTALL)


@pytest.fixture
def shell(fresh_database: str) -> Shell:
    shell = Shell(fresh_database)
    shell.lines("contracts", "publish", str(ROOT / "examples" / "contracts"))
    shell.lines("tenants", "create", "demo")
    return shell


def test_documented_programs_answer_with_one_effect(shell: Shell, tmp_path: Path) -> None:
    over_http, in_process, executed = PROGRAM.findall(
        (ROOT / "docs" / "python.md").read_text()
    )
    scopes = ("--scope", "submit", "--scope", "read")
    (made,) = shell.lines("keys", "create", "demo", *scopes)
    with shell.serving() as (address, _):
        found = {"EFFECT_BROKER_URL": address, "EFFECT_BROKER_API_KEY": made["key"]}
        printed = run(over_http, os.environ | found)
    assert printed.startswith("prepared Recorded and not sent yet")
    assert run(in_process, shell.environment).endswith(" True\n")
    with run_target(tmp_path / "charges.db") as target:
        there = shell.environment | {"EFFECT_BROKER_SECRET__DEMO__BASE_URL": target.url}
        assert run(executed, there) == "succeeded False\n"
        assert run(executed, there) == "succeeded True\n"


def run(program: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
