"""The reads of the PostgreSQL store: one statement each, fenced by the tenant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from effect_broker.domain.attempt import Attempt
from effect_broker.domain.event import EffectEvent
from effect_broker.domain.receipt import Receipt
from effect_broker.ledger import rows
from effect_broker.ledger.connection import Call, Connections, Row
from effect_broker.ledger.queries import statements
from effect_broker.ports import Reserved, Snapshot

_SQL: Final = statements("effects")


class PostgresReads:
    """What readers ask; nothing here writes."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def find(self, tenant_id: UUID, operation_key: str) -> Reserved | None:
        """Return what stands under an operation key."""
        found = await self._read(
            "find", {"tenant_id": tenant_id, "operation_key": operation_key}
        )
        return rows.reserved(found[0], created=False) if found else None

    async def get(self, tenant_id: UUID, effect_id: UUID) -> Snapshot | None:
        """Read an effect."""
        found = await self._read("get", _effect(tenant_id, effect_id))
        return rows.snapshot(found[0]) if found else None

    async def attempts(self, tenant_id: UUID, effect_id: UUID) -> Sequence[Attempt]:
        """Read an effect's attempts with their endings, by ordinal."""
        found = await self._read("attempts", _effect(tenant_id, effect_id))
        return list(map(rows.attempt, found))

    async def events(self, tenant_id: UUID, effect_id: UUID) -> Sequence[EffectEvent]:
        """Read an effect's history, by sequence."""
        found = await self._read("events", _effect(tenant_id, effect_id))
        return list(map(rows.event, found))

    async def receipt(self, tenant_id: UUID, effect_id: UUID) -> Receipt | None:
        """Read the terminal row of an effect."""
        found = await self._read("receipt", _effect(tenant_id, effect_id))
        return rows.receipt(found[0]) if found else None

    async def _read(self, name: str, parameters: Mapping[str, Any]) -> list[Row]:
        return await self._connections.fetch_again(Call(_SQL[name], dict(parameters)))


def _effect(tenant_id: UUID, effect_id: UUID) -> dict[str, UUID]:
    return {"tenant_id": tenant_id, "effect_id": effect_id}
