"""Reads for an audit: what was sent in a window, over all tenants."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from effect_broker.domain.status import EffectStatus
from effect_broker.ledger.connection import Call, Connections
from effect_broker.ledger.queries import statements
from effect_broker.ledger.rows import milliseconds
from effect_broker.ports import AuditedEffect

_SQL: Final = statements("audit")


class PostgresAuditReads:
    """Implements `ports.AuditReads`; reads a contract's effects from end to end."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def audited(
        self,
        contract_name: str,
        sent_after: datetime,
        sent_before: datetime,
        settlement: timedelta,
    ) -> Sequence[AuditedEffect]:
        """Return what was first sent in a window; archived effects are left out.

        Raises:
            LedgerUnavailable: nothing was read.
        """
        parameters = {
            "name": contract_name,
            "sent_after": sent_after,
            "sent_before": sent_before,
            "settlement_ms": milliseconds(settlement),
        }
        found = await self._connections.fetch_again(Call(_SQL["audited"], parameters))
        return [
            AuditedEffect(
                effect_id=row.effect_id,
                tenant=row.tenant,
                operation_key=row.operation_key,
                status=EffectStatus(row.shown_status),
                unknown=row.unknown,
                downstream_keys=tuple(row.downstream_keys),
                external_id=row.external_id,
                first_started_at=row.first_started_at,
                last_settled_at=row.last_settled_at,
            )
            for row in found
        ]
