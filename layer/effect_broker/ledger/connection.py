"""Connections to the writer without session state, for a proxy, a pooler or neither.

Autocommit, no prepared statements, no SET, no session locks. A connection that breaks is
thrown away; what its last call did is then unknown, and `ConnectionLost` says so.
"""

from __future__ import annotations

import asyncio
import select
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import AsyncConnection, errors
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format, TransactionStatus
from psycopg.rows import namedtuple_row

from effect_broker.domain.errors import (
    InvalidRequest,
    LedgerUnavailable,
    NotFound,
    SchemaMismatch,
)

Connection = AsyncConnection[Any]
Row = Any
"""A named tuple of one result row."""

CONNECT_SECONDS_MAX: Final = 5
SILENCE_MILLISECONDS_MAX: Final = 10_000
"""How long the kernel waits for an acknowledgement before it gives a connection up."""

IDLE_SECONDS_UNASKED: Final = 30
"""After a longer pause (a frozen Lambda) a connection is asked before it is trusted."""

ANSWER_SECONDS_MAX: Final = 2.0
TRIES_AFTER_ROLLBACK: Final = 5

_ROLLED_BACK: Final = (errors.SerializationFailure, errors.DeadlockDetected)
_NOT_THE_WRITER: Final = (errors.ReadOnlySqlTransaction,)
_OTHER_SCHEMA: Final = (
    errors.UndefinedFunction,
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.UndefinedObject,
    errors.InvalidSchemaName,
)
_BROKEN: Final = ("08", "080", "57P")
"""How the SQLSTATEs of ending connections start; none at all counts as one."""

_UNKNOWN_PARTY: Final = "EB005"

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECONDS: Final = struct.Struct("!q")


class ConnectionLost(LedgerUnavailable):
    """The connection broke during a call: it may have committed, or may still commit."""


class Call(NamedTuple):
    """One statement that returns rows, with its parameters: one round trip, at most one
    commit.
    """

    statement: bytes
    parameters: dict[str, Any]


Introduction = Callable[[Callable[[Call], Awaitable[list[Row]]]], Awaitable[bool]]
"""Looks at the ledger before a process uses it; False asks to look again."""


