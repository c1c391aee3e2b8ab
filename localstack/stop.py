"""`down`: nothing of this checkout runs any more; its data stays."""

from __future__ import annotations

import shutil

from infra.progress import Steps
from localstack.choice import platform_that_runs
from localstack.state import State
from localstack.workspace import Workspace


def down(workspace: Workspace) -> None:
    """Stop what is ours and remove what only a running stack needs.

    Ports, keys, keyring, database and charges stay, so that the next `up` finds the
    ledger as it was.
    """
    state = State.load(workspace.state_file)
    with Steps() as steps, steps.step("stop"):
        platform_that_runs(workspace, state).stop()
        workspace.environment_file.unlink(missing_ok=True)
        shutil.rmtree(workspace.temporary, ignore_errors=True)
        if workspace.state_file.exists():
            state.kind = state.bootstrapped = None
            state.save(workspace.state_file)
