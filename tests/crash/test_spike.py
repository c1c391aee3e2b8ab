"""The competitive spike: what the target charged, and what each system says of it."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from examples.spike.__main__ import play_all, row, table, versions
from examples.spike.cases import BROKER, JOURNAL, OTHERS, Case, System, World, plays
from examples.spike.installing import installed
from examples.spike.playing import Played

EVERY_SYSTEM = (JOURNAL, *OTHERS, BROKER)


def played_by(
    systems: Sequence[System], python: Path, folder: Path, postgres: str
) -> Sequence[Played]:
    console = Console(file=io.StringIO())
    return asyncio.run(play_all(systems, python, folder / "run", console, postgres))


@pytest.fixture(scope="module")
def ours(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Sequence[Played]:
    folder = tmp_path_factory.mktemp("spike")
    return played_by((JOURNAL, BROKER), Path(sys.executable), folder, postgres)


def charges(found: Sequence[Played], system: System) -> dict[tuple[World, Case], int]:
    return {
        (played.play.world, played.play.case): played.charges
        for played in found
        if played.play.system == system
    }


def test_a_plain_journal_charges_twice_wherever_no_key_stops_it(
    ours: Sequence[Played],
) -> None:
    assert charges(ours, JOURNAL) == {
        (world, case): 1 if world is World.KEYED else 2
        for world in World
        for case in Case
    }


def test_the_broker_charges_once_and_says_where_it_does_not_know(
    ours: Sequence[Played],
) -> None:
    mine = [played for played in ours if played.play.system == BROKER]
    assert len(mine) == len(World) * len(Case)
    for played in mine:
        unknown = played.play.world is World.PLAIN
        assert played.charges == 1
        assert played.requests == (2 if played.play.world is World.KEYED else 1)
        assert played.again.on_record == ("outcome_unknown" if unknown else "succeeded")


def test_what_is_printed_has_a_row_for_each_play(ours: Sequence[Played]) -> None:
    assert table(ours).row_count == len(ours) == 12
    killed = next(played for played in ours if played.play.case is Case.KILLED)
    assert row(killed)["first"] is None
    assert {"agent-ledger", "dbos"} <= {*versions()}


@pytest.mark.spike
def test_every_system_is_played_at_every_target(postgres: str, tmp_path: Path) -> None:
    python = installed(Console(file=io.StringIO()))
    found = played_by(EVERY_SYSTEM, python, tmp_path, postgres)
    assert [played.play for played in found] == list(plays(EVERY_SYSTEM))
    assert all(played.requests >= 1 for played in found)
    assert {*charges(found, BROKER).values()} == {1}
    assert max(played.charges for played in found) == 2
