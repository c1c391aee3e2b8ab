"""The processes that run Lambda functions: found by function, to be killed or suspended.

ministack runs a worker from a folder that has the function's name in it, one for each
environment. LocalStack's functions run in containers, and are not found here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from localstack import processes
from localstack.workspace import Workspace

_SCRIPT = re.compile(r"/ministack-lambda-(?P<function>.+)-[^-/]{8}/_worker\.\w+$")


@dataclass(frozen=True)
class Worker:
    """One environment of a function."""

    function: str
    pid: int


def workers(workspace: Workspace, function: str | None = None) -> list[Worker]:
    """Return the workers of this checkout's local AWS, or of one function by its name."""
    found = []
    for process in processes.started_from(workspace.emulator_temporary):
        for part in process.cmdline():
            if match := _SCRIPT.search(part):
                found.append(Worker(match["function"], process.pid))
    return [w for w in found if function in (None, w.function)]
