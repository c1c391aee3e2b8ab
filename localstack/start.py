"""`up`: from nothing, or from whatever runs already, to a broker that answers."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from rich.console import Console

from infra.cdk import CDK_SCRIPT, node_folder
from infra.progress import StepFailed, Steps
from localstack import environment
from localstack.choice import platform_to_start
from localstack.deploy import Deployer, Deployment, local_context
from localstack.health import wait_for
from localstack.platform import Addresses, Platform
from localstack.seed import Seeder
from localstack.state import State
from localstack.workspace import MINISTACK, Workspace

DISK_NEEDED_MB = 500  # a new cluster, CDK's unpacked library and the workers' folders


def up(workspace: Workspace) -> None:
    """Start what is missing, deploy what has changed, and say where everything is.

    Raises:
        StepFailed: the first step that could not be done.
    """
    with Steps() as steps:
        with steps.step("preflight"):
            preflight(workspace)
        state = State.load(workspace.state_file)
        platform = platform_to_start(workspace, state)
        steps.together(platform.parts())
        addresses = platform.addresses()
        deployment = _deploy(steps, workspace, state, platform, addresses)
        _seed(steps, Seeder(workspace, state, addresses, deployment))
        with steps.step("API answers"):
            url = f"{deployment.api_url(addresses.aws)}/readyz"
            wait_for(url, log=workspace.log("emulator"))
        values = environment.variables(
            addresses, deployment, state.keys, workspace.keyring_file
        )
        environment.write(workspace.environment_file, values)
    _print_where(steps.console, workspace, values)
    steps.console.print(f"ready after {steps.elapsed:.1f} s")


def preflight(workspace: Workspace) -> None:
    """Refuse early, in words, what would fail later without them.

    Raises:
        StepFailed: no disk, a folder that cannot be written, a tool not installed.
    """
    workspace.state.mkdir(parents=True, exist_ok=True)
    workspace.temporary.mkdir(parents=True, exist_ok=True)
    free_mb = shutil.disk_usage(workspace.state).free // 2**20
    if free_mb < DISK_NEEDED_MB:
        raise StepFailed(
            f"{DISK_NEEDED_MB} MB of disk are needed in {workspace.state},"
            f" {free_mb} MB are free"
        )
    if node_folder() is None or not CDK_SCRIPT.exists():
        raise StepFailed("the CDK command is not installed: run `make setup`")
    if (
        workspace.kind == MINISTACK
        and not Path(sys.executable).with_name("ministack").exists()
    ):
        raise StepFailed("the AWS emulator is not installed: run `make setup`")


def _deploy(
    steps: Steps,
    workspace: Workspace,
    state: State,
    platform: Platform,
    addresses: Addresses,
) -> Deployment:
    deployer = Deployer(workspace, addresses.aws)
    context = local_context(workspace, addresses=addresses, extra=platform.context())
    generation = platform.generation()
    work = {"synth": lambda: deployer.synth(context)}
    if state.bootstrapped != generation:
        work["bootstrap"] = deployer.bootstrap
    steps.together(work)
    state.bootstrapped = generation
    state.save(workspace.state_file)
    with steps.step("deploy and migrate"):
        return deployer.deploy()


def _seed(steps: Steps, seeder: Seeder) -> None:
    for name, work in (
        ("secrets", seeder.secrets),
        ("demo tenant", seeder.tenant),
        ("contracts", seeder.contracts),
        ("API keys", seeder.keys),
    ):
        with steps.step(name):
            work()


def _print_where(console: Console, workspace: Workspace, values: dict[str, str]) -> None:
    for what, where in (
        ("HTTP API", values["EFFECT_BROKER_URL"]),
        ("demo target", values["DEMO_TARGET_URL"]),
        ("PostgreSQL", values["DATABASE_URL"]),
        ("AWS", values["AWS_ENDPOINT_URL"]),
        ("logs", str(workspace.log("*"))),
        ("keys and all this", f"source {workspace.environment_file}"),
    ):
        console.print(f"  {what:<18} {where}", soft_wrap=True, markup=False)
