"""Reservations against the bare insert: new ones, repeated ones, a thousand at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from benchmarks.arithmetic import Measured, against
from benchmarks.bench import Bench
from benchmarks.clients import Call, Clients
from benchmarks.floor import bare
from benchmarks.server import query
from benchmarks.steps import Steps
from benchmarks.wal import WalMeter
from effect_broker.domain.intent import Intent
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.postgres import PostgresLedger

AT_ONCE: Final = 1000
SAME_KEY_CONNECTIONS: Final = 100
"""A server on two cores has no use for a connection each: ten requests wait for one."""

REPEATED: Final = 50
"""How many effects the repeated reservations go round."""


def reserve(clients: int) -> Callable[[Bench], Awaitable[Measured]]:
    """Compare a reservation with the bare insert at a number of clients."""

    async def measure(bench: Bench) -> Measured:
        operations = bench.size(800, quick=240)
        with bench.server.place() as place, Clients(place.url, clients) as busy:
            steps = Steps(place)
            ours, floor = await bench.take_turns(
                [
                    lambda: busy.seconds_each(
                        lambda: [steps.reserve(steps.intent())], operations
                    ),
                    lambda: busy.seconds_each(bare, operations),
                ]
            )
        return against(ours, floor)

    return measure


def repeated(*, drift: bool) -> Callable[[Bench], Awaitable[Measured]]:
    """Compare a replay, or a conflict, with the bare insert."""

    async def measure(bench: Bench) -> Measured:
        operations = bench.size(800, quick=240)
        with bench.server.place() as place, Clients(place.url, 1) as busy:
            again = _again(busy, Steps(place), drift=drift)
            ours, floor = await bench.take_turns(
                [
                    lambda: busy.seconds_each(lambda: [again()], operations),
                    lambda: busy.seconds_each(bare, operations),
                ]
            )
        return against(ours, floor)

    return measure


def repeated_wal(*, drift: bool) -> Callable[[Bench], Awaitable[Measured]]:
    """Count what a replay, or a conflict, writes to the log."""

    async def measure(bench: Bench) -> Measured:
        with bench.server.place() as place, Clients(place.url, 1) as busy:
            again = _again(busy, Steps(place), drift=drift)
            with bench.server.quiet():
                # The first read of a row after its commit sets hint bits, which page
                # checksums log once a page: the database's upkeep, not the replay's.
                await busy.seconds_each(lambda: [again()], REPEATED)
                log = WalMeter(place.url)
                await busy.seconds_each(lambda: [again()], REPEATED)
                written = log.written()
        return Measured(written.bytes + written.images)

    return measure


async def same_key_time(bench: Bench) -> Measured:
    """Compare a thousand reservations of one key with a thousand of distinct keys."""
    with bench.server.place() as place:
        connections = Connections(place.url, limit=SAME_KEY_CONNECTIONS)
        steps = Steps(place)

        async def one_key() -> float:
            key = steps.intent().operation_key
            return await _at_once(connections, [steps.intent(key) for _ in _thousand()])

        async def distinct_keys() -> float:
            return await _at_once(connections, [steps.intent() for _ in _thousand()])

        ours, floor = await bench.take_turns([one_key, distinct_keys])
        await connections.close()
    return against(ours, floor)


async def same_key_created(bench: Bench) -> Measured:
    """Count the effects that a thousand reservations of one key make."""
    with bench.server.place() as place:
        connections = Connections(place.url, limit=SAME_KEY_CONNECTIONS)
        steps = Steps(place)
        key = steps.intent().operation_key
        await _at_once(connections, [steps.intent(key) for _ in _thousand()])
        await connections.close()
        stored = query(place.url, "SELECT count(*) FROM effect_broker.effect_intents")
    return Measured(int(stored[0][0]))


def _thousand() -> range:
    return range(AT_ONCE)


async def _at_once(connections: Connections, intents: Sequence[Intent]) -> float:
    """Reserve all at once, and return the seconds for each."""
    ledger = PostgresLedger(connections)
    begun = time.perf_counter()
    await asyncio.gather(*(ledger.reserve([intent]) for intent in intents))
    return (time.perf_counter() - begun) / len(intents)


def _again(busy: Clients, steps: Steps, *, drift: bool) -> Callable[[], Call]:
    """Reserve some effects, and return what makes repeats of them in turn."""
    stored = [steps.intent() for _ in range(REPEATED)]
    busy.run(steps.reserve(*stored))
    turn = 0

    def call() -> Call:
        nonlocal turn
        turn += 1
        intent = stored[turn % len(stored)]
        repeat = (
            steps.other_payload(intent) if drift else steps.intent(intent.operation_key)
        )
        return steps.reserve(repeat)

    return call
