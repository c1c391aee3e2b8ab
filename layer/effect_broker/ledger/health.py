"""What a doctor asks the database; nothing here writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from effect_broker.ledger.connection import Call, Connections, Row
from effect_broker.ledger.queries import statements

_SQL: Final = statements("health")

LOOKS: Final = 3
"""How often a connection is asked which backend answers."""


@dataclass(frozen=True, slots=True)
class Server:
    """The database as its connection shows it."""

    version: int
    recovering: bool
    role: str
    superuser: bool
    owner: bool
    fsync: bool
    full_page_writes: bool
    synchronous_commit: str
    statements_end: bool
    idle_transactions_end: bool
    isolation: str


@dataclass(frozen=True, slots=True)
class Backends:
    """Which backends answered on one connection: `announced` when it was opened, `loose`
    statement by statement, `held` inside one transaction.
    """

    announced: int
    loose: Sequence[int]
    held: Sequence[int]


@dataclass(frozen=True, slots=True)
class LedgerClock:
    """The ledger's clock, and the latest event of live work."""

    now: datetime
    last_event_at: datetime | None


class PostgresHealth:
    """Facts about the database, its clock and what stands between."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def server(self) -> Server:
        """Return what the connection reaches.

        Raises:
            LedgerUnavailable: it reaches nothing.
        """
        (found,) = await self._read("server")
        return Server(**found._asdict())

    async def clock(self) -> LedgerClock:
        """Read the ledger's clock."""
        (found,) = await self._read("clock")
        return LedgerClock(found.now, found.last_event_at)

    async def backends(self) -> Backends:
        """Ask one connection several times who answers, alone and in a transaction."""
        async with self._connections.lend() as connection:

            async def pid() -> int:
                async with connection.cursor() as cursor:
                    await cursor.execute(_SQL["backend"])
                    found: Any = await cursor.fetchone()
                    return int(found.pid)

            loose = [await pid() for _ in range(LOOKS)]
            async with connection.transaction():
                held = [await pid() for _ in range(LOOKS)]
            return Backends(connection.info.backend_pid, loose, held)

    async def recent_operation_keys(
        self, tenant_id: UUID, limit: int
    ) -> Sequence[tuple[UUID, str]]:
        """Return a tenant's newest operation keys with their effects."""
        found = await self._read(
            "recent_operation_keys", tenant_id=tenant_id, limit=limit
        )
        return [(row.effect_id, row.operation_key) for row in found]

    async def _read(self, name: str, **parameters: Any) -> list[Row]:
        return await self._connections.fetch_again(Call(_SQL[name], parameters))
