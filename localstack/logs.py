"""`logs`: of parts and steps from files, of functions from the local AWS."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import boto3

from infra.progress import StepFailed
from localstack.platform import client_environment
from localstack.state import State
from localstack.workspace import CREDENTIALS, REGION, Workspace

LINES = 60
FUNCTION_NAMES = ("submit", "mcp", "dispatch", "reconcile", "migrate")


def logs(workspace: Workspace, name: str | None = None, *, follow: bool = False) -> None:
    """Print the end of one log, or of each; `follow` waits for more of one.

    Raises:
        StepFailed: there is no such log, or the local AWS is not there to be asked.
    """
    if name in FUNCTION_NAMES:
        for line in _function_lines(workspace, name):
            print(line)
        return
    known = sorted(path.stem for path in (workspace.state / "log").glob("*.log"))
    if name and name not in known:
        raise StepFailed(
            f"no log {name}; there are {', '.join([*known, *FUNCTION_NAMES])}"
        )
    files = [str(workspace.log(one)) for one in ([name] if name else known)]
    if not files:
        raise StepFailed("nothing has been started here yet")
    sys.stdout.flush()
    switches = ["-n", str(LINES), *(["-f"] if follow else [])]
    subprocess.run(["tail", *switches, *files], check=False)


def _function_lines(workspace: Workspace, name: str) -> Iterator[str]:
    port = State.load(workspace.state_file).ports.get("aws")
    if port is None:
        raise StepFailed("nothing has been started here yet")
    endpoint = client_environment(f"http://127.0.0.1:{port}")["AWS_ENDPOINT_URL"]
    client: Any = boto3.Session(
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        region_name=REGION,
    ).client("logs", endpoint_url=endpoint)
    group = f"/aws/lambda/effect-broker-local-{name}"
    pages = client.get_paginator("filter_log_events").paginate(logGroupName=group)
    events = [event for page in pages for event in page["events"]]
    for event in sorted(events, key=lambda event: event["timestamp"])[-LINES:]:
        yield event["message"].rstrip()
