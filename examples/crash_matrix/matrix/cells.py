"""What the matrix is made of: which disturbance is played at which point of which class.

Pure data; whoever wants to know what was tried reads this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from effect_broker.failpoints import Failpoint


class Scenario(StrEnum):
    """The classes of targets, by the letters of the proof."""

    A = "A"
    B = "B"
    C = "C"
    T = "T"


TOOLS: Final = {
    Scenario.A: "matrix.keyed",
    Scenario.B: "matrix.lookup",
    Scenario.C: "matrix.plain",
    Scenario.T: "matrix.local",
}
CLASSES: Final = {
    Scenario.A: "idempotent",
    Scenario.B: "reconcilable",
    Scenario.C: "unsafe",
    Scenario.T: "transactional",
}


class History(StrEnum):
    """What has happened to the effect before the disturbed process meets it."""

    FRESH = "fresh"
    ANSWER_LOST = "answer_lost"  # the target committed, the answer did not come
    REQUEST_LOST = "request_lost"  # the request was dropped before anything was done
    WORKER_KILLED = "worker_killed"
    """The target committed, and the worker died; at T, where no receipt is no commit, it
    died just before.
    """


class Disturbance(StrEnum):
    """What is done to the process at the point, or to its connections there."""

    KILL = "kill"
    KILL_TWICE = "kill_twice"
    PAUSE = "pause"
    TERMINATE = "terminate"
    DUPLICATES = "duplicates"
    SECOND_WORKER = "second_worker"
    NUDGES = "nudges"
    LOST_ANSWER = "lost_answer"
    LATE_ARRIVAL = "late_arrival"
    TARGET_CUT_BEFORE = "target_cut_before"
    TARGET_CUT_AFTER = "target_cut_after"
    DATABASE_CUT_BEFORE = "database_cut_before"
    DATABASE_CUT_HALF = "database_cut_half"
    DATABASE_CUT_AFTER = "database_cut_after"
    DATABASE_CUT_LATE = "database_cut_late"


class Place(StrEnum):
    """Points outside the process: on the wire, at the target, at a commit."""

    REQUEST_ON_THE_WAY = "request_on_the_way"
    ANSWER_ON_THE_WAY = "answer_on_the_way"
    PROBE_ON_THE_WAY = "probe_on_the_way"
    RESERVATION_COMMIT = "reservation_commit"
    ATTEMPT_COMMIT = "attempt_commit"
    RECEIPT_COMMIT = "receipt_commit"
    LOSS_COMMIT = "loss_commit"
    SWEEP_COMMIT = "sweep_commit"
    RECONCILIATION_COMMIT = "reconciliation_commit"
    TRANSITION_COMMIT = "transition_commit"
    MUTATION = "mutation"
    MUTATION_COMMIT = "mutation_commit"


Point = Failpoint | Place


@dataclass(frozen=True)
class Cell:
    """One play: a class, a point, a disturbance, and what came before."""

    scenario: Scenario
    point: Point
    disturbance: Disturbance
    history: History = History.FRESH
    form: str = ""
    """Which fault of the target stands for a lost answer."""

    @property
    def name(self) -> str:
        """A name that says all of it."""
        history = "" if self.history is History.FRESH else f" after {self.history}"
        form = f" ({self.form})" if self.form else ""
        return f"{self.scenario} {self.point} {self.disturbance}{form}{history}"


F, P, D, H, S = Failpoint, Place, Disturbance, History, Scenario

RESERVING: Final = (F.BEFORE_RESERVATION_COMMIT, F.AFTER_RESERVATION_COMMIT)
FIRST: Final = (
    F.BEFORE_ATTEMPT_COMMIT,
    F.AFTER_ATTEMPT_COMMIT,
    F.BEFORE_SOCKET_WRITE,
    P.REQUEST_ON_THE_WAY,
    P.ANSWER_ON_THE_WAY,
    F.AFTER_TARGET_COMMIT,
    F.BEFORE_RECEIPT_COMMIT,
    F.AFTER_RECEIPT_COMMIT,
)
PROBING: Final = (F.IN_PROBE, P.PROBE_ON_THE_WAY, F.BETWEEN_PROBE_AND_TRANSITION)
AGAIN: Final = (
    F.IN_REDISPATCH,
    F.BEFORE_SOCKET_WRITE,
    P.ANSWER_ON_THE_WAY,
    F.AFTER_TARGET_COMMIT,
    F.BEFORE_RECEIPT_COMMIT,
    F.AFTER_RECEIPT_COMMIT,
)
# At T nothing is on any wire but the database's.
FIRST_LOCAL: Final = tuple(point for point in FIRST if isinstance(point, Failpoint))
AGAIN_LOCAL: Final = tuple(point for point in AGAIN if isinstance(point, Failpoint))
AT_RESERVATION: Final = (D.KILL, D.PAUSE, D.DUPLICATES)
AT_A_POINT: Final = (
    D.KILL,
    D.PAUSE,
    D.TERMINATE,
    D.DUPLICATES,
    D.SECOND_WORKER,
    D.NUDGES,
)
IN_RECOVERY: Final = (
    D.KILL,
    D.KILL_TWICE,
    D.PAUSE,
    D.TERMINATE,
    D.DUPLICATES,
    D.SECOND_WORKER,
    D.NUDGES,
)

LOST_BEFORE: Final = ("drop_before_commit", "reset_before_commit")
LOST_AFTER: Final = (
    "drop_after_commit",
    "reset_after_commit",
    "hold_after_commit",
    "fail_after_commit",
    "truncate_after_commit",
    "garbage_after_commit",
)
DATABASE_CUTS: Final = (
    D.DATABASE_CUT_BEFORE,
    D.DATABASE_CUT_HALF,
    D.DATABASE_CUT_AFTER,
    D.DATABASE_CUT_LATE,
)


def full() -> Sequence[Cell]:
    """Return every cell of the matrix."""
    return tuple(dict.fromkeys(_cells()))


def quick() -> Sequence[Cell]:
    """Return the cells that stand for the others: each point, and each disturbance."""
    kept = []
    for cell in full():
        died = cell.disturbance is D.KILL
        asleep = cell.disturbance is D.PAUSE and cell.point is F.BEFORE_SOCKET_WRITE
        twice = cell.disturbance is D.KILL_TWICE and cell.point in _TWICE
        other = cell.point in _MEETING and cell.disturbance in _MEETINGS
        lost = cell.form in {"drop_after_commit", "hold_after_commit"}
        cut = cell.disturbance in _CUTS and cell.point in _CUT_POINTS
        told = cell.disturbance is D.TERMINATE and cell.point in _TOLD
        if died or asleep or twice or other or lost or cut or told:
            kept.append(cell)
    return tuple(kept)


_TWICE: Final = (F.IN_PROBE, F.BETWEEN_PROBE_AND_TRANSITION, F.IN_REDISPATCH)
_MEETING: Final = (F.AFTER_ATTEMPT_COMMIT, P.ANSWER_ON_THE_WAY)
_MEETINGS: Final = (D.DUPLICATES, D.SECOND_WORKER, D.NUDGES)
_TOLD: Final = (P.ANSWER_ON_THE_WAY, F.BEFORE_SOCKET_WRITE, P.MUTATION)
_CUTS: Final = (D.TARGET_CUT_AFTER, D.DATABASE_CUT_BEFORE, D.DATABASE_CUT_AFTER)
_CUT_POINTS: Final = (
    P.ANSWER_ON_THE_WAY,
    P.RESERVATION_COMMIT,
    P.ATTEMPT_COMMIT,
    P.RECEIPT_COMMIT,
    P.MUTATION_COMMIT,
)


def _cells() -> Iterator[Cell]:
    for scenario in (S.A, S.B, S.C):
        yield from _first(scenario, FIRST)
        yield from _swept(scenario)
        yield from _losses(scenario)
        yield from _database_cuts(scenario)
        if scenario is not S.C:
            yield from _recoveries(scenario)
    yield from _first(S.T, FIRST_LOCAL)
    yield from _swept(S.T)
    yield from _local_cuts()
    yield from _again(S.T, AGAIN_LOCAL)


def _first(scenario: Scenario, points: Sequence[Point]) -> Iterator[Cell]:
    for point in (*RESERVING, *points):
        reserving = point in RESERVING
        for disturbance in AT_RESERVATION if reserving else AT_A_POINT:
            yield Cell(scenario, point, disturbance)


def _swept(scenario: Scenario) -> Iterator[Cell]:
    after = H.WORKER_KILLED
    for disturbance in (D.KILL, D.KILL_TWICE, D.PAUSE, D.TERMINATE, D.SECOND_WORKER):
        yield Cell(scenario, F.BEFORE_SWEEP_COMMIT, disturbance, after)
    # What was swept is swept: nobody comes to this point twice.
    for disturbance in (D.KILL, D.PAUSE, D.TERMINATE, D.SECOND_WORKER):
        yield Cell(scenario, F.AFTER_SWEEP_COMMIT, disturbance, after)


def _recoveries(scenario: Scenario) -> Iterator[Cell]:
    yield from _again(scenario, AGAIN)
    if scenario is S.B:
        for point in PROBING:
            for disturbance in IN_RECOVERY:
                for history in (H.ANSWER_LOST, H.REQUEST_LOST):
                    yield Cell(scenario, point, disturbance, history)
        for disturbance in IN_RECOVERY:
            yield Cell(scenario, F.BEFORE_RECEIPT_COMMIT, disturbance, H.ANSWER_LOST)


def _again(scenario: Scenario, points: Sequence[Point]) -> Iterator[Cell]:
    """Play the second attempt, which a recovery has permitted."""
    for point in points:
        for disturbance in IN_RECOVERY:
            if disturbance is not D.KILL_TWICE or point not in _ONCE[scenario]:
                yield Cell(scenario, point, disturbance, _SENT_AGAIN_AFTER[scenario])


_SENT_AGAIN_AFTER: Final = {
    S.A: H.ANSWER_LOST,
    S.B: H.REQUEST_LOST,
    S.T: H.WORKER_KILLED,
}
_ONCE: Final = {
    S.A: (F.AFTER_RECEIPT_COMMIT,),
    S.B: (P.ANSWER_ON_THE_WAY, F.AFTER_TARGET_COMMIT, F.AFTER_RECEIPT_COMMIT),
    S.T: (F.AFTER_TARGET_COMMIT, F.AFTER_RECEIPT_COMMIT),
}
"""To where nobody comes a second time: the effect is over, or a lookup finds it."""


def _losses(scenario: Scenario) -> Iterator[Cell]:
    for form in LOST_BEFORE:
        yield Cell(scenario, P.REQUEST_ON_THE_WAY, D.LOST_ANSWER, form=form)
    for form in LOST_AFTER:
        yield Cell(scenario, P.ANSWER_ON_THE_WAY, D.LOST_ANSWER, form=form)
    yield Cell(scenario, P.REQUEST_ON_THE_WAY, D.LATE_ARRIVAL, form="delay_before_commit")
    yield Cell(scenario, P.REQUEST_ON_THE_WAY, D.TARGET_CUT_BEFORE)
    yield Cell(scenario, P.ANSWER_ON_THE_WAY, D.TARGET_CUT_AFTER)
    if scenario is S.C:
        return
    for form in ("drop_after_commit", "hold_after_commit"):
        history = _SENT_AGAIN_AFTER[scenario]
        yield Cell(scenario, P.ANSWER_ON_THE_WAY, D.LOST_ANSWER, history, form=form)
    if scenario is S.B:
        for history in (H.ANSWER_LOST, H.REQUEST_LOST, H.WORKER_KILLED):
            yield Cell(scenario, P.PROBE_ON_THE_WAY, D.TARGET_CUT_BEFORE, history)
            yield Cell(scenario, P.PROBE_ON_THE_WAY, D.TARGET_CUT_AFTER, history)


def _database_cuts(scenario: Scenario) -> Iterator[Cell]:
    for cut in DATABASE_CUTS:
        for point in (P.RESERVATION_COMMIT, P.ATTEMPT_COMMIT, P.RECEIPT_COMMIT):
            yield Cell(scenario, point, cut)
        yield Cell(scenario, P.LOSS_COMMIT, cut, form="drop_after_commit")
        yield Cell(scenario, P.SWEEP_COMMIT, cut, H.WORKER_KILLED)
        if scenario is not S.C:
            yield Cell(scenario, P.RECONCILIATION_COMMIT, cut, H.ANSWER_LOST)
            yield Cell(scenario, P.TRANSITION_COMMIT, cut, _SENT_AGAIN_AFTER[scenario])


def _local_cuts() -> Iterator[Cell]:
    """Cut T's database off, around its one commit of mutation and receipt too."""
    for cut in DATABASE_CUTS:
        for point in (P.RESERVATION_COMMIT, P.ATTEMPT_COMMIT):
            yield Cell(S.T, point, cut)
        for point in (P.SWEEP_COMMIT, P.RECONCILIATION_COMMIT, P.TRANSITION_COMMIT):
            yield Cell(S.T, point, cut, H.WORKER_KILLED)
        yield Cell(S.T, P.MUTATION_COMMIT, cut)
        yield Cell(S.T, P.MUTATION_COMMIT, cut, H.WORKER_KILLED)
    for cut in (D.DATABASE_CUT_BEFORE, D.DATABASE_CUT_AFTER):
        yield Cell(S.T, P.MUTATION, cut)
    # The statement waits for a lock when its worker is told to end.
    yield Cell(S.T, P.MUTATION, D.TERMINATE)
