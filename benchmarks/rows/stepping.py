"""The steps of an effect as calls, against three bare commits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from benchmarks.arithmetic import Measured, against
from benchmarks.bench import Bench
from benchmarks.clients import Call, Clients
from benchmarks.floor import three
from benchmarks.steps import Steps

Measure = Callable[[Bench], Awaitable[Measured]]


def across_processes(clients: int) -> Measure:
    """Compare reserve, claim and finish with three commits at a number of clients."""
    return _against_three(Steps.whole, clients)


def in_process(clients: int) -> Measure:
    """Compare a reservation that is leased already, and finish, with three commits."""
    return _against_three(Steps.whole_in_process, clients)


def _against_three(whole: Callable[[Steps], Sequence[Call]], clients: int) -> Measure:
    async def measure(bench: Bench) -> Measured:
        operations = bench.size(400, quick=160)
        with bench.server.place() as place, Clients(place.url, clients) as busy:
            steps = Steps(place)
            ours, floor = await bench.take_turns(
                [
                    lambda: busy.seconds_each(lambda: whole(steps), operations),
                    lambda: busy.seconds_each(three, operations),
                ]
            )
        return against(ours, floor)

    return measure
