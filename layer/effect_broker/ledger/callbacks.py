"""Tokens of waiting callers in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from effect_broker.ledger.connection import Call, Connections, Row
from effect_broker.ledger.queries import statements
from effect_broker.ports import Callback, Sealed

_SQL: Final = statements("callbacks")


class PostgresCallbacks:
    """`CallbackStore` on PostgreSQL."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def keep(
        self, tenant_id: UUID, effect_id: UUID, callback_id: UUID, sealed: Sealed
    ) -> bool:
        """Keep a token once; say whether it can be answered now."""
        found = await self._call(
            "keep_callback",
            tenant_id=tenant_id,
            effect_id=effect_id,
            callback_id=callback_id,
            sealed=sealed.ciphertext,
            data_key_id=sealed.key_id,
        )
        return bool(found[0].answerable)

    async def claim(
        self, token: UUID, limit: int, *, effect_ids: Sequence[UUID] | None = None
    ) -> Sequence[Callback]:
        """Take what can be answered: of these effects, or all that is due.

        After an unknown commit nothing is repeated: the lease ends, and the next claim
        takes it.
        """
        call = Call(
            _SQL["claim_callbacks"],
            {
                "token": token,
                "limit": limit,
                "effect_ids": None if effect_ids is None else list(effect_ids),
            },
        )
        return [_callback(row) for row in await self._connections.fetch(call)]

    async def end(self, callback: Callback, token: UUID) -> bool:
        """Forget an answered one; False where the lease was lost meanwhile."""
        found = await self._call(
            "end_callback",
            effect_id=callback.effect_id,
            callback_id=callback.callback_id,
            token=token,
        )
        return bool(found[0].ended)

    async def _call(self, name: str, **parameters: Any) -> list[Row]:
        return await self._connections.fetch_again(Call(_SQL[name], parameters))


def _callback(row: Row) -> Callback:
    return Callback(
        effect_id=row.effect_id,
        callback_id=row.callback_id,
        tenant_id=row.tenant_id,
        sealed=Sealed(row.sealed, row.data_key_id),
        deliveries=row.deliveries,
    )
