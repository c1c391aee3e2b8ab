"""Which platform a workspace asks for."""

from __future__ import annotations

from infra.progress import StepFailed
from localstack.compose import Compose
from localstack.ministack import Ministack
from localstack.platform import Platform
from localstack.state import State
from localstack.workspace import LOCALSTACK, Workspace


def platform_to_start(workspace: Workspace, state: State) -> Platform:
    """The platform that LOCAL_AWS names; everything above it is the same for both.

    Raises:
        StepFailed: the other one runs here.
    """
    if state.kind not in (None, workspace.kind):
        raise StepFailed(f"LOCAL_AWS={state.kind} runs here: `make down` first")
    state.kind = workspace.kind
    return _make(workspace.kind, workspace, state)


def platform_that_runs(workspace: Workspace, state: State) -> Platform:
    """The platform that was started, whatever LOCAL_AWS says now."""
    return _make(state.kind or workspace.kind, workspace, state)


def _make(kind: str, workspace: Workspace, state: State) -> Platform:
    return (Compose if kind == LOCALSTACK else Ministack)(workspace, state)
