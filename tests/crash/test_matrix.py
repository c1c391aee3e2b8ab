"""The crash matrix in its short form: real processes, and what is left of each cell."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from effect_broker.failpoints import Failpoint
from examples.crash_matrix.matrix.cells import (
    DATABASE_CUTS,
    Cell,
    Disturbance,
    History,
    Place,
    Scenario,
    full,
    quick,
)
from examples.crash_matrix.matrix.evidence import LocalCharge
from examples.crash_matrix.matrix.outcome import Outcome
from examples.crash_matrix.matrix.running import Run, run, verdict, write
from tests.guarantees import guarantee

D, F, H, P = Disturbance, Failpoint, History, Place
A, B, C, T = Scenario.A, Scenario.B, Scenario.C, Scenario.T

SEED = 20260114

# The server is shared with other tests, and so are its connections.
AT_ONCE = 8

KILLED = [
    Cell(scenario, point, D.KILL)
    for point in (
        F.AFTER_RESERVATION_COMMIT,
        F.AFTER_ATTEMPT_COMMIT,
        P.ANSWER_ON_THE_WAY,
        F.BEFORE_RECEIPT_COMMIT,
    )
    for scenario in Scenario
    if (scenario, point) != (T, P.ANSWER_ON_THE_WAY)
]
KILLED_IN_RECOVERY = [
    Cell(A, F.IN_REDISPATCH, D.KILL_TWICE, H.ANSWER_LOST),
    Cell(B, F.IN_REDISPATCH, D.KILL_TWICE, H.REQUEST_LOST),
    Cell(B, F.IN_PROBE, D.KILL_TWICE, H.REQUEST_LOST),
    Cell(B, F.BETWEEN_PROBE_AND_TRANSITION, D.KILL_TWICE, H.ANSWER_LOST),
    Cell(T, F.IN_REDISPATCH, D.KILL_TWICE, H.WORKER_KILLED),
    *(Cell(s, F.BEFORE_SWEEP_COMMIT, D.KILL_TWICE, H.WORKER_KILLED) for s in Scenario),
]
PAUSED = [Cell(scenario, F.BEFORE_SOCKET_WRITE, D.PAUSE) for scenario in Scenario]
LOST = [
    Cell(scenario, P.ANSWER_ON_THE_WAY, D.LOST_ANSWER, form="hold_after_commit")
    for scenario in (A, B, C)
]
DRAINED = [Cell(scenario, F.BEFORE_SOCKET_WRITE, D.TERMINATE) for scenario in Scenario]
CANCELLED = [
    *(Cell(scenario, P.ANSWER_ON_THE_WAY, D.TERMINATE) for scenario in (A, B, C)),
    Cell(T, P.MUTATION, D.TERMINATE),
]
DOUBLED = [
    Cell(scenario, point, disturbance)
    for scenario, point in (
        (A, F.AFTER_ATTEMPT_COMMIT),
        (C, P.ANSWER_ON_THE_WAY),
        (T, F.BEFORE_RECEIPT_COMMIT),
    )
    for disturbance in (D.DUPLICATES, D.SECOND_WORKER, D.NUDGES)
]
CUT = [
    Cell(C, P.RESERVATION_COMMIT, D.DATABASE_CUT_AFTER),
    Cell(C, P.ATTEMPT_COMMIT, D.DATABASE_CUT_HALF),
    Cell(C, P.ATTEMPT_COMMIT, D.DATABASE_CUT_LATE),
    Cell(B, P.RECEIPT_COMMIT, D.DATABASE_CUT_BEFORE),
    Cell(A, P.RECEIPT_COMMIT, D.DATABASE_CUT_AFTER),
    Cell(T, P.MUTATION, D.DATABASE_CUT_AFTER),
    *(Cell(T, P.MUTATION_COMMIT, cut) for cut in DATABASE_CUTS),
]
ALL = [
    *KILLED,
    *KILLED_IN_RECOVERY,
    *PAUSED,
    *LOST,
    *DRAINED,
    *CANCELLED,
    *DOUBLED,
    *CUT,
]

Played = Mapping[Cell, Outcome]


def each(cells: Sequence[Cell]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("cell", cells, ids=[cell.name for cell in cells])


@pytest.fixture(scope="module")
def finished(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Play every cell of this file, many at once."""
    console = Console(file=io.StringIO())
    folder = tmp_path_factory.mktemp("matrix") / "grounds"
    return asyncio.run(
        run(
            ALL,
            seed=SEED,
            at_once=AT_ONCE,
            folder=folder,
            console=console,
            server_url=postgres,
        )
    )


@pytest.fixture(scope="module")
def played(finished: Run) -> Played:
    return {outcome.cell: outcome for outcome in finished.outcomes}


def held(outcome: Outcome) -> str:
    """Say what the cell came to, once every judge is content."""
    story = "\n".join(f"{line.at:.3f} {line.who}: {line.text}" for line in outcome.story)
    assert outcome.unplayed is None, f"{outcome.unplayed}\n{story}"
    assert outcome.broken == (), story
    return outcome.evidence.status


@guarantee("expired-lease-is-unknown", "same-downstream-key", "unsafe-at-most-once")
@each(KILLED)
def test_a_worker_killed_anywhere_leaves_one_charge_or_says_that_it_does_not_know(
    played: Played, cell: Cell
) -> None:
    unknown = cell.scenario is C and cell.point is not F.AFTER_RESERVATION_COMMIT
    assert held(played[cell]) == ("outcome_unknown" if unknown else "succeeded")


