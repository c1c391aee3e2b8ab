"""Plays a case through a system: run it, let it die or lose the answer, run it again."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.crash_matrix.matrix.grounds import KEYRING, Grounds
from examples.spike.cases import Case, Play

ROOT: Final = Path(__file__).parents[2]
TURN_SECONDS_MAX: Final = 60.0
"""Longer than any of the systems waits for anything here."""


class NotPlayed(Exception):
    """A program did not do what it is for, which says nothing about its system."""


@dataclass(frozen=True)
class Told:
    """What a program's caller is told, and what its system has on record."""

    told: str
    on_record: str


@dataclass(frozen=True)
class Played:
    """What one play came to; `first` is None where nobody was left to be told."""

    play: Play
    requests: int
    charges: int
    first: Told | None
    again: Told


async def play_one(grounds: Grounds, play: Play, number: int, python: Path) -> Played:
    """Play it with a store of its own.

    Raises:
        NotPlayed: a program broke, or never reached the target.
    """
    order = f"spike-{number}"
    async with _store(grounds, play, number) as store:
        program = _Program(grounds, play, order, store, python)
        first = await (program.killed() if play.case is Case.KILLED else program.lost())
        again = await program.turn()
    target = grounds.target
    return Played(
        play,
        requests=len(await asyncio.to_thread(target.posts, order)),
        charges=len(await asyncio.to_thread(target.charges, order)),
        first=first,
        again=again,
    )


@asynccontextmanager
async def _store(grounds: Grounds, play: Play, number: int) -> AsyncIterator[str]:
    """Yield where the system keeps its records, empty: a database or a file."""
    if not play.system.needs_database:
        yield str(grounds.folder / f"journal-{number}.jsonl")
    elif play.system.of_ours:
        async with grounds.ledger(f"spike_{number}") as url:
            yield url
    else:
        async with grounds.server.database(f"spike_{number}") as url:
            yield url


@dataclass(frozen=True)
class _Program:
    grounds: Grounds
    play: Play
    order: str
    store: str
    python: Path

    async def killed(self) -> None:
        """Kill the first run between the target's commit and its answer."""
        target = self.grounds.target
        await asyncio.to_thread(
            target.fault, "hold_after_commit", order=self.order, on="post"
        )
        process = await self._start()
        try:
            await asyncio.to_thread(target.wait_held, self.order, seconds=20.0)
        except TimeoutError as error:
            raise NotPlayed(f"{self.play.system.name}: {error}") from None
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()
        await asyncio.to_thread(target.release, self.order)

    async def lost(self) -> Told:
        """Let the target commit and close the connection without an answer."""
        await asyncio.to_thread(
            self.grounds.target.fault, "drop_after_commit", order=self.order, on="post"
        )
        return await self.turn()

    async def turn(self) -> Told:
        """Run the program to its end."""
        process = await self._start()
        try:
            async with asyncio.timeout(TURN_SECONDS_MAX):
                out, err = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.communicate()
            raise NotPlayed(f"{self.play.system.name} does not come back") from None
        lines = out.decode().strip().splitlines()
        if process.returncode != 0 or not lines:
            said = err.decode().strip().splitlines() or ["nothing"]
            raise NotPlayed(f"{self.play.system.name}: {said[-1]}")
        return Told(**json.loads(lines[-1]))

    async def _start(self) -> asyncio.subprocess.Process:
        system = self.play.system
        python = sys.executable if system.of_ours else str(self.python)
        return await asyncio.create_subprocess_exec(
            *(python, "-m", f"examples.spike.systems.{system.program}"),
            *("--target", self.grounds.target.url, "--world", self.play.world),
            *("--order", self.order, "--store", self.store),
            *("--variant", system.variant),
            cwd=ROOT,
            env=self._environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    def _environment(self) -> Mapping[str, str]:
        """Give nothing of this shell on, and our settings to our own program only."""
        plain = {"PATH": os.environ["PATH"], "TZ": "UTC", "LANG": "C.UTF-8"}
        if not (self.play.system.of_ours and self.play.system.needs_database):
            return plain
        return {
            **plain,
            "EFFECT_BROKER_DATABASE_URL": self.store,
            "EFFECT_BROKER_KEYRING": KEYRING,
            "EFFECT_BROKER_SECRET__DEMO__BASE_URL": self.grounds.target.url,
        }
