"""A fixed set of seeds, the planted faults that seeds catch, and the machinery itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from tests.guarantees import guarantee
from tests.simulation.dice import Dice
from tests.simulation.loop import SimulatedLoop
from tests.simulation.mutants import (
    MUTANTS,
    SEEDS_MAX,
    Mutant,
    catch,
    last_caught,
    planted,
)
from tests.simulation.running import play, shrink, told

SEEDS = 600
CHUNKS = 12


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A mutant makes the broker complain in every pass."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@guarantee(
    "transactional-exactly-one",
    "idempotent-inside-horizon",
    "reconcilable-probes-first",
    "unsafe-at-most-once",
    "unknowns-are-listed",
)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_seed_of_the_fixed_set_breaks_a_promise(chunk: int) -> None:
    for seed in range(chunk * SEEDS // CHUNKS, (chunk + 1) * SEEDS // CHUNKS):
        played = play(seed)
        assert played.complaint is None, told(shrink(played))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_planted_fault_is_caught_by_a_seed(mutant: Mutant) -> None:
    known = last_caught().get(mutant.name)
    if known is not None and catch(mutant, [known.seed]) is not None:
        return
    found = catch(mutant, range(SEEDS_MAX))
    assert found is not None, "no seed catches it: the simulated world is too kind"
    pytest.fail(f"seed {found.seed} catches it now: python -m tests.simulation --mutants")


def test_at_least_25_faults_are_planted_each_once() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names) >= 25


@pytest.mark.parametrize("seed", [3, 41, 97])
def test_seed_plays_the_same_history_again(seed: int) -> None:
    assert play(seed).digest == play(seed).digest
    assert play(seed).digest != play(seed + 1).digest


def test_broken_promise_becomes_a_short_story_that_repeats() -> None:
    mutant = next(it for it in MUTANTS if it.name == "an unsafe effect goes again")
    seed = last_caught()[mutant.name].seed
    with planted(mutant):
        failing = play(seed)
        short = shrink(failing)
        again = play(seed, short.muted)
    assert short.complaint is not None
    assert len(short.faults) < len(failing.faults)
    assert again.digest == short.digest
    story = told(short)
    assert "2 objects at the target" in story
    assert f"--seed {seed} --muted" in story


def test_killed_process_runs_no_cleanup_and_frozen_one_goes_on() -> None:
    loop, ran = SimulatedLoop(Dice(1)), list[str]()

    async def work(name: str) -> None:
        try:
            await asyncio.sleep(10)
            ran.append(f"{name} woke at {loop.time():.0f}")
        finally:
            ran.append(f"{name} ended")

    async def main() -> None:
        for name in ("killed", "frozen", "left alone"):
            loop.spawn(name, work(name))
        await asyncio.sleep(1)
        loop.kill("killed")
        loop.freeze("frozen")
        await asyncio.sleep(30)
        assert ran == ["left alone woke at 10", "left alone ended"]
        loop.thaw("frozen")
        await asyncio.sleep(1)

    loop.run_until_complete(main())
    told_before = list(ran)
    loop.bury()
    assert told_before[2:] == ["frozen woke at 31", "frozen ended"]