@guarantee("reconcilable-probes-first", "negative-waits-for-settlement")
@each(KILLED_IN_RECOVERY)
def test_recovery_killed_twice_at_one_point_goes_on_from_there(
    played: Played, cell: Cell
) -> None:
    expected = "outcome_unknown" if cell.scenario is C else "succeeded"
    assert held(played[cell]) == expected


@each(DRAINED)
def test_a_worker_that_is_told_to_end_lets_what_is_under_way_end(
    played: Played, cell: Cell
) -> None:
    """C19: what fits into the grace is finished and recorded as what it was."""
    held(played[cell])
    expected = ["EffectReserved", "AttemptStarted", "ReceiptRecorded"]
    assert played[cell].evidence.history == expected


@guarantee("lost-answer-is-unknown")
@each(CANCELLED)
def test_work_cut_short_by_the_end_of_its_worker_is_recorded_as_unknown(
    played: Played, cell: Cell
) -> None:
    """C19: the worker itself says so before it ends, and nobody waits for the lease."""
    status = held(played[cell])
    assert status == ("outcome_unknown" if cell.scenario is C else "succeeded")
    found = played[cell].evidence
    first = found.attempts[0]
    assert (first.kind, first.reason, first.late) == ("ambiguous", "cancelled", False)
    assert first.ended_at < first.started_at + found.times.lease
    assert found.history[2] == "OutcomeLost"
    assert "Failed" not in "".join(found.history)


@guarantee("send-deadline-holds", "fenced-answer-is-evidence")
@each(PAUSED)
def test_a_worker_that_wakes_after_its_deadline_sends_nothing(
    played: Played, cell: Cell
) -> None:
    status = held(played[cell])
    found = played[cell].evidence
    # Whoever woke sent nothing: what was sent, others sent.
    if cell.scenario is not T:
        assert len(found.posts) == len(found.attempts) - 1
    late = next(attempt for attempt in found.attempts if attempt.ordinal == 1)
    assert (late.kind, late.late) in {("not_sent", True), (None, None)}
    if cell.scenario is not C:
        assert status == "succeeded"


@guarantee("lost-answer-is-unknown", "unknowns-are-listed")
@each(LOST)
def test_a_lost_answer_without_a_crash_is_never_a_second_charge(
    played: Played, cell: Cell
) -> None:
    status = held(played[cell])
    assert "OutcomeLost" in played[cell].evidence.history
    assert status == ("outcome_unknown" if cell.scenario is C else "succeeded")


@guarantee("one-intent-per-key", "replay-answers-the-same")
@each(DOUBLED)
def test_duplicates_second_workers_and_repeated_nudges_send_nothing_more(
    played: Played, cell: Cell
) -> None:
    held(played[cell])
    if cell.disturbance is not D.NUDGES:
        assert len(played[cell].evidence.posts) == (0 if cell.scenario is T else 1)


@guarantee(
    "confirmed-before-sent", "every-transition-is-a-swap", "transactional-exactly-one"
)
@each(CUT)
def test_a_commit_of_unknown_outcome_is_settled_and_not_guessed(
    played: Played, cell: Cell
) -> None:
    held(played[cell])


@guarantee("transactional-exactly-one")
@each([cell for cell in ALL if cell.scenario is T])
def test_a_charge_beside_the_ledger_is_committed_with_its_receipt(
    played: Played, cell: Cell
) -> None:
    found = played[cell].evidence
    (charge,) = found.charges
    (receipt,) = found.receipts
    assert isinstance(charge, LocalCharge)
    assert charge.transaction == receipt.transaction
    assert found.requests == []


def test_the_full_matrix_plays_every_failpoint_and_every_disturbance() -> None:
    assert {cell.point for cell in full()} == {*Failpoint, *Place}
    assert {cell.disturbance for cell in full()} == {*Disturbance}
    assert {*quick()} < {*full()}
    assert {*ALL} <= {*full()}
    assert {cell.point for cell in quick()} >= {*Failpoint}


def test_the_report_has_a_row_and_a_timeline_for_each_cell(
    finished: Run, tmp_path: Path
) -> None:
    write(finished, tmp_path)
    document = json.loads((tmp_path / "crash-matrix.json").read_text())
    assert document["seed"] == SEED
    assert [
        (row["scenario"], row["failpoint"], row["disturbance"], row["holds"])
        for row in document["rows"]
    ] == [(cell.scenario, cell.point, cell.disturbance, True) for cell in ALL]
    for row in document["rows"]:
        assert row["charges"] == 1 or (row["scenario"], row["charges"]) == ("C", 0)
        assert row["receipts"] == (row["status"] == "succeeded")
    page = (tmp_path / "crash-matrix.html").read_text()
    assert page.count("<details ") == page.count("EffectReserved") == len(ALL)
    assert "src=" not in page
    assert "href=" not in page


def test_a_broken_promise_is_named_and_ends_the_run_with_1(
    finished: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    first = replace(finished.outcomes[0], broken=("2 charges",))
    lie = replace(finished, outcomes=[first, *finished.outcomes[1:]])
    assert verdict(finished, Console(file=io.StringIO())) == 0
    assert verdict(lie, Console(file=io.StringIO())) == 1
    assert f"{first.cell.name}: 2 charges" in capsys.readouterr().err
    unplayed = replace(finished.outcomes[0], unplayed="nobody came")
    nothing = replace(finished, outcomes=[unplayed])
    assert verdict(nothing, Console(file=io.StringIO())) == 2
