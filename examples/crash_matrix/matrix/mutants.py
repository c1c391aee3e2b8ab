"""Planted faults, each in one rule of the broker, and the cell that must catch it.

A matrix that nothing fails proves nothing. `--mutant NAME` plays the cell with the fault
in every process of the broker; the judges and the target stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from effect_broker.domain.outcome import Committed
from effect_broker.domain.timing import NO_WAIT
from effect_broker.failpoints import Failpoint
from examples.crash_matrix.matrix import planting as wrong
from examples.crash_matrix.matrix.cells import (
    Cell,
    Disturbance,
    History,
    Place,
    Scenario,
)


@dataclass(frozen=True)
class Mutant:
    """A fault in one sentence, where it is planted, and the cell that must catch it."""

    fault: str
    plants: Mapping[str, wrong.Around]
    caught_by: Cell


def plant(name: str) -> None:
    """Plant a mutant in this process and whatever it forks."""
    for place, around in MUTANTS[name].plants.items():
        module, _, path = place.partition(":")
        owner: Any = import_module(module)
        *steps, attribute = path.split(".")
        for step in steps:
            owner = getattr(owner, step)
        setattr(owner, attribute, around(getattr(owner, attribute)))


A, B, C, T = Scenario.A, Scenario.B, Scenario.C, Scenario.T
D, F, H, P = Disturbance, Failpoint, History, Place

MUTANTS: Final[Mapping[str, Mutant]] = {
    "sends-past-its-deadline": Mutant(
        "neither the gate nor the watchdog holds a send to its deadline",
        {
            "effect_broker.adapters.wire.gate:SendGate.refusal": wrong.instead(None),
            "effect_broker.watchdog:ThreadWatchdog.guard": wrong.unwatched,
        },
        Cell(B, F.BEFORE_SOCKET_WRITE, D.PAUSE),
    ),
    "counts-the-deadline-from-the-send": Mutant(
        "the send deadline counts from the dispatch, not from before the claim",
        {
            "effect_broker.broker.attempting:deadline_after": wrong.deadline_from_now,
        },
        Cell(B, F.AFTER_ATTEMPT_COMMIT, D.PAUSE),
    ),
    "takes-a-timeout-for-not-sent": Mutant(
        "a read timeout counts as proof that nothing was sent",
        {
            "effect_broker.adapters.http:outcome_of": wrong.outcomes(
                wrong.timeout_is_not_sent
            )
        },
        Cell(C, P.ANSWER_ON_THE_WAY, D.LOST_ANSWER, form="hold_after_commit"),
    ),
    "calls-a-lost-answer-failed": Mutant(
        "a lost answer is a final rejection",
        {"effect_broker.adapters.http:outcome_of": wrong.outcomes(wrong.loss_is_failure)},
        Cell(C, P.ANSWER_ON_THE_WAY, D.LOST_ANSWER, form="drop_after_commit"),
    ),
    "sends-again-by-itself": Mutant(
        "the client repeats a request whose answer was lost, within one attempt",
        {"effect_broker.adapters.http:exchange": wrong.sends_again_by_itself},
        Cell(C, P.ANSWER_ON_THE_WAY, D.LOST_ANSWER, form="drop_after_commit"),
    ),
    "sends-another-key": Mutant(
        "each attempt has a downstream key of its own",
        {"effect_broker.broker.attempting:effect_record": wrong.another_key},
        Cell(A, P.ANSWER_ON_THE_WAY, D.KILL),
    ),
    "takes-silence-for-absence": Mutant(
        "a lookup that failed counts as one that found nothing",
        {"effect_broker.adapters.http:probe_result_of": wrong.silence_is_absence},
        Cell(B, P.PROBE_ON_THE_WAY, D.TARGET_CUT_AFTER, H.WORKER_KILLED),
    ),
    "believes-absence-at-once": Mutant(
        "a negative lookup counts before the settlement bound has passed",
        {
            "effect_broker.domain.recovery:settled": wrong.instead(True),
            "effect_broker.domain.settle:until_settled": wrong.instead(NO_WAIT),
        },
        Cell(B, P.REQUEST_ON_THE_WAY, D.LATE_ARRIVAL, form="delay_before_commit"),
    ),
    "takes-a-reset-for-not-sent": Mutant(
        "a connection that broke counts as proof that nothing was sent",
        {
            "effect_broker.adapters.http:outcome_of": wrong.outcomes(
                wrong.reset_is_not_sent
            )
        },
        Cell(C, P.ANSWER_ON_THE_WAY, D.LOST_ANSWER, form="reset_after_commit"),
    ),
    "takes-an-error-for-a-rejection": Mutant(
        "a server error counts as proof that nothing was done",
        {
            "effect_broker.adapters.http:outcome_of": wrong.outcomes(
                wrong.error_is_rejection
            )
        },
        Cell(C, P.ANSWER_ON_THE_WAY, D.LOST_ANSWER, form="fail_after_commit"),
    ),
    "takes-an-unreadable-answer-for-a-failure": Mutant(
        "a success whose body cannot be read counts as a failure",
        {
            "effect_broker.adapters.http:outcome_of": wrong.outcomes(
                wrong.unreadable_is_failure
            )
        },
        Cell(C, P.ANSWER_ON_THE_WAY, D.LOST_ANSWER, form="garbage_after_commit"),
    ),
    "calls-cancelled-work-not-sent": Mutant(
        "work that SIGTERM cuts short counts as not sent",
        {"effect_broker.broker.dispatch:_ended": wrong.ended_as_not_sent},
        Cell(C, P.ANSWER_ON_THE_WAY, D.TERMINATE),
    ),
    "records-nothing-of-cancelled-work": Mutant(
        "work that SIGTERM cuts short is left to its lease",
        {"effect_broker.broker.dispatch:Dispatcher._abandon": wrong.abandons_silently},
        Cell(A, P.ANSWER_ON_THE_WAY, D.TERMINATE),
    ),
    "commits-the-claim-with-the-outcome": Mutant(
        "a request leaves before its attempt is committed",
        {
            "effect_broker.ledger.connection:Connections.fetch": (
                wrong.claims_commit_with_the_outcome
            )
        },
        Cell(C, P.ANSWER_ON_THE_WAY, D.KILL),
    ),
    "asks-again-for-what-it-could-not-record": Mutant(
        "an attempt is repeated where the ledger could not be told how it ended",
        {
            "effect_broker.broker.recording:RECORD_TRIES": wrong.value(1),
            "effect_broker.ledger.connection:Connections.fetch_again": wrong.not_repeated,
            "effect_broker.broker.dispatch:Dispatcher.carry_out": (
                wrong.asks_again_if_not_recorded
            ),
        },
        Cell(C, P.RECEIPT_COMMIT, D.DATABASE_CUT_BEFORE),
    ),
    "ends-leases-that-still-stand": Mutant(
        "a second worker takes work whose lease has not lapsed",
        {
            "effect_broker.ledger.postgres:PostgresLedger.expire_leases": (
                wrong.leases_end_at_once
            )
        },
        Cell(A, P.ANSWER_ON_THE_WAY, D.SECOND_WORKER),
    ),
    "mutates-apart-from-its-receipt": Mutant(
        "a local mutation is committed before its receipt, and not with it",
        {"effect_broker.ledger.transacting:_mutated": wrong.mutates_apart},
        Cell(T, F.BEFORE_RECEIPT_COMMIT, D.KILL),
    ),
    "takes-a-broken-transaction-for-a-commit": Mutant(
        "a connection that broke within the transaction counts as its commit",
        {
            "effect_broker.ledger.transacting:_BROKEN_OFF": wrong.value(
                Committed(external_id="1")
            )
        },
        Cell(T, P.MUTATION, D.DATABASE_CUT_AFTER),
    ),
}
