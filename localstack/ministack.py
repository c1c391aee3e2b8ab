"""The local AWS without Docker: ministack, an embedded PostgreSQL and the demo target.

ministack runs each Lambda worker as its own child process, on this interpreter. They find
`effect_broker` in the checkout's `layer`, so that no layer is unzipped for each of them.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from effect_broker.embedded import EmbeddedPostgres, EmbeddedPostgresError
from effect_broker.ledger.migrate import APPLICATION
from infra.cdk import search_path
from infra.progress import StepFailed
from localstack import ports, processes
from localstack.health import answers, wait_for
from localstack.platform import HOST, Addresses, Part, client_environment
from localstack.state import State
from localstack.workspace import Workspace

EMULATOR = "emulator"
TARGET = "target"
EMULATOR_MODULE = "ministack"
TARGET_MODULE = "examples.crash_matrix.target"

_INHERITED = ("LANG", "LC_ALL", "USER")


class Ministack:
    """Three processes on this machine, each on a port of 127.0.0.1."""

    def __init__(self, workspace: Workspace, state: State):
        self.workspace = workspace
        self.state = state

    def parts(self) -> Mapping[str, Callable[[], object]]:
        """The database, the emulator and the target; none needs another to start."""
        return {
            "PostgreSQL": self._start_postgres,
            "AWS emulator": self._start_emulator,
            "demo target": self._start_target,
        }

    def addresses(self) -> Addresses:
        """Functions run on this machine too, so that inside and outside are the same."""
        target = f"http://{HOST}:{self.state.ports[TARGET]}"
        database = EmbeddedPostgres.start(self.workspace.postgres).url()
        place = database.rpartition("@")[2]
        return Addresses(
            aws=self._endpoint(),
            database=database,
            target=target,
            database_inside=database,
            application_database_inside=(
                f"postgresql://{APPLICATION}:{self.application_password()}@{place}"
            ),
            target_inside=target,
        )

    def context(self) -> Mapping[str, str]:
        """Nothing: functions find the package on their own path."""
        return {}

    def generation(self) -> str | None:
        """The emulator keeps its state in memory, so that its process is the state."""
        record = self.state.processes.get(EMULATOR)
        return f"{record.pid}@{record.started}" if record and record.find() else None

    def status(self) -> list[Part]:
        """Ask each part, and not only whether its process is there."""
        return [self._postgres_part(), *self._process_parts()]

    def stop(self) -> None:
        """Stop the processes on record, their orphans, and the database in good order."""
        records = [self.state.processes.pop(name, None) for name in (EMULATOR, TARGET)]
        processes.stop([p for record in records if record and (p := record.find())])
        processes.stop(processes.started_from(self.workspace.temporary))
        if self._postgres_runs():
            EmbeddedPostgres.start(self.workspace.postgres).stop()

    def application_password(self) -> str:
        """What functions come into the database with, made once and kept with it."""
        path = self.workspace.application_password_file
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(secrets.token_urlsafe(24))
        return path.read_text()

    def _start_postgres(self) -> None:
        try:
            EmbeddedPostgres.start(
                self.workspace.postgres, port=self._wanted_postgres_port()
            )
        except EmbeddedPostgresError as error:
            raise StepFailed(str(error)) from error

    def _wanted_postgres_port(self) -> int | None:
        wanted = self.workspace.ports.get("postgres")
        if wanted and not self._postgres_runs() and not ports.is_free(wanted):
            raise ports.taken("postgres", wanted)
        return wanted

    def _start_emulator(self) -> None:
        if not self._runs(EMULATOR):
            shutil.rmtree(self.workspace.emulator_temporary, ignore_errors=True)
            port = self._choose_port("aws")
            command = [sys.executable, "-m", EMULATOR_MODULE]
            self._launch(EMULATOR, command, self.emulator_environment(port))
        url = f"{self._endpoint()}/_ministack/health"
        self._wait(EMULATOR, url)

    def _start_target(self) -> None:
        database = self.workspace.target_database
        database.parent.mkdir(parents=True, exist_ok=True)
        if not self._runs(TARGET):
            port = self._choose_port(TARGET)
            command = [sys.executable, "-m", TARGET_MODULE, "--port", str(port)]
            command += ["--database", str(database)]
            environment = {**_inherited(), "PYTHONPATH": str(self.workspace.root)}
            self._launch(TARGET, command, environment)
        self._wait(TARGET, f"http://{HOST}:{self.state.ports[TARGET]}/healthz")

    def emulator_environment(self, port: int) -> dict[str, str]:
        """What the emulator sees, and what each Lambda worker inherits from it."""
        temporary = self.workspace.emulator_temporary
        temporary.mkdir(parents=True, exist_ok=True)
        return {
            **_inherited(),
            **client_environment(f"http://{HOST}:{port}"),
            "PATH": search_path(),
            "PYTHONPATH": str(self.workspace.root / "layer"),
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": str(temporary),
            "HOME": str(temporary),
            "STATE_DIR": str(temporary / "state"),  # its default is one for all users
            "S3_DATA_DIR": str(temporary / "s3"),
            "NODE_DISABLE_COMPILE_CACHE": "1",
            "GATEWAY_PORT": str(port),
            "BIND_HOST": HOST,  # its default is every interface
            "MINISTACK_HOST": HOST,
            "SFTP_ENABLED": "0",  # listeners beside the one port
            "IOT_MTLS_ENABLED": "0",
        }

    def _launch(
        self, name: str, command: list[str], environment: Mapping[str, str]
    ) -> None:
        self.state.processes[name] = processes.start(
            command,
            log=self.workspace.log(name),
            environment=environment,
            cwd=self.workspace.state,
            marker=command[2],
        )
        self.state.save(self.workspace.state_file)

    def _choose_port(self, name: str) -> int:
        port = ports.choose(name, wanted=self.workspace.ports, last=self.state.ports)
        self.state.ports[name] = port
        return port

    def _wait(self, name: str, url: str) -> None:
        wait_for(url, log=self.workspace.log(name), still_runs=lambda: self._runs(name))

    def _runs(self, name: str) -> bool:
        record = self.state.processes.get(name)
        return record is not None and record.find() is not None

    def _postgres_runs(self) -> bool:
        return EmbeddedPostgres(self.workspace.postgres, Path()).is_running()

    def _endpoint(self) -> str:
        return f"http://{HOST}:{self.state.ports['aws']}"

    def _postgres_part(self) -> Part:
        server = EmbeddedPostgres(self.workspace.postgres, Path())
        runs = server.is_running()
        return Part("PostgreSQL", runs, f"{HOST}:{server.port}" if runs else "stopped")

    def _process_parts(self) -> list[Part]:
        found = []
        for name, label, port, path in (
            (EMULATOR, "AWS emulator", "aws", "/_ministack/health"),
            (TARGET, "demo target", TARGET, "/healthz"),
        ):
            runs = self._runs(name)
            url = f"http://{HOST}:{self.state.ports.get(port)}"
            healthy = runs and answers(f"{url}{path}")
            pid = f", pid {self.state.processes[name].pid}" if runs else ""
            found.append(Part(label, healthy, f"{url}{pid}" if runs else "stopped"))
        return found


def _inherited() -> dict[str, str]:
    """None of the caller's settings: a profile would get into every worker."""
    return {name: os.environ[name] for name in _INHERITED if name in os.environ}
