"""The reads of the PostgreSQL store: one statement each, fenced by the tenant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from effect_broker.domain.attempt import Attempt
from effect_broker.domain.errors import EffectNotFound
from effect_broker.domain.event import EffectEvent
from effect_broker.domain.receipt import Receipt
from effect_broker.domain.status import EffectStatus
from effect_broker.ledger import rows
from effect_broker.ledger.chain import first_break, receipt_digest
from effect_broker.ledger.connection import Call, Connections, Row
from effect_broker.ledger.queries import statements
from effect_broker.ports import EffectQuery, Reserved, Snapshot, UnknownCount

_SQL: Final = {**statements("effects"), **statements("pages")}

_S = EffectStatus
_LANES: Final[Mapping[EffectStatus, Sequence[int]]] = {
    _S.PREPARED: (0, 1),
    _S.RETRYABLE: (0, 1),
    _S.OUTCOME_UNKNOWN: (1,),
    _S.DISPATCHING: (2,),
    _S.RECONCILING: (2,),
    _S.MANUAL_REVIEW: (3, 1),
}
"""Where effects of a live status wait; proof of commit moves them to lane 1."""


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

    async def verify(self, tenant_id: UUID, effect_id: UUID) -> str | None:
        """Recompute an effect's chain here and in the database.

        Returns what is broken, in one sentence; None where everything holds.

        Raises:
            EffectNotFound: no such effect for this tenant, or it is archived.
        """
        effect = _effect(tenant_id, effect_id)
        events = await self.events(tenant_id, effect_id)
        if not events:
            raise EffectNotFound(f"There is no history of effect {effect_id}.")
        here = first_break(events)
        there = await self._read("broken_events", effect)
        if here is not None or there:
            place = here if here is not None else there[0].sequence
            return f"The history breaks at sequence {place}."
        heads = await self._read("heads", effect)
        if heads[0].head not in (None, events[-1].digest):
            return "The history does not end where the effect stands."
        receipt = await self.receipt(tenant_id, effect_id)
        if receipt and receipt.digest != receipt_digest(receipt, heads[0].contract_id):
            return "The receipt does not bear its digest."
        return None

    async def page(self, tenant_id: UUID, query: EffectQuery) -> Sequence[Snapshot]:
        """List effects by keyset, newest first."""
        parameters = {
            "tenant_id": tenant_id,
            "after": query.after,
            "status": query.status,
            "tool": query.tool,
            "prefix": query.operation_prefix,
            "older_than_ms": None
            if query.older_than is None
            else rows.milliseconds(query.older_than),
            "limit": query.limit,
            "lanes": list(_LANES.get(query.status, ())) if query.status else [],
        }
        found = await self._read(_page_statement(query), parameters)
        return list(map(rows.snapshot, found))

    async def contradictions(
        self, tenant_id: UUID, *, limit: int = 50, after: UUID | None = None
    ) -> Sequence[Snapshot]:
        """List terminal effects against which late evidence speaks, newest first."""
        query = EffectQuery(contradicted=True, limit=limit, after=after)
        return await self.page(tenant_id, query)

    async def unknown_summary(self) -> Sequence[UnknownCount]:
        """Count unproved effects over all tenants, by contract; for operators' gauges."""
        found = await self._read("unknown_summary", {})
        return [
            UnknownCount(row.contract, row.tool, row.effects, row.oldest_age_seconds)
            for row in found
        ]

    async def _read(self, name: str, parameters: Mapping[str, Any]) -> list[Row]:
        return await self._connections.fetch_again(Call(_SQL[name], dict(parameters)))


def _effect(tenant_id: UUID, effect_id: UUID) -> dict[str, UUID]:
    return {"tenant_id": tenant_id, "effect_id": effect_id}


def _page_statement(query: EffectQuery) -> str:
    if query.unknown:
        return "page_unknown"
    if query.contradicted:
        return "page_contradicted"
    if query.status in _LANES:
        return "page_live"
    return "page_failed" if query.status is EffectStatus.FAILED_FINAL else "page"
