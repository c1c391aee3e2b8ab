"""Which cells of the matrix are played on the deployed stack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from examples.crash_matrix.matrix.cells import (
    Cell,
    Disturbance,
    History,
    Place,
    Scenario,
)

D, H, P, S = Disturbance, History, Place, Scenario

TOOLS: Final = {
    S.A: "demo.charge.keyed",
    S.B: "demo.charge.lookup",
    S.C: "demo.charge.plain",
    S.T: "demo.charge.local",
}
MEETINGS: Final = (D.DUPLICATES, D.SECOND_WORKER, D.NUDGES)


def full() -> Sequence[Cell]:
    """Return every cell that can be played from outside the functions."""
    return tuple(_cells())


def quick() -> Sequence[Cell]:
    """Return the cells that stand for the others."""
    return (
        Cell(S.A, P.ANSWER_ON_THE_WAY, D.KILL_TWICE),
        Cell(S.B, P.PROBE_ON_THE_WAY, D.KILL, H.ANSWER_LOST),
        Cell(S.C, P.ANSWER_ON_THE_WAY, D.NUDGES),
        Cell(S.B, P.ANSWER_ON_THE_WAY, D.PAUSE),
        Cell(S.T, P.MUTATION, D.KILL),
        Cell(S.T, P.MUTATION, D.PAUSE),
    )


def _cells() -> Iterator[Cell]:
    for scenario in (S.C, S.A, S.B):
        for place in (P.REQUEST_ON_THE_WAY, P.ANSWER_ON_THE_WAY):
            yield Cell(scenario, place, D.KILL)
            yield Cell(scenario, place, D.PAUSE)
        for disturbance in MEETINGS:
            yield Cell(scenario, P.ANSWER_ON_THE_WAY, disturbance)
        for place, form in (
            (P.REQUEST_ON_THE_WAY, "drop_before_commit"),
            (P.ANSWER_ON_THE_WAY, "drop_after_commit"),
        ):
            yield Cell(scenario, place, D.LOST_ANSWER, form=form)
    yield Cell(S.A, P.ANSWER_ON_THE_WAY, D.KILL_TWICE)
    for disturbance in (D.KILL, D.KILL_TWICE, D.PAUSE):
        yield Cell(S.B, P.PROBE_ON_THE_WAY, disturbance, H.ANSWER_LOST)
    yield Cell(S.B, P.PROBE_ON_THE_WAY, D.KILL, H.REQUEST_LOST)
    for disturbance in (D.KILL, D.KILL_TWICE, D.PAUSE, *MEETINGS):
        yield Cell(S.T, P.MUTATION, disturbance)
