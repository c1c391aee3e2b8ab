"""Makes the processes of the matrix: `python -m examples.crash_matrix.matrix.nursery`.

It has everything imported once and forks for each process, so that one costs milliseconds
instead of a second. A line of JSON on stdin asks for a process; a line on stdout says
what became of one. When stdin ends, every child is killed.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
from contextlib import suppress
from typing import Any

from effect_broker.failpoints import adapters, ledger  # noqa: F401 - imported once, here
from examples.crash_matrix.matrix import process
from examples.crash_matrix.matrix.mutants import plant

PR_SET_PDEATHSIG = 1


def main() -> int:
    """Serve until stdin ends; an argument names a mutant to be planted first."""
    for name in sys.argv[1:]:
        plant(name)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    children: set[int] = set()
    rest = b""
    while True:
        ready, _, _ = select.select([0, reading], [], [])
        if reading in ready:
            os.read(reading, 4096)
        if 0 in ready:
            data = os.read(0, 1 << 16)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                children.add(_born(json.loads(line)))
        _tell_changes(children)
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return 0


def _born(asked: dict[str, Any]) -> int:
    pid = os.fork()
    if pid == 0:
        _live(asked)
    _tell({"id": asked["id"], "pid": pid})
    return pid


def _live(asked: dict[str, Any]) -> None:
    """Be the process that was asked for; never returns."""
    status = 70
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.clear()
        os.environ.update(asked["environment"])
        status = process.main(asked["arguments"])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Whatever happened, this must not go on as a second nursery.
        os._exit(status)


def _tell_changes(children: set[int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return
        if os.WIFSTOPPED(status):
            _tell({"pid": pid, "stopped": True})
            continue
        children.discard(pid)
        _tell({"pid": pid, "ended": os.waitstatus_to_exitcode(status)})


def _tell(news: dict[str, Any]) -> None:
    os.write(1, json.dumps(news).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
