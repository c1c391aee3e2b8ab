"""The Lambda workers around one held request: found, killed, paused and woken.

A process is touched only if it is a worker of this checkout's local AWS, runs the
function in question, and holds the other end of the request's connection.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

import psutil

from examples.crash_matrix.stack import Function, Stack
from examples.crash_matrix.target.client import DemoTarget
from localstack.workers import workers

KILL_SECONDS_MAX = 5.0
POLL_SECONDS = 0.02


class WorkerNotFound(Exception):
    """No worker holds the request: it ended by itself, or runs where nobody finds it."""


@dataclass(frozen=True)
class Worker:
    """One environment of a function, with a request of its own under way."""

    function: str
    process: psutil.Process

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Say whether it still runs, or could go on to run."""
        with suppress(psutil.NoSuchProcess):
            dead = self.process.status() == psutil.STATUS_ZOMBIE
            return self.process.is_running() and not dead
        return False

    def kill(self) -> None:
        """End it at once; it gets no chance to say or to store anything."""
        self.process.kill()
        self.wait_until_dead(KILL_SECONDS_MAX)

    def wait_until_dead(self, seconds_max: float) -> bool:
        """Say whether it has ended within the time."""
        deadline = time.monotonic() + seconds_max
        while self.alive and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return not self.alive


def holder(stack: Stack, function: Function, order: str) -> Worker:
    """Return the worker whose request about an order the target holds.

    Raises:
        WorkerNotFound: nothing is held, or nobody here holds the other end.
    """
    name = stack.name_of(function)
    ports = _caller_ports(stack.target, order)
    for found in workers(stack.workspace, name):
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(found.pid)
            connections = process.net_connections("tcp")
            if any({*connection.laddr[1:]} & ports for connection in connections):
                return Worker(name, process)
    raise WorkerNotFound(f"no worker of {name} has the request about {order}")


def _caller_ports(target: DemoTarget, order: str) -> set[int]:
    """Return the callers' ports of what is held; some of them may have given up."""
    held = {request.request_id for request in target.wait_held(order)}
    return {
        int(request.connection_id.rpartition(":")[2])
        for request in target.requests(order)
        if request.request_id in held
    }


@dataclass
class Pauses:
    """Workers that are paused; the end of the block wakes whoever still is."""

    _paused: list[Worker] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in list(self._paused):
            self.wake(worker)

    def pause(self, worker: Worker) -> None:
        """Stop it in the middle of whatever it does."""
        self._paused.append(worker)
        worker.process.suspend()

    def wake(self, worker: Worker) -> None:
        """Let it go on as if no time had passed."""
        with suppress(psutil.NoSuchProcess):
            worker.process.resume()
        self._paused.remove(worker)
