"""The README's first command, run as a reader would run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from examples.crash_matrix.stack import Stack
from examples.crash_matrix.user import User

DEMO_SECONDS_MAX = 90


def test_the_demo_shows_one_charge_after_a_kill_a_pause_and_ten_resubmissions(
    own_stack: Stack, user: User
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.crash_matrix", "demo"],
        cwd=own_stack.workspace.root,
        env={**os.environ, "LOCAL_AWS": own_stack.workspace.kind},
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS_MAX,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads((own_stack.workspace.state / "demo.json").read_text())
    assert {letter: found["held"] for letter, found in figures.items()} == {
        "A": True,
        "B": True,
        "C": True,
    }
    settled = {"charges": 1, "receipts": 1, "status": "succeeded"}
    unknown = {"charges": 1, "receipts": 0, "status": "outcome_unknown"}
    assert figures["A"].items() >= {**settled, "attempts": 3}.items()
    assert figures["B"].items() >= {**settled, "attempts": 1}.items()
    assert figures["C"].items() >= {**unknown, "attempts": 1}.items()
    effect = next(user.effects(operation_prefix="order:order-42"))
    order = effect["operation_key"].split(":")[1]
    assert len(own_stack.target.charges(order)) == 1
