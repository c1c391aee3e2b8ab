"""Processes of this checkout: started apart, recognised again, stopped with children.

A recorded process id proves nothing by itself, since ids are used again: a process is
ours if it started when ours did and its command line says what ours says.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

# The boot clock and the process table round differently.
START_TOLERANCE_SECONDS = 1.0
TERMINATE_SECONDS_MAX = 5.0
KILL_SECONDS_MAX = 5.0
POLL_SECONDS = 0.02

# A handle that is dropped while its process runs warns, and these are meant to run on.
_kept: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True)
class ProcessRecord:
    """What recognises a process: its id, its start (Unix time), part of its command."""

    pid: int
    started: float
    marker: str

    def find(self) -> psutil.Process | None:
        """Return the process if it still runs and is ours."""
        try:
            process = psutil.Process(self.pid)
            same_start = (
                abs(process.create_time() - self.started) <= START_TOLERANCE_SECONDS
            )
            command = " ".join(process.cmdline())
            dead = process.status() == psutil.STATUS_ZOMBIE
        except psutil.Error:
            return None
        return process if same_start and self.marker in command and not dead else None


def start(
    command: Sequence[str | Path],
    *,
    log: Path,
    environment: Mapping[str, str],
    cwd: Path,
    marker: str,
) -> ProcessRecord:
    """Start a process that outlives this one, with its output in a log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=cwd,
            start_new_session=True,
        )
    _kept.append(process)
    started = psutil.Process(process.pid).create_time()
    return ProcessRecord(process.pid, started, marker)


def descendants(process: psutil.Process) -> list[psutil.Process]:
    """Return the processes below one, whether they run, wait or are suspended."""
    with suppress(psutil.NoSuchProcess):
        return process.children(recursive=True)
    return []


def started_from(folder: Path) -> list[psutil.Process]:
    """Return the processes that run a program or script below a folder."""
    prefix = f"{folder}/"
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(part.startswith(prefix) for part in process.cmdline()):
                found.append(process)
    return found


def stop(processes: Iterable[psutil.Process]) -> None:
    """Ask processes to end, then kill what is left of them and of what they had started.

    A suspended process hears no request and is killed at once.
    """
    asked = list(processes)
    family = {p.pid: p for one in asked for p in [one, *descendants(one)]}
    hearing = [process for process in asked if _hears(process)]
    for process in hearing:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _wait(hearing, TERMINATE_SECONDS_MAX)
    for process in family.values():
        with suppress(psutil.NoSuchProcess):
            process.kill()
    _wait(family.values(), KILL_SECONDS_MAX)
    _kept[:] = [handle for handle in _kept if handle.poll() is None]


def _wait(processes: Iterable[psutil.Process], seconds_max: float) -> None:
    """Wait until all have ended, whether or not their parents have noticed."""
    deadline = time.monotonic() + seconds_max
    for process in processes:
        while _runs(process) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)


def _hears(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_STOPPED
    return False


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
