"""Wrong behaviour to be planted: each function takes what is right and returns what is
wrong.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    NotSent,
    Outcome,
    ProbeResult,
    ProbeStatus,
    Rejected,
)

Right = Callable[..., Any]
Around = Callable[[Any], Any]


def instead(answer: Any) -> Around:
    """Answer always the same."""
    return lambda _: lambda *_args, **_named: answer


def value(wrong: Any) -> Around:
    """Put another value in the place of a constant."""
    return lambda _: wrong


def outcomes(change: Callable[[Outcome], Outcome]) -> Around:
    """Change what a function makes of an attempt."""
    return lambda right: lambda *given, **named: change(right(*given, **named))


def timeout_is_not_sent(outcome: Outcome) -> Outcome:
    """Take a read timeout for proof that nothing was sent."""
    return _not_sent(outcome, "timed_out")


def reset_is_not_sent(outcome: Outcome) -> Outcome:
    """Take a broken connection for proof that nothing was sent."""
    return _not_sent(outcome, "connection_lost")


def _not_sent(outcome: Outcome, reason: str) -> Outcome:
    is_it = isinstance(outcome, Ambiguous) and outcome.reason == reason
    return NotSent(reason) if is_it else outcome


def loss_is_failure(outcome: Outcome) -> Outcome:
    """Take every lost answer for a final rejection."""
    if isinstance(outcome, Ambiguous):
        return Rejected(outcome.reason, final=True)
    return outcome


def error_is_rejection(outcome: Outcome) -> Outcome:
    """Take a server error for a rejection that may be retried."""
    if isinstance(outcome, Ambiguous) and outcome.reason.startswith("status_5"):
        return Rejected(outcome.reason)
    return outcome


def unreadable_is_failure(outcome: Outcome) -> Outcome:
    """Take a success whose body cannot be read for a failure."""
    if isinstance(outcome, Committed) and outcome.flags:
        return Rejected("unreadable", final=True)
    return outcome


def ended_as_not_sent(right: Right) -> Right:
    """Take work that was cut short for proof that nothing was sent."""

    def wrong(*given: Any) -> Any:
        ended = right(*given)
        return replace(ended, outcome=_not_sent(ended.outcome, "cancelled"))

    return wrong


def abandons_silently(right: Right) -> Right:
    """Record nothing of work that is cut short."""

    async def wrong(*_: Any) -> None:
        return None

    return wrong


def asks_again_if_not_recorded(right: Right) -> Right:
    """Repeat the attempts whose endings could not be written down."""

    async def wrong(*given: Any) -> Any:
        try:
            return await right(*given)
        except LedgerUnavailable:
            return await right(*given)

    return wrong


def not_repeated(right: Right) -> Right:
    """Ask the ledger once, where an unknown commit would be asked about again."""

    async def wrong(connections: Any, call: Any) -> Any:
        return await connections.fetch(call)

    return wrong


def leases_end_at_once(right: Right) -> Right:
    """Take every lease for a lapsed one."""

    async def wrong(*given: Any, **_: Any) -> Any:
        return await right(*given, clock_margin=-timedelta(seconds=60))

    return wrong


def claims_commit_with_the_outcome(right: Right) -> Right:
    """Keep the transaction of a claim open until what came of it is written."""
    open_claims: list[Any] = []

    async def wrong(connections: Any, call: Any) -> Any:
        if b"effect_broker.claim(" in call.statement:
            connection = await connections._connect()
            await connection.execute(b"BEGIN")
            async with connection.cursor(binary=True) as cursor:
                await cursor.execute(call.statement, call.parameters)
                found = await cursor.fetchall()
            open_claims.append(connection)
            if found:
                return found
        while open_claims:
            await open_claims[-1].execute(b"COMMIT")
            await open_claims.pop().close()
        return await right(connections, call)

    return wrong


def mutates_apart(right: Right) -> Right:
    """Commit the mutation in a transaction of its own, before the receipt's."""

    async def wrong(_: Any, mutation: Any) -> Any:
        url = os.environ["EFFECT_BROKER_DATABASE_URL"]
        async with await psycopg.AsyncConnection.connect(url) as apart:
            return await right(apart, mutation)

    return wrong


def sends_again_by_itself(right: Right) -> Right:
    """Repeat a request whose answer was lost, within one attempt."""

    async def wrong(*given: Any, **named: Any) -> Any:
        known = await right(*given, **named)
        if known.sent and known.status is None:
            return await right(*given, **{**named, "watch": None})
        return known

    return wrong


def silence_is_absence(right: Right) -> Right:
    """Take a lookup that failed for one that found nothing."""

    def wrong(*given: Any) -> Any:
        result = right(*given)
        if result.status is ProbeStatus.UNKNOWN:
            return ProbeResult(ProbeStatus.NOT_COMMITTED)
        return result

    return wrong


def another_key(right: Right) -> Right:
    """Give each attempt a downstream key of its own."""

    def wrong(*given: Any) -> Any:
        return replace(right(*given), downstream_key=secrets.token_urlsafe(32))

    return wrong


def deadline_from_now(right: Right) -> Right:
    """Count the send deadline from where it is asked for."""
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


def unwatched(right: Right) -> Right:
    """Watch nothing."""

    @contextmanager
    def wrong(*_: Any, **__: Any) -> Iterator[None]:
        yield

    return wrong
