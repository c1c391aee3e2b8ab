"""Planted faults, and the seeds that catch them."""

from __future__ import annotations

from docs.rendering.markdown import code, table
from tests.simulation.mutants import MUTANTS, last_caught


def caught() -> str:
    """List every mutant of the simulation with the seed that caught it last."""
    found = last_caught()
    return table(
        ("planted fault", "seed", "what the judge says"),
        [
            (
                mutant.name,
                code(str(found[mutant.name].seed)),
                found[mutant.name].complaint,
            )
            for mutant in MUTANTS
            if mutant.name in found
        ],
    )
