"""Where everything of this checkout's local AWS is: below `.local`, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MINISTACK = "emulator"
LOCALSTACK = "localstack"
REGION = "us-east-1"
ACCOUNT = "000000000000"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}

# The variables that set a port; unset ones are chosen.
PORT_VARIABLES = {
    "aws": "LOCAL_AWS_PORT",
    "postgres": "LOCAL_POSTGRES_PORT",
    "target": "LOCAL_TARGET_PORT",
}


class WorkspaceError(ValueError):
    """A variable asks for something there is not; the message names it."""


@dataclass(frozen=True)
class Workspace:
    """The folders and files of one checkout, and what its variables ask for.

    `kind` is `emulator` or `localstack`; `ports` has those set by a variable.
    """

    root: Path = ROOT
    kind: str = MINISTACK
    ports: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Workspace:
        """Read LOCAL_AWS and the port variables.

        Raises:
            WorkspaceError: an unknown kind, or a port that is no port.
        """
        source = os.environ if environ is None else environ
        kind = source.get("LOCAL_AWS") or MINISTACK
        if kind not in (MINISTACK, LOCALSTACK):
            raise WorkspaceError(f"LOCAL_AWS={kind} is neither emulator nor localstack")
        ports = {
            name: _port(variable, source[variable])
            for name, variable in PORT_VARIABLES.items()
            if source.get(variable)
        }
        return cls(kind=kind, ports=ports)

    @property
    def state(self) -> Path:
        """The folder that holds everything, and that `git` ignores."""
        return self.root / ".local"

    @property
    def temporary(self) -> Path:
        """TMPDIR of all that is started here; it goes when all of it has stopped."""
        return self.state / "tmp"

    @property
    def emulator_temporary(self) -> Path:
        """The emulator's own: each Lambda worker runs from a folder in it."""
        return self.temporary / "emulator"

    @property
    def state_file(self) -> Path:
        return self.state / "state.json"

    @property
    def environment_file(self) -> Path:
        return self.state / "env"

    @property
    def keyring_file(self) -> Path:
        return self.state / "keyring.json"

    @property
    def application_password_file(self) -> Path:
        """What functions come into the database with, kept as long as it."""
        return self.state / "application-password"

    @property
    def postgres(self) -> Path:
        return self.state / "postgres"

    @property
    def target_database(self) -> Path:
        return self.state / "target" / "charges.db"

    @property
    def assembly(self) -> Path:
        """What the app made for the local deployment."""
        return self.state / "cdk.local"

    @property
    def outputs(self) -> Path:
        return self.state / "outputs.json"

    @property
    def contracts(self) -> Path:
        return self.root / "examples" / "contracts"

    def log(self, name: str) -> Path:
        """The log of one piece or step."""
        return self.state / "log" / f"{name}.log"


def _port(variable: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 0 < int(value) < 65536:
        raise WorkspaceError(f"{variable}={value} is no port")
    return int(value)
