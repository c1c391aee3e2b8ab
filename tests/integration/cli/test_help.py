"""The command line before it does anything: quick to start, and it completes itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAVY = (
    "alembic",
    "boto3",
    "cryptography",
    "effect_broker.broker",
    "effect_broker.wiring",
    "fastapi",
    "jsonschema",
    "mcp",
    "psycopg",
    "pydantic",
    "sqlalchemy",
)


def test_help_imports_nothing_that_a_command_needs() -> None:
    loaded = (
        "import sys, effect_broker.surfaces.cli.app;"
        f" print(*(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("effect-broker eff", {"effects"}),
        ("effect-broker effects res", {"resolve"}),
        ("effect-broker effects list --sta", {"--status"}),
        ("effect-broker effects list --status outcome", {"outcome_unknown"}),
    ],
)
def test_shell_completes_commands_options_and_states(
    words: str, offered: set[str]
) -> None:
    asked = {
        "_EFFECT_BROKER_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", "from effect_broker.surfaces.cli.app import main; main()"],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(done.stdout.split()) == offered, done.stderr
