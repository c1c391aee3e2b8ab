"""Which platform a workspace asks for."""

from __future__ import annotations

from localstack.compose import Compose
from localstack.ministack import Ministack
from localstack.platform import Platform
from localstack.state import State
from localstack.workspace import LOCALSTACK, Workspace


def platform_for(workspace: Workspace, state: State) -> Platform:
    """The platform that LOCAL_AWS names; everything above it is the same for both."""
    chosen = Compose if workspace.kind == LOCALSTACK else Ministack
    return chosen(workspace, state)
