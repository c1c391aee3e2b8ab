"""Clients that keep a server busy: one connection each, autocommit, nothing prepared.

Threads for calls alone, since they cost a call less than a task on an event loop; both
sides of a comparison always run in the same way.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, Self

import psycopg


class Call(NamedTuple):
    """One statement with its parameters: one round trip."""

    statement: bytes
    parameters: Mapping[str, Any]


Operation = Sequence[Call]


class Clients:
    """Connections that carry out prepared operations, each as fast as it is answered."""

    def __init__(self, url: str, count: int) -> None:
        self._url = url
        self._count = count
        self._closing = ExitStack()
        self._connections: list[psycopg.Connection[Any]] = []

    def __enter__(self) -> Self:
        for _ in range(self._count):
            connection = psycopg.connect(
                self._url, autocommit=True, prepare_threshold=None
            )
            self._connections.append(self._closing.enter_context(connection))
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    async def seconds_each(self, make: Callable[[], Operation], operations: int) -> float:
        """Carry out `operations` over all clients; return the seconds for each.

        The operations are made before the clock starts.
        """
        share = max(1, operations // self._count)
        work = [[make() for _ in range(share)] for _ in self._connections]
        elapsed = await asyncio.to_thread(self._drive, work)
        return elapsed / (share * self._count)

    def run(self, call: Call) -> list[Any]:
        """Carry out one call on the first connection."""
        return _run(self._connections[0], call)

    def _drive(self, work: Sequence[Sequence[Operation]]) -> float:
        failures: list[BaseException] = []
        at_start = threading.Barrier(len(work) + 1)

        def client(
            connection: psycopg.Connection[Any], mine: Sequence[Operation]
        ) -> None:
            at_start.wait()
            try:
                for operation in mine:
                    for call in operation:
                        _run(connection, call)
            except psycopg.Error as error:
                failures.append(error)

        threads = [
            threading.Thread(target=client, args=pair)
            for pair in zip(self._connections, work, strict=True)
        ]
        for thread in threads:
            thread.start()
        at_start.wait()
        begun = time.perf_counter()
        for thread in threads:
            thread.join()
        elapsed = time.perf_counter() - begun
        if failures:
            raise failures[0]
        return elapsed


def _run(connection: psycopg.Connection[Any], call: Call) -> list[Any]:
    with connection.cursor(binary=True) as cursor:
        cursor.execute(call.statement, call.parameters)
        # Asking for its description would make an object for each column.
        answer = cursor.pgresult
        return cursor.fetchall() if answer is not None and answer.nfields else []
