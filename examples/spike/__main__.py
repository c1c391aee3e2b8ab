"""`python -m examples.spike`: play all, print a table, write `.local/spike.json`."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from examples.crash_matrix.matrix.grounds import Grounds, grounds
from examples.spike.cases import BROKER, JOURNAL, OTHERS, Play, System, plays
from examples.spike.installing import REQUIREMENTS, ROOT, NotInstalled, installed
from examples.spike.playing import NotPlayed, Played, play_one

STATE: Final = ROOT / ".local"
AT_ONCE: Final = 4
LONG_HEX: Final = re.compile(r"[0-9a-f]{24,}")
"""Ids, which nobody reads in a table; the JSON has them whole."""

PLAYED, NOT_PLAYED = 0, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the spike and return the exit status: 0, or 2 where not all could be played."""
    parser = argparse.ArgumentParser(prog="python -m examples.spike")
    parser.add_argument(
        "--ours", action="store_true", help="only what needs no installation"
    )
    given = parser.parse_args(arguments)
    console = Console(highlight=False)
    systems: Sequence[System] = (JOURNAL, BROKER)
    python = Path(sys.executable)
    try:
        if not given.ours:
            systems = (JOURNAL, *OTHERS, BROKER)
            python = installed(console)
        found = asyncio.run(play_all(systems, python, STATE / "spike" / "run", console))
    except (NotInstalled, NotPlayed) as error:
        sys.stderr.write(f"spike: {error}\n")
        return NOT_PLAYED
    document = [row(played) for played in found]
    (STATE / "spike.json").write_text(json.dumps(document, indent=2) + "\n")
    Console(highlight=False, width=max(console.width, 160)).print(table(found))
    return PLAYED


async def play_all(
    systems: Sequence[System],
    python: Path,
    folder: Path,
    console: Console,
    server_url: str | None = None,
) -> Sequence[Played]:
    """Play every combination, a few at once, on one server and one target.

    Raises:
        NotPlayed: a program broke.
    """
    every = list(plays(systems))
    places = asyncio.Semaphore(AT_ONCE)
    done = 0

    async def one(here: Grounds, play: Play, number: int) -> Played:
        nonlocal done
        async with places:
            played = await play_one(here, play, number, python)
        done += 1
        name = f"{play.system.name} ({play.system.note})"
        console.print(f"{done:3}/{len(every)} {play.world}, {play.case}: {name}")
        return played

    async with grounds(folder, server_url) as here:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(one(here, play, number))
                    for number, play in enumerate(every, start=1)
                ]
        except* NotPlayed as several:
            raise NotPlayed("; ".join(map(str, several.exceptions))) from None
    return [task.result() for task in tasks]


def versions() -> dict[str, str]:
    """Return what is pinned, by name."""
    lines = REQUIREMENTS.read_text().splitlines()
    pinned = [line.split(" ")[0].split("==") for line in lines if "==" in line]
    return {name: version for name, version, *_ in pinned}


def row(played: Played) -> dict[str, object]:
    """Return a row of the JSON file."""
    play = played.play
    return {
        "system": play.system.name,
        "version": versions().get(play.system.name.lower()),
        "note": play.system.note,
        "target": play.world,
        "case": play.case,
        "requests": played.requests,
        "charges": played.charges,
        "first": asdict(played.first) if played.first else None,
        "again": asdict(played.again),
    }


def table(found: Sequence[Played]) -> Table:
    """Return what the target charged, and what each system says."""
    shown = Table("target", "case", "system", box=SIMPLE_HEAD)
    for heading in ("requests", "charges"):
        shown.add_column(heading, justify="right")
    for heading in ("on record", "what the caller is told, asking again"):
        shown.add_column(heading, overflow="fold")
    for played in found:
        play = played.play
        version = versions().get(play.system.name.lower(), "")
        shown.add_row(
            play.world,
            play.case,
            " ".join(filter(None, (play.system.name, version, f"({play.system.note})"))),
            str(played.requests),
            str(played.charges),
            played.again.on_record,
            LONG_HEX.sub(lambda found: f"{found[0][:8]}…", played.again.told),
        )
    return shown


if __name__ == "__main__":
    sys.exit(main())
