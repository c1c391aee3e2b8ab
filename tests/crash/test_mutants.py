"""A matrix that nothing fails proves nothing: planted faults, and the cells that catch
them.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping

import pytest
from rich.console import Console

from examples.crash_matrix.matrix.cells import full
from examples.crash_matrix.matrix.mutants import MUTANTS
from examples.crash_matrix.matrix.outcome import Outcome
from examples.crash_matrix.matrix.running import run

AT_ONCE = 4
SEED = 1


@pytest.fixture(scope="module")
def outcomes(
    postgres: str, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Outcome]:
    """Play each mutant's cell with the mutant planted."""
    folder = tmp_path_factory.mktemp("mutants")
    console = Console(file=io.StringIO())

    async def play_all() -> dict[str, Outcome]:
        places = asyncio.Semaphore(AT_ONCE)

        async def one(name: str) -> Outcome:
            async with places:
                found = await run(
                    [MUTANTS[name].caught_by],
                    seed=SEED,
                    at_once=1,
                    folder=folder / name,
                    console=console,
                    server_url=postgres,
                    mutant=name,
                )
            return found.outcomes[0]

        return dict(zip(MUTANTS, await asyncio.gather(*map(one, MUTANTS)), strict=True))

    return asyncio.run(play_all())


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_fault_is_caught(outcomes: Mapping[str, Outcome], name: str) -> None:
    outcome = outcomes[name]
    story = "\n".join(f"{line.at:.3f} {line.who}: {line.text}" for line in outcome.story)
    assert outcome.broken, f"{MUTANTS[name].fault}: nobody noticed\n{story}"


def test_what_catches_a_planted_fault_is_a_cell_of_the_matrix() -> None:
    assert {mutant.caught_by for mutant in MUTANTS.values()} <= {*full()}
