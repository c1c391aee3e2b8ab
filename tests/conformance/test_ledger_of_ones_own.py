"""The ledger's suite runs on a store that somebody else names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_suite_runs_on_a_named_store_too() -> None:
    suite = ("tests/conformance/test_ledger_reading.py", "-k", "own")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *suite],
        cwd=ROOT,
        env=os.environ
        | {"EFFECT_BROKER_TEST_STORE": "tests.conformance.ledgers:memory_store"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