class Connections:
    """Up to `limit` connections, made when needed, the last used first.

    A Lambda environment has one, a plain process a few. `conninfo` is a libpq URL, or is
    asked for one at each connect, for passwords that rotate. `introduction` runs on new
    connections before anybody else, until it is satisfied; what it raises is raised.
    """

    def __init__(
        self,
        conninfo: str | Callable[[], str],
        *,
        limit: int = 1,
        introduction: Introduction | None = None,
    ) -> None:
        if limit < 1:
            raise ValueError("A ledger needs at least one connection.")
        self._conninfo = conninfo
        self._free: list[tuple[Connection, float]] = []
        self._places = asyncio.Semaphore(limit)
        self._introduction = introduction

    async def fetch(self, call: Call) -> list[Row]:
        """Run a call that the database repeats by itself where it rolled back.

        Raises:
            ConnectionLost: the call may have committed.
            LedgerUnavailable: it did not.
        """
        for remaining in reversed(range(TRIES_AFTER_ROLLBACK)):
            try:
                async with self._connection() as connection:
                    return await _run(connection, call)
            except _ROLLED_BACK as error:
                if not remaining:
                    raise LedgerUnavailable("The ledger is too busy.") from error
        raise AssertionError("unreachable")

    async def fetch_again(self, call: Call) -> list[Row]:
        """Run a call that may be repeated after an unknown commit, on a new connection.

        Raises:
            LedgerUnavailable: the second connection failed as well.
        """
        try:
            return await self.fetch(call)
        except ConnectionLost:
            return await self.fetch(call)

    def lend(self) -> AbstractAsyncContextManager[Connection]:
        """Lend a connection for a transaction of several statements.

        Left idle it is kept; left in any other state it is closed, and the server rolls
        back.

        Raises:
            LedgerUnavailable: there is none, or it is not the writer's.
        """
        return self._connection()

    async def close(self) -> None:
        """Close what is open and free."""
        while self._free:
            connection, _ = self._free.pop()
            await connection.close()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        async with self._places:
            connection = await self._trusted() or await self._connect()
            try:
                yield connection
            except _NOT_THE_WRITER as error:
                await connection.close()
                raise LedgerUnavailable("The database is not the writer.") from error
            finally:
                if connection.pgconn.transaction_status == TransactionStatus.IDLE:
                    self._free.append((connection, time.monotonic()))
                else:
                    await connection.close()

    async def _trusted(self) -> Connection | None:
        while self._free:
            connection, used_at = self._free.pop()
            idle = time.monotonic() - used_at
            if not _is_dead(connection) and (
                idle < IDLE_SECONDS_UNASKED or await _answers(connection)
            ):
                return connection
            await connection.close()
        return None

    async def _connect(self) -> Connection:
        conninfo = self._conninfo if isinstance(self._conninfo, str) else self._conninfo()
        try:
            connection = await AsyncConnection.connect(
                conninfo,
                autocommit=True,
                prepare_threshold=None,
                row_factory=namedtuple_row,
                target_session_attrs="read-write",
                connect_timeout=CONNECT_SECONDS_MAX,
                keepalives_idle=IDLE_SECONDS_UNASKED,
                tcp_user_timeout=SILENCE_MILLISECONDS_MAX,
                fallback_application_name="effect-broker",
            )
        except psycopg.OperationalError as error:
            raise LedgerUnavailable("The ledger cannot be reached.") from error
        if connection.pgconn.parameter_status(b"TimeZone") != b"UTC":
            connection.adapters.register_loader("timestamptz", _UtcLoader)
        if self._introduction is not None:
            await self._introduce(connection, self._introduction)
        return connection

    async def _introduce(
        self, connection: Connection, introduction: Introduction
    ) -> None:
        satisfied = False
        try:
            satisfied = await introduction(partial(_run, connection))
        except BaseException:
            await connection.close()
            raise
        if satisfied:
            self._introduction = None


async def _run(connection: Connection, call: Call) -> list[Row]:
    try:
        async with connection.cursor(binary=True) as cursor:
            await cursor.execute(call.statement, call.parameters)
            return await cursor.fetchall()
    except (*_ROLLED_BACK, *_NOT_THE_WRITER):
        raise
    except _OTHER_SCHEMA as error:
        raise SchemaMismatch(
            "The ledger's schema is older or newer than this release."
        ) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        if connection.closed or is_broken(error):
            await connection.close()
            raise ConnectionLost("The connection to the ledger broke.") from error
        raise LedgerUnavailable("The ledger refused to work.") from error
    except errors.StringDataRightTruncation as error:
        raise InvalidRequest("A text is longer than the ledger keeps.") from error
    except psycopg.Error as error:
        if error.sqlstate == _UNKNOWN_PARTY:
            raise NotFound(
                "The tenant is unknown or disabled, or the contract is not published."
            ) from error
        raise


def is_broken(error: psycopg.Error) -> bool:
    """Say whether an error is the end of a connection, after which nothing is known."""
    ended = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return ended and (error.sqlstate or "08")[:3] in _BROKEN


def _is_dead(connection: Connection) -> bool:
    """Say whether the server has already hung up; nothing is sent."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if not poll.poll(0):
        return False
    try:
        connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return True
    return connection.closed


async def _answers(connection: Connection) -> bool:
    with suppress(psycopg.Error, TimeoutError):
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            await connection.execute(b"SELECT 1")
            return True
    return False


class _UtcLoader(Loader):
    """Reads instants as UTC where the session keeps another zone."""

    format = Format.BINARY

    def load(self, data: Buffer) -> datetime:
        return _EPOCH + timedelta(0, 0, *_MICROSECONDS.unpack(data))
