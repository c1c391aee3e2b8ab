"""The short crash matrix on the deployed stack: Lambda workers are killed and paused."""

from __future__ import annotations

import io

from rich.console import Console

from examples.crash_matrix.deployed.cells import quick
from examples.crash_matrix.deployed.running import run
from examples.crash_matrix.matrix.cells import Scenario
from examples.crash_matrix.stack import Stack
from tests.guarantees import guarantee

SEED = 1


@guarantee(
    "transactional-exactly-one",
    "unsafe-at-most-once",
    "same-downstream-key",
    "reconcilable-probes-first",
)
def test_killed_and_paused_functions_leave_one_charge_or_say_that_they_do_not_know(
    own_stack: Stack,
) -> None:
    told = io.StringIO()
    found = run(own_stack, quick(), seed=SEED, console=Console(file=told), hurried=True)
    for outcome in found.outcomes:
        story = "\n".join(f"{line.who}: {line.text}" for line in outcome.story)
        assert outcome.unplayed is None, f"{outcome.cell.name}: {outcome.unplayed}"
        assert outcome.broken == (), f"{outcome.cell.name}\n{story}"
        unknown = outcome.cell.scenario is Scenario.C
        expected = (1, "outcome_unknown" if unknown else "succeeded")
        assert (len(outcome.evidence.charges), outcome.evidence.status) == expected
    assert "0 of them are left" in told.getvalue()
