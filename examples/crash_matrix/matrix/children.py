"""The processes of the matrix as their maker sees them: made, stopped, killed, ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


@dataclass(eq=False)
class Child:
    """One process; `status` is its exit status once it has ended, -9 for SIGKILL."""

    name: str
    pid: int
    status: int | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_alive(self) -> bool:
        """Say whether it could still do something."""
        return self.status is None

    async def stopped_or_ended(self) -> None:
        """Wait until it stands at a failpoint, or is no more."""
        await self._changed.wait()

    async def ended(self) -> None:
        """Wait until it is no more."""
        while self.is_alive:
            self._changed.clear()
            await self._changed.wait()

    def kill(self) -> None:
        """End it at once, also while it is stopped."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """Make it stand still, wherever it is."""
        self._signal(signal.SIGSTOP)

    def terminate(self) -> None:
        """Tell it to end; one that is stopped hears it when it goes on."""
        self._signal(signal.SIGTERM)

    def go_on(self) -> None:
        """Let it go on from where it stands."""
        self._changed.clear()
        self._signal(signal.SIGCONT)

    def hear(self, news: Mapping[str, Any]) -> None:
        """Take in what the nursery says of it."""
        if "ended" in news:
            self.status = news["ended"]
        self._changed.set()

    def _signal(self, number: signal.Signals) -> None:
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Nursery:
    """Asks the process that forks, and passes on what it says."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[int]] = {}
        self._children: dict[int, Child] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, log: Path, mutant: str | None) -> AsyncIterator[Nursery]:
        """Run a nursery; every process that it made is gone when the block ends."""
        with log.open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "examples.crash_matrix.matrix.nursery",
                *([mutant] if mutant else []),
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
            )
        nursery = cls(process)
        listening = asyncio.create_task(nursery._listen())
        try:
            yield nursery
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()
            await listening

    async def make(
        self,
        name: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
    ) -> Child:
        """Start a process of `process.py` with this environment and no other."""
        number = next(self._numbers)
        asked = {
            "id": number,
            "arguments": list(arguments),
            "environment": {"PATH": os.environ["PATH"], "TZ": "UTC", **environment},
            "log": str(log),
        }
        born = self._asked[number] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        pid = await born
        self._children[pid].name = name
        return self._children[pid]

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            async for line in self._process.stdout:
                self._hear(json.loads(line))
        finally:
            # Whoever still waits would wait for ever.
            for child in self._children.values():
                child.hear({"ended": -9 if child.is_alive else child.status})
            for born in self._asked.values():
                born.cancel()

    def _hear(self, news: Mapping[str, Any]) -> None:
        if "id" not in news:
            self._children[news["pid"]].hear(news)
            return
        self._children[news["pid"]] = Child("", news["pid"])
        born = self._asked.pop(news["id"])
        if not born.done():
            born.set_result(news["pid"])
