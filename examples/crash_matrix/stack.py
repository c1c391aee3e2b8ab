"""The local broker: found by `.local/env`, brought up where it does not run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import boto3
from botocore.config import Config as ClientConfig

from examples.crash_matrix.target.client import DemoTarget
from examples.crash_matrix.user import User
from localstack.deploy import source_revision
from localstack.health import answers
from localstack.workspace import Workspace

Function = Literal["submit", "dispatch", "reconcile", "migrate"]

# Longer than a worker may run: a client that gives up and repeats would run it twice.
INVOKE_SECONDS_MAX = 90


class StackFailed(Exception):
    """The local broker could not be started or stopped."""


class Stack:
    """What `.local/env` says, and calls of the deployed parts by it."""

    def __init__(self, workspace: Workspace, values: Mapping[str, str]) -> None:
        self.workspace = workspace
        self.values = values
        self.target = DemoTarget(values["DEMO_TARGET_URL"])
        self._clients: dict[str, Any] = {}

    @classmethod
    def found(cls, workspace: Workspace) -> Stack | None:
        """Return the broker of this checkout if it answers and runs this code."""
        try:
            values = read_environment(workspace.environment_file.read_text())
        except FileNotFoundError:
            return None
        stack = cls(workspace, values)
        return stack if stack._healthy() and stack._current() else None

    @classmethod
    def up(cls, workspace: Workspace) -> Stack:
        """Start what is missing and deploy what has changed, as `make up` does.

        Raises:
            StackFailed: what could not be done has been said on stderr.
        """
        localstack("up", workspace)
        return cls(workspace, read_environment(workspace.environment_file.read_text()))

    def caller(self) -> User:
        """Somebody who may submit and read."""
        return User(self.url, self.values["EFFECT_BROKER_API_KEY"])

    def operator(self) -> User:
        """Somebody who may also resolve."""
        return User(self.url, self.values["EFFECT_BROKER_OPERATOR_KEY"])

    @property
    def url(self) -> str:
        """The address of the HTTP API."""
        return self.values["EFFECT_BROKER_URL"]

    def name_of(self, function: Function) -> str:
        """Return what a function is called in the local AWS."""
        return self.values[f"{function.upper()}_FUNCTION"]

    def sweep(self, function: Literal["dispatch", "reconcile"]) -> None:
        """Send now what the schedule sends each minute, and to where it sends it."""
        schedule = self.aws("scheduler").get_schedule(
            Name=f"{self.name_of(function)}-sweep"
        )
        target = schedule["Target"]
        self.aws("lambda").invoke(
            FunctionName=target["Arn"], Payload=target["Input"], InvocationType="Event"
        )

    def aws(self, service: str) -> Any:
        """Return a client of the local AWS, and never of another one."""
        if service not in self._clients:
            self._clients[service] = self._session.client(
                service,
                endpoint_url=self.values["AWS_ENDPOINT_URL"],
                config=ClientConfig(
                    read_timeout=INVOKE_SECONDS_MAX, retries={"total_max_attempts": 1}
                ),
            )
        return self._clients[service]

    @cached_property
    def _session(self) -> Any:
        return boto3.Session(
            aws_access_key_id=self.values["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.values["AWS_SECRET_ACCESS_KEY"],
            region_name=self.values["AWS_REGION"],
        )

    def _healthy(self) -> bool:
        return answers(f"{self.url}/readyz") and answers(f"{self.target.url}/healthz")

    def _current(self) -> bool:
        """Say whether what is deployed was made from the code of this checkout."""
        deployed = self.aws("lambda").get_function_configuration(
            FunctionName=self.name_of("dispatch")
        )
        revision = source_revision(self.workspace.root)
        return str(deployed["Description"]).endswith(revision)


def localstack(verb: Literal["up", "down"], workspace: Workspace) -> None:
    """Run a verb in a process of its own, whose children then are not this one's.

    Raises:
        StackFailed: what could not be done has been said on stderr.
    """
    done = subprocess.run(
        [sys.executable, "-m", "localstack", verb],
        cwd=workspace.root,
        env={**os.environ, "LOCAL_AWS": workspace.kind},
        check=False,
    )
    if done.returncode != 0:
        raise StackFailed(f"make {verb} did not succeed")


def read_environment(text: str) -> dict[str, str]:
    """Read `export NAME=value` lines as a shell would."""
    assignments = [shlex.split(line)[1] for line in text.splitlines() if line]
    return dict(assignment.split("=", 1) for assignment in assignments)
