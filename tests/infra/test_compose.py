"""LocalStack itself: checked as far as it can be without Docker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.cdk import ROOT
from infra.config import Config
from localstack.compose import Compose
from localstack.deploy import Deployer, local_context
from localstack.state import State
from localstack.workspace import PORT_VARIABLES, Workspace

STATE = State(ports={"aws": 4566, "postgres": 5432, "target": 8080})


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    path = ROOT / "localstack" / "compose.yaml"
    found: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text())["services"]
    return found


def test_every_image_is_pinned_to_a_version(services: dict[str, dict[str, Any]]) -> None:
    assert set(services) == {"aws", "postgres", "target"}
    for service in services.values():
        _, _, tag = service["image"].partition(":")
        assert re.match(r"\d+\.\d+", tag), service["image"]


def test_containers_listen_on_this_machine_only(
    services: dict[str, dict[str, Any]],
) -> None:
    for name, service in services.items():
        (port,) = service["ports"]
        assert port.startswith(f"127.0.0.1:${{{PORT_VARIABLES[name]}:?}}:")


def test_up_waits_for_every_container(services: dict[str, dict[str, Any]]) -> None:
    assert all("healthcheck" in service for service in services.values())


def test_every_variable_of_the_compose_file_is_given() -> None:
    given = Compose(Workspace(), STATE).environment()
    text = (ROOT / "localstack" / "compose.yaml").read_text()
    for name in re.findall(r"\$\{(\w+):\?\}", text):
        assert given[name]


def test_two_checkouts_are_two_projects(tmp_path: Path) -> None:
    one = Compose(Workspace(), STATE).command("up")
    other = Compose(Workspace(root=tmp_path), STATE).command("up")
    assert one[one.index("-p") + 1] != other[other.index("-p") + 1]
    assert one == Compose(Workspace(), STATE).command("up")


def test_the_same_commands_deploy_to_either_local_aws() -> None:
    emulator = Deployer(Workspace(), "http://127.0.0.1:4566")
    localstack = Deployer(Workspace(kind="localstack"), "http://127.0.0.1:4566")
    context = {"local": "true"}
    assert emulator.bootstrap_command() == localstack.bootstrap_command()
    assert emulator.synth_command(context) == localstack.synth_command(context)
    assert emulator.deploy_command() == localstack.deploy_command()


def test_functions_in_containers_reach_the_database_by_name_and_get_the_layer() -> None:
    platform = Compose(Workspace(kind="localstack"), STATE)
    addresses = platform.addresses()
    assert "@postgres:5432/" in addresses.database_inside
    assert "@127.0.0.1:5432/" in addresses.database
    assert addresses.target_inside == "http://target:8080"
    assert "//effect_broker_app:" in addresses.application_database_inside
    context = local_context(Workspace(), addresses=addresses, extra=platform.context())
    config = Config.from_context(context)
    assert config.layer is not None
    assert config.layer.name.startswith(config.architecture)
