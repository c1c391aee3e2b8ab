"""A typed client of the control surface, and a way to run the target beside a test."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

ROOT = Path(__file__).resolve().parents[3]
STOP_SECONDS_MAX = 5.0
# More than the longest long poll and the longest release take.
ANSWER_SECONDS_MAX = 90.0


class TargetRefused(Exception):
    """The target did not do what it was told; the message is its own."""


@dataclass(frozen=True)
class Charge:
    """One row of the authoritative table."""

    id: str
    world: str
    amount: int
    currency: str
    order: str
    reference: str | None
    key: str | None
    created_at: str


@dataclass(frozen=True)
class SeenRequest:
    """One request as it stood on the wire.

    `outcome` is running, answered, dropped, reset, truncated or client_gone; `status` is
    what was or would have been answered; `charge_id` is set if this request committed.
    `connection_id` ends in the caller's port, as `:PORT`.
    """

    request_id: int
    world: str
    method: str
    path: str
    order: str | None
    reference: str | None
    idempotency_key: str | None
    send_deadline: str | None
    header_names: list[str]
    body_sha256: str
    arrived_at: str
    connection_id: str
    fault: str | None
    outcome: str
    status: int | None
    charge_id: str | None


@dataclass(frozen=True)
class Held:
    """One request that waits for a release; `stage` is before_commit or after_commit."""

    request_id: int
    world: str
    order: str | None
    stage: str
    held_at: str


class DemoTarget:
    """Talks to a running target; every call is one request on a connection of its own."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def settings(self, **changes: object) -> dict[str, Any]:
        """Change the settings that are named and give them all."""
        if changes:
            return self._call("PUT", "/control/settings", changes)
        return self._call("GET", "/control/settings")

    def fault(self, fault: str, **fields: object) -> None:
        """Queue a fault: world, order, on, times, seconds, status, code, retry_after,
        location and mebibytes as `faults.Fault` says.
        """
        self._call("POST", "/control/faults", {"fault": fault, **fields})

    def forget_faults(self, order: str) -> int:
        """Drop the faults of an order that no request has used yet."""
        answer = self._call("DELETE", f"/control/faults{_query(order=order)}")
        return int(answer["forgotten"])

    def faults_left(self) -> list[dict[str, Any]]:
        """List what no request has used yet."""
        return list(self._call("GET", "/control/faults")["faults"])

    def charges(self, order: str | None = None, world: str | None = None) -> list[Charge]:
        """List what was really charged."""
        query = _query(order=order, world=world)
        answer = self._call("GET", f"/control/charges{query}")
        return [Charge(**charge) for charge in answer["charges"]]

    def requests(self, order: str | None = None) -> list[SeenRequest]:
        """List every request that was read in full, lookups included."""
        answer = self._call("GET", f"/control/requests{_query(order=order)}")
        return [SeenRequest(**request) for request in answer["requests"]]

    def posts(self, order: str | None = None) -> list[SeenRequest]:
        """List the requests that could have charged."""
        return [seen for seen in self.requests(order) if seen.method == "POST"]

    def wait_held(
        self, order: str | None = None, *, count: int = 1, seconds: float = 10.0
    ) -> list[Held]:
        """Give the held requests as soon as there are `count`.

        Raises:
            TimeoutError: there are fewer after the time (60 seconds at most).
        """
        query = _query(order=order, count=count, wait=seconds)
        held = [Held(**row) for row in self._call("GET", f"/control/held{query}")["held"]]
        if len(held) < count:
            raise TimeoutError(f"{len(held)} of {count} requests held after {seconds} s")
        return held

    def release(self, order: str | None = None) -> int:
        """Let held requests go on; they have acted and answered when this returns."""
        body = {} if order is None else {"order": order}
        return int(self._call("POST", "/control/release", body)["released"])

    def reset(self) -> None:
        """Forget everything; requests under way end without acting."""
        self._call("POST", "/control/reset", {})

    def _call(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> dict[str, Any]:
        address = urlsplit(self.url)
        connection = HTTPConnection(
            address.hostname or "", address.port, timeout=ANSWER_SECONDS_MAX
        )
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, {"Connection": "close"})
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise TargetRefused(f"{method} {path}: {answer['error']['message']}")
        return answer


class RunningTarget(DemoTarget):
    """A target that this process started."""

    def __init__(self, url: str, process: subprocess.Popen[str]) -> None:
        super().__init__(url)
        self.process = process

    def kill(self) -> None:
        """End it as a crash would: nothing is flushed, nothing is answered."""
        self.process.kill()
        self.process.wait(STOP_SECONDS_MAX)


@contextmanager
def run_target(database: Path, *, port: int = 0) -> Iterator[RunningTarget]:
    """Run the target until the block ends, with its log beside the database.

    It stops with this process even if the block never ends.

    Raises:
        TargetRefused: it did not start; the log says why.
    """
    log = database.with_suffix(".log")
    command = [sys.executable, "-m", "examples.crash_matrix.target", "--stop-at-eof"]
    command += ["--port", str(port), "--database", str(database.resolve())]
    with (
        log.open("a") as stderr,
        subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        try:
            yield RunningTarget(_handshake(process, log), process)
        finally:
            process.terminate()
            _wait_or_kill(process)


def _handshake(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise TargetRefused(f"the target did not start: {log.read_text().strip()}")
    return str(json.loads(line)["url"])


def _wait_or_kill(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()


def _query(**parameters: object) -> str:
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""
