"""The local stack, brought up for these tests and shared by all of them.

It is the checkout's own: one that runs already is used and left running, one that was
started here is stopped after the last test that uses it, whichever process that is in.
Tests that disturb others (a killed worker, a stopped database) have it to themselves.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples.crash_matrix.stack import Stack, localstack
from examples.crash_matrix.user import User
from localstack.choice import platform_that_runs
from localstack.state import State
from localstack.workspace import Workspace


@pytest.fixture(scope="session")
def running_stack() -> Iterator[Stack]:
    workspace = Workspace.from_environment({})
    workspace.state.mkdir(exist_ok=True)
    started_here = workspace.state / "e2e.started"
    with (workspace.state / "e2e.users").open("w") as users:
        with _locked(workspace.state / "e2e.changing"):
            if not _anything_runs(workspace):
                started_here.touch()
            fcntl.flock(users, fcntl.LOCK_SH)
            stack = Stack.found(workspace) or Stack.up(workspace)
        yield stack
        with _locked(workspace.state / "e2e.changing"):
            if _is_last(users) and started_here.exists():
                localstack("down", workspace)
                started_here.unlink()


@pytest.fixture
def stack(running_stack: Stack) -> Iterator[Stack]:
    """Yield the stack while nobody disturbs it."""
    with _locked(running_stack.workspace.state / "e2e.disturbing", fcntl.LOCK_SH):
        yield running_stack


@pytest.fixture
def own_stack(running_stack: Stack) -> Iterator[Stack]:
    """Yield the stack to one test alone."""
    with _locked(running_stack.workspace.state / "e2e.disturbing"):
        yield running_stack


@pytest.fixture
def user(running_stack: Stack) -> Iterator[User]:
    """Yield somebody who may submit and read."""
    with running_stack.caller() as caller:
        yield caller


@pytest.fixture
def operator(running_stack: Stack) -> Iterator[User]:
    """Yield somebody who may also resolve."""
    with running_stack.operator() as caller:
        yield caller


@contextmanager
def _locked(path: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, how)
        yield


def _anything_runs(workspace: Workspace) -> bool:
    state = State.load(workspace.state_file)
    parts = platform_that_runs(workspace, state).status()
    return any(part.healthy for part in parts)


def _is_last(users: object) -> bool:
    """Say whether no other process of any test run uses the stack."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)  # type: ignore[arg-type]
    except BlockingIOError:
        return False
    return True
