"""A real pgbouncer in transaction mode, before the server that the tests run on.

Clients share few server connections, and get whichever is free for each transaction: what
a session keeps is lost, or meets another client. It takes no start-up option that it does
not know, as RDS Proxy takes none.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pytest

from effect_broker.embedded import UNPRIVILEGED_USER
from effect_broker.ledger.connection import Call, Connections, Row

SERVER_CONNECTIONS: Final = 2
"""Of each database; fewer than clients, so that these meet on every one of them."""

START_SECONDS_MAX: Final = 20
SEARCHED: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
"""Debian installs servers where only root looks."""

CONFIGURATION: Final = """
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = plain
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 200
server_login_retry = 1
ignore_startup_parameters =
"""


class Alternating(Connections):
    """Two clients of one database that take turns, call by call."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.clients = [Connections(url, limit=2), Connections(url, limit=2)]

    async def fetch(self, call: Call) -> list[Row]:
        return await self._next().fetch(call)

    def lend(self) -> Any:
        return self._next().lend()

    async def close(self) -> None:
        for client in self.clients:
            await client.close()

    def _next(self) -> Connections:
        self.clients.reverse()
        return self.clients[0]


@dataclass
class Pooler:
    """One pgbouncer before one server; `url` leads a database's URL through it."""

    server: str
    folder: Path
    port: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def url(self, database_url: str) -> str:
        """Return the URL by which a database of the server is reached through it."""
        parts = urlsplit(database_url)
        credentials = parts.netloc.rpartition("@")[0]
        return parts._replace(netloc=f"{credentials}@127.0.0.1:{self.port}").geturl()

    def start(self) -> None:
        """Start it, on the port that it had before if there was one."""
        program = shutil.which("pgbouncer", path=SEARCHED)
        assert program is not None
        self.port = self.port or _free_port()
        self._configure()
        with (self.folder / "pgbouncer.log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, str(self.folder / "pgbouncer.ini")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                **_identity(),
            )
        self._wait(self._process)

    def stop(self) -> None:
        """End it at once, with every connection through it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _configure(self) -> None:
        parts = urlsplit(self.server)
        configuration = CONFIGURATION.format(
            host=parts.hostname,
            port=parts.port,
            listen_port=self.port,
            folder=self.folder,
            size=SERVER_CONNECTIONS,
        )
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        users = f'"{user}" "{password}"\n'
        self.folder.chmod(0o711)
        for name, text in (("pgbouncer.ini", configuration), ("users.txt", users)):
            path = self.folder / name
            path.touch(mode=0o600)
            path.write_text(text)
            if os.geteuid() == 0:
                owner = pwd.getpwnam(UNPRIVILEGED_USER)
                os.chown(path, owner.pw_uid, owner.pw_gid)

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        self.stop()
        raise AssertionError((self.folder / "pgbouncer.log").read_text())


@contextmanager
def pooler_before(server: str, folder: Path) -> Iterator[Pooler]:
    """Run a pooler before a server, given by a URL of its superuser.

    Without pgbouncer a test is skipped on a developer's machine and fails in CI.
    """
    if shutil.which("pgbouncer", path=SEARCHED) is None:
        missing = "pgbouncer is not installed: `tools/pgbouncer.sh` installs it"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    folder.mkdir(exist_ok=True)
    pooler = Pooler(server, folder)
    pooler.start()
    try:
        yield pooler
    finally:
        pooler.stop()


def _identity() -> dict[str, Any]:
    """pgbouncer refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    group = pwd.getpwnam(UNPRIVILEGED_USER).pw_gid
    return {"user": UNPRIVILEGED_USER, "group": group, "extra_groups": []}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
