"""`status`: each part with its health."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from localstack.choice import platform_that_runs
from localstack.deploy import Deployment
from localstack.health import problem
from localstack.platform import Part
from localstack.state import State
from localstack.workers import workers
from localstack.workspace import Workspace


def status(workspace: Workspace, console: Console | None = None) -> bool:
    """Print the parts and say whether all of them are healthy."""
    state = State.load(workspace.state_file)
    platform = platform_that_runs(workspace, state)
    parts = platform.status()
    if all(part.healthy for part in parts):
        parts.append(_api(workspace, platform.addresses().aws))
    parts += [
        Part("worker", True, f"{worker.function}, pid {worker.pid}")
        for worker in workers(workspace)
    ]
    shown = console or Console(highlight=False)
    width = max(len(part.name) for part in parts)
    for part in parts:
        mark = "[green]healthy[/]" if part.healthy else "[red]down   [/]"
        shown.print(f"{part.name:<{width}}  {mark}  {escape(part.where)}", soft_wrap=True)
    return all(part.healthy for part in parts)


def _api(workspace: Workspace, endpoint: str) -> Part:
    try:
        url = Deployment.read(workspace.outputs).api_url(endpoint)
    except (FileNotFoundError, KeyError, ValueError):
        return Part("HTTP API", False, "not deployed")
    found = problem(f"{url}/readyz")
    return Part("HTTP API", found is None, url if found is None else f"{url}: {found}")
