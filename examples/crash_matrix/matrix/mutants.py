"""Planted faults, each in one rule of the broker, and the cell that must catch it.

A matrix that nothing fails proves nothing. `--mutant NAME` plays the cell with the fault
in every process of the broker; the judges and the target stay as they are.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Final

from effect_broker.domain.outcome import (
    Ambiguous,
    NotSent,
    ProbeResult,
    ProbeStatus,
    Rejected,
)
from effect_broker.domain.timing import NO_WAIT
from effect_broker.failpoints import Failpoint
from examples.crash_matrix.matrix.cells import (
    Cell,
    Disturbance,
    History,
    Place,
    Scenario,
)

Around = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Mutant:
    """A fault in one sentence, where it is planted, and the cell that must catch it."""

    fault: str
    plants: Mapping[str, Around]
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


def _instead(answer: Any) -> Around:
    return lambda _: lambda *_args, **_named: answer


def _timeout_is_not_sent(right: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(*given: Any) -> Any:
        outcome = right(*given)
        timed_out = isinstance(outcome, Ambiguous) and outcome.reason == "timed_out"
        return NotSent("timed_out") if timed_out else outcome

    return wrong


def _loss_is_failure(right: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(*given: Any) -> Any:
        outcome = right(*given)
        if isinstance(outcome, Ambiguous):
            return Rejected(outcome.reason, final=True)
        return outcome

    return wrong


def _sends_again_by_itself(right: Callable[..., Any]) -> Callable[..., Any]:
    async def wrong(*given: Any, **named: Any) -> Any:
        known = await right(*given, **named)
        if known.sent and known.status is None:
            return await right(*given, **{**named, "watch": None})
        return known

    return wrong


def _silence_is_absence(right: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(*given: Any) -> Any:
        result = right(*given)
        if result.status is ProbeStatus.UNKNOWN:
            return ProbeResult(ProbeStatus.NOT_COMMITTED)
        return result

    return wrong


def _another_key(right: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(*given: Any) -> Any:
        return replace(right(*given), downstream_key=secrets.token_urlsafe(32))

    return wrong


def _deadline_from_now(right: Callable[..., Any]) -> Callable[..., Any]:
    from effect_broker.clock import SystemClock

    def wrong(read: Any, seconds: float) -> Any:
        clock = SystemClock()
        now = replace(
            read,
            monotonic=clock.monotonic(),
            boottime=clock.boottime(),
            wall=clock.wall(),
        )
        return right(now, seconds)

    return wrong


def _unwatched(right: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def wrong(*_: Any, **__: Any) -> Iterator[None]:
        yield

    return wrong


A, B, C = Scenario.A, Scenario.B, Scenario.C
D, F, H, P = Disturbance, Failpoint, History, Place

MUTANTS: Final[Mapping[str, Mutant]] = {
    "sends-past-its-deadline": Mutant(
        "neither the gate nor the watchdog holds a send to its deadline",
        {
            "effect_broker.adapters.wire.gate:SendGate.refusal": _instead(None),
            "effect_broker.watchdog:ThreadWatchdog.guard": _unwatched,
        },
        Cell(B, F.BEFORE_SOCKET_WRITE, D.PAUSE),
    ),
    "counts-the-deadline-from-the-send": Mutant(
        "the send deadline counts from the dispatch, not from before the claim",
        {
            "effect_broker.broker.attempting:deadline_after": _deadline_from_now,
        },
        Cell(B, F.AFTER_ATTEMPT_COMMIT, D.PAUSE),
    ),
    "takes-a-timeout-for-not-sent": Mutant(
        "a read timeout counts as proof that nothing was sent",
        {"effect_broker.adapters.http:outcome_of": _timeout_is_not_sent},
        Cell(C, P.ANSWER_ON_THE_WAY, D.LOST_ANSWER, form="hold_after_commit"),
    ),
    "calls-a-lost-answer-failed": Mutant(
        "a lost answer is a final rejection",
        {"effect_broker.adapters.http:outcome_of": _loss_is_failure},
        Cell(C, P.ANSWER_ON_THE_WAY, D.LOST_ANSWER, form="drop_after_commit"),
    ),
    "sends-again-by-itself": Mutant(
        "the client repeats a request whose answer was lost, within one attempt",
        {"effect_broker.adapters.http:exchange": _sends_again_by_itself},
        Cell(C, P.ANSWER_ON_THE_WAY, D.LOST_ANSWER, form="drop_after_commit"),
    ),
    "sends-another-key": Mutant(
        "each attempt has a downstream key of its own",
        {"effect_broker.broker.attempting:effect_record": _another_key},
        Cell(A, P.ANSWER_ON_THE_WAY, D.KILL),
    ),
    "takes-silence-for-absence": Mutant(
        "a lookup that failed counts as one that found nothing",
        {"effect_broker.adapters.http:probe_result_of": _silence_is_absence},
        Cell(B, P.PROBE_ON_THE_WAY, D.TARGET_CUT_AFTER, H.WORKER_KILLED),
    ),
    "believes-absence-at-once": Mutant(
        "a negative lookup counts before the settlement bound has passed",
        {
            "effect_broker.domain.recovery:settled": _instead(True),
            "effect_broker.domain.settle:until_settled": _instead(NO_WAIT),
        },
        Cell(B, P.REQUEST_ON_THE_WAY, D.LATE_ARRIVAL, form="delay_before_commit"),
    ),
}
