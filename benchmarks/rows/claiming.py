"""Claims: under a long history, under a held snapshot, in batches, in turns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any, Final

import psycopg

from benchmarks.arithmetic import Measured, against
from benchmarks.bench import Bench
from benchmarks.clients import Clients
from benchmarks.history import add_history, add_tenants, stock
from benchmarks.server import Place
from benchmarks.steps import Steps
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.fairness import Turn, Turns
from effect_broker.ledger.postgres import PostgresLedger

WINDOWS: Final = 10
BATCH: Final = 100
CLAIM_OF_A_DISPATCHER: Final = 50


async def under_history(bench: Bench) -> Measured:
    """Compare a claim in a ledger with a long history with one in a young ledger."""
    old, young = bench.size(10_000_000, quick=100_000), 10_000
    claims = bench.size(100, quick=60)
    with bench.server.place() as aged, bench.server.place() as fresh:
        with bench.server.quiet():
            add_history(fresh, young, months=1, told=lambda _: None)
            add_history(aged, old, months=12, told=lambda share: bench.told(share * 0.8))
            await stock(aged, 17 * claims)
            await stock(fresh, 17 * claims)
            bench.server.administer("CHECKPOINT")
        with Clients(aged.url, 1) as there, Clients(fresh.url, 1) as here:
            ours, floor = await bench.take_turns(
                [
                    lambda: there.seconds_each(_claims(aged), claims),
                    lambda: here.seconds_each(_claims(fresh), claims),
                ]
            )
    return against(ours, floor)


async def in_batches(bench: Bench) -> Measured:
    """Compare a row of a claim of a hundred with a claim of one."""
    rounds, ones = 17, 100
    with bench.server.place() as place, Clients(place.url, 1) as busy:
        await stock(place, rounds * (BATCH + ones) * 2)
        one, hundred = _claims(place), _claims(place, limit=BATCH)

        async def row_of_a_hundred() -> float:
            return await busy.seconds_each(hundred, 2) / BATCH

        ours, floor = await bench.take_turns(
            [row_of_a_hundred, lambda: busy.seconds_each(one, ones)]
        )
    return against(ours, floor)


async def in_turns(bench: Bench) -> Measured:
    """Compare a fair claim with one by age, beside a tenant with a mountain of work."""
    mountain, tenants, each = bench.size(1_000_000, quick=20_000), 200, 40
    claims = bench.size(20, quick=5)
    with bench.server.place() as place:
        await stock(place, mountain, told=lambda share: bench.told(share * 0.8))
        for other in await add_tenants(place, tenants):
            await stock(other, each)
        connections = Connections(place.url)
        fair, by_age = PostgresLedger(connections), FirstInFirstOut(connections)
        ours, floor = await bench.take_turns(
            [
                lambda: _claim_time(fair, place, claims),
                lambda: _claim_time(by_age, place, claims),
            ]
        )
        await connections.close()
    return against(ours, floor)


async def under_a_snapshot(bench: Bench) -> Measured:
    """Compare claims late under a held snapshot with the first ones under it."""
    window = bench.size(300_000, quick=20_000) // WINDOWS
    medians: list[float] = []
    with bench.server.place() as place, psycopg.connect(place.url) as holder:
        holder.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connections = Connections(place.url)
        ledger = PostgresLedger(connections)
        await _flow(ledger, place, 10)
        holder.execute(b"SELECT FROM floor.reserved")
        for number in range(WINDOWS):
            medians.append(median(await _flow(ledger, place, window // BATCH)))
            bench.told((number + 1) / WINDOWS)
        await connections.close()
    return Measured(
        medians[-1] / medians[0],
        {f"window_{number}_ms": it * 1000 for number, it in enumerate(medians, 1)},
    )


class FirstInFirstOut(PostgresLedger):
    """A ledger that knows no turns: the oldest work first, whoever's it is."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        self._turns = {lane: _NoTurns(connections, lane) for lane in self._turns}


class _NoTurns(Turns):
    async def next(self, *, named: bool) -> Turn:
        turn = await super().next(named=named)
        return Turn(None, turn.due_from)


def _claims(place: Place, *, limit: int = 1) -> Any:
    """Return what makes claims as a warm ledger does: a tenant's turn, a watermark."""
    steps = Steps(place)
    due_from = datetime.now(UTC) - timedelta(minutes=1)
    return lambda: [steps.claim(limit, due_from=due_from)]


async def _claim_time(ledger: PostgresLedger, place: Place, claims: int) -> float:
    steps = Steps(place)
    orders = [steps.order(CLAIM_OF_A_DISPATCHER) for _ in range(claims)]
    begun = time.perf_counter()
    for order in orders:
        claimed = await ledger.claim(order)
        assert len(claimed.claims) == CLAIM_OF_A_DISPATCHER
    return (time.perf_counter() - begun) / claims


async def _flow(ledger: PostgresLedger, place: Place, batches: int) -> Sequence[float]:
    """Send batches through the ledger; return what a claim of one took in each."""
    steps, times = Steps(place), []
    for _ in range(batches):
        await ledger.reserve([steps.intent() for _ in range(BATCH)])
        order = steps.order(1)
        begun = time.perf_counter()
        first = await ledger.claim(order)
        times.append(time.perf_counter() - begun)
        rest = await ledger.claim(steps.order(BATCH - 1))
        claims = [*first.claims, *rest.claims]
        assert len(claims) == BATCH
        await ledger.record(
            [steps.receipt(claim.intent.effect_id, claim.token) for claim in claims]
        )
    return times
