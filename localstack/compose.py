"""LocalStack itself in Docker, with PostgreSQL and the demo target beside it."""

from __future__ import annotations

import hashlib
import os
import platform as machine
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from infra.layer import PLATFORMS, LayerError, build_layer
from infra.progress import StepFailed, run
from localstack import ports
from localstack.health import answers
from localstack.platform import HOST, Addresses, Part
from localstack.state import State
from localstack.workspace import PORT_VARIABLES, Workspace

DATABASE_USER = "effect_broker:local@"
APPLICATION_USER = "effect_broker_app:local@"


class Compose:
    """Three containers on this checkout's own network, each with a port on 127.0.0.1.

    LocalStack runs functions in containers of the Lambda runtime, so that the layer is
    shipped to it, built for this machine's processor.
    """

    def __init__(self, workspace: Workspace, state: State):
        self.workspace = workspace
        self.state = state

    def parts(self) -> Mapping[str, Callable[[], object]]:
        """The containers, which Docker starts together and waits for, and the layer."""
        return {"containers": self._start, "layer": self._layer}

    def addresses(self) -> Addresses:
        """Here by port, inside by the service's name."""
        local = {name: f"{HOST}:{port}" for name, port in self.state.ports.items()}
        database = "postgresql://{}{}/effect_broker"
        return Addresses(
            aws=f"http://{local['aws']}",
            database=database.format(DATABASE_USER, local["postgres"]),
            target=f"http://{local['target']}",
            database_inside=database.format(DATABASE_USER, "postgres:5432"),
            application_database_inside=database.format(
                APPLICATION_USER, "postgres:5432"
            ),
            target_inside="http://target:8080",
        )

    def context(self) -> Mapping[str, str]:
        """The layer and the processor that it was built for."""
        return {
            "layer": str(PLATFORMS[_architecture()].folder),
            "architecture": _architecture(),
        }

    def generation(self) -> str | None:
        """LocalStack's container id, as its state goes with the container."""
        if not self._answers():
            return None
        listed = subprocess.run(
            self.command("ps", "--quiet", "aws"),
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        return listed.stdout.strip() or None

    def status(self) -> list[Part]:
        """Only what answers here; `docker compose ps` knows more."""
        endpoint = f"{HOST}:{self.state.ports.get('aws')}"
        return [Part("LocalStack", self._answers(), endpoint)]

    def stop(self) -> None:
        """Remove this checkout's containers, network and volumes."""
        if self.state.ports and _docker_answers():
            self._compose("down", "--volumes", "--timeout", "5")

    def command(self, *verb: str) -> list[str | Path]:
        """The compose command for a verb, with this checkout's own project name."""
        root = self.workspace.root
        digest = hashlib.sha256(str(root).encode()).hexdigest()[:8]
        compose = root / "localstack" / "compose.yaml"
        project = f"effect-broker-{digest}"
        return ["docker", "compose", "-f", compose, "-p", project, *verb]

    def environment(self) -> dict[str, str]:
        """What compose.yaml reads, beside what the docker command itself needs."""
        chosen = {
            PORT_VARIABLES[name]: str(port) for name, port in self.state.ports.items()
        }
        return {**os.environ, **chosen, "CHECKOUT": str(self.workspace.root)}

    def _start(self) -> None:
        if not shutil.which("docker"):
            raise StepFailed(
                "LOCAL_AWS=localstack needs Docker, which is not on the PATH"
            )
        if not self._answers():
            for name in PORT_VARIABLES:
                self.state.ports[name] = ports.choose(
                    name, wanted=self.workspace.ports, last=self.state.ports
                )
            self.state.save(self.workspace.state_file)
        self._compose("up", "--detach", "--wait")

    def _layer(self) -> None:
        try:
            build_layer(PLATFORMS[_architecture()])
        except LayerError as error:
            raise StepFailed(str(error)) from error

    def _answers(self) -> bool:
        port = self.state.ports.get("aws")
        return port is not None and answers(f"http://{HOST}:{port}/_localstack/health")

    def _compose(self, *verb: str) -> None:
        run(
            self.command(*verb),
            log=self.workspace.log("compose"),
            environment=self.environment(),
            cwd=self.workspace.root,
        )


def _docker_answers() -> bool:
    if not shutil.which("docker"):
        return False
    asked = (["docker", "compose", "version"], ["docker", "info"])
    return all(
        subprocess.run(command, capture_output=True, check=False).returncode == 0
        for command in asked
    )


def _architecture() -> str:
    return "arm64" if machine.machine() in ("aarch64", "arm64") else "x86_64"
