"""Runs many seeds over all cores, and tells the first that breaks a promise.

make simulate SEEDS=100000
python -m tests.simulation --seed 4711
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tests.simulation.mutants import CAUGHT, MUTANTS, SEEDS_MAX, Caught, catch
from tests.simulation.running import Played, play, shrink, told

RESULT: Final = Path(".local/simulation.json")
CHUNK: Final = 50


def main() -> int:
    """Return 0 if every seed kept every promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=2000, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one and tell its story")
    parser.add_argument("--muted", default="", help="faults that do not happen in it")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--mutants", action="store_true", help="catch planted faults")
    given = parser.parse_args()
    if given.mutants:
        return _catch()
    if given.seed is not None:
        return _one(given.seed, frozenset(map(int, filter(None, given.muted.split(",")))))
    return _many(given)


def _one(seed: int, muted: frozenset[int]) -> int:
    played = play(seed, muted)
    print(told(played))
    return 0 if played.complaint is None else 1


def _catch() -> int:
    """Search the seed that catches each planted fault, and keep it for the tests."""
    logging.disable(logging.CRITICAL)
    found: list[Caught] = []
    for mutant in MUTANTS:
        caught = catch(mutant, range(SEEDS_MAX))
        if caught is None:
            print(f"{mutant.name}: NOT caught by {SEEDS_MAX} seeds")
            continue
        found.append(caught)
        print(f"{mutant.name}: seed {caught.seed}: {caught.complaint}", flush=True)
    CAUGHT.write_text(json.dumps([asdict(it) for it in found], indent=2) + "\n")
    return 0 if len(found) == len(MUTANTS) else 1


def _many(given: argparse.Namespace) -> int:
    seeds = range(given.first, given.first + given.seeds)
    begun, done, broken = time.monotonic(), 0, list[Played]()
    with multiprocessing.Pool(given.workers) as pool:
        for found in pool.imap_unordered(_broken, seeds, chunksize=CHUNK):
            done += 1
            if found is not None:
                broken.append(found)
            if done % 200 == 0 or done == len(seeds):
                _progress(done, len(seeds), len(broken), begun)
    seconds = time.monotonic() - begun
    result = {
        "first": given.first,
        "seeds": len(seeds),
        "seconds": round(seconds, 1),
        "histories_a_second": round(len(seeds) / seconds),
        "workers": given.workers,
        "broken": {found.seed: found.complaint for found in broken},
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2))
    if given.json:
        print(json.dumps(result))
    else:
        print(
            f"{len(seeds)} histories in {seconds:.0f} s ({len(seeds) / seconds:.0f} a"
            f" second on {given.workers} cores): {len(broken)} broke a promise"
        )
    if broken:
        first = min(broken, key=lambda found: found.seed)
        print(told(shrink(play(first.seed))))
    return 1 if broken else 0


def _broken(seed: int) -> Played | None:
    played = play(seed)
    return played if played.complaint is not None else None


def _progress(done: int, of: int, broken: int, begun: float) -> None:
    if sys.stderr.isatty():
        rate = done / (time.monotonic() - begun)
        left = (of - done) / rate
        sys.stderr.write(
            f"\r\x1b[K{done}/{of} histories, {rate:.0f}/s, {left:.0f} s left,"
            f" {broken} broken" + ("\n" if done == of else "")
        )


if __name__ == "__main__":
    sys.exit(main())
