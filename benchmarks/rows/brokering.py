"""The whole broker in Python: against the floor, its own CPU, and a lost answer's way."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

import psycopg

from benchmarks.arithmetic import Measured, against
from benchmarks.bench import Bench
from benchmarks.broker import BrokerClient, request, seconds_each
from benchmarks.clients import Operation
from benchmarks.floor import three
from effect_broker.domain.intent import EffectRequest, Reservation

BATCH: Final = 100


def one_at_a_time(clients: int) -> Callable[[Bench], Awaitable[Measured]]:
    """Compare submit, dispatch and receipt with three commits, at a number of clients."""

    async def measure(bench: Bench) -> Measured:
        return await _against_three(bench, clients, BrokerClient.effect)

    return measure


async def in_process(bench: Bench) -> Measured:
    """Compare a submission that is carried out at once with three commits."""
    return await _against_three(bench, 1, BrokerClient.effect_in_process)


async def _against_three(
    bench: Bench,
    clients: int,
    carry_out: Callable[[BrokerClient, EffectRequest], Awaitable[Any]],
) -> Measured:
    operations = bench.size(400, quick=160)
    with bench.server.place() as place:
        brokers = [BrokerClient(place) for _ in range(clients)]
        plain = [await _connect(place.url) for _ in range(clients)]
        workers = [partial(carry_out, it) for it in brokers]
        ours, floor = await bench.take_turns(
            [
                lambda: seconds_each(workers, request, operations),
                lambda: seconds_each([_runner(it) for it in plain], three, operations),
            ]
        )
        for broker in brokers:
            await broker.close()
        for connection in plain:
            await connection.close()
    return against(ours, floor)


async def python_cpu(bench: Bench) -> Measured:
    """Measure this process's CPU for an effect, in microseconds, in batches of 100."""
    rounds = bench.size(15, quick=5)
    submitted: list[float] = []
    dispatched: list[float] = []
    with bench.server.place() as place:
        client = BrokerClient(place)
        dispatcher = client.dispatcher(batch_max=BATCH)
        for number in range(rounds + 1):
            requests = [request() for _ in range(BATCH)]
            begun = time.process_time()
            made = await _submit_all(client, requests)
            between = time.process_time()
            report = await dispatcher.run_once(effect_ids=made)
            ended = time.process_time()
            assert report.recorded == BATCH
            if number > 0:
                submitted.append((between - begun) / BATCH * 1e6)
                dispatched.append((ended - between) / BATCH * 1e6)
            bench.told((number + 1) / (rounds + 1))
        await client.close()
    totals = sorted(a + b for a, b in zip(submitted, dispatched, strict=True))
    return Measured(
        totals[len(totals) // 2],
        {"submit_us": min(submitted), "dispatch_us": min(dispatched)},
    )


def _runner(
    connection: psycopg.AsyncConnection[Any],
) -> Callable[[Operation], Awaitable[None]]:
    async def run(operation: Operation) -> None:
        for call in operation:
            async with connection.cursor(binary=True) as cursor:
                await cursor.execute(call.statement, call.parameters)

    return run


async def _connect(url: str) -> psycopg.AsyncConnection[Any]:
    return await psycopg.AsyncConnection.connect(
        url, autocommit=True, prepare_threshold=None
    )


async def _submit_all(
    client: BrokerClient, requests: Sequence[EffectRequest]
) -> list[UUID]:
    answers = await client.core.broker.submit_many(client.tenant_id, requests)
    return [it.effect.effect_id for it in answers if isinstance(it, Reservation)]
