"""What operators do in the PostgreSQL store: decisions, links, holds."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from effect_broker.domain.errors import (
    DecisionRefused,
    EffectNotFound,
    SchemaMismatch,
    VersionConflict,
)
from effect_broker.ledger.connection import Call, Connections, Row
from effect_broker.ledger.migrate import HEAD
from effect_broker.ledger.queries import statements
from effect_broker.ports import (
    DispatchHold,
    Resolution,
    StepResult,
    StepStatus,
)

_SQL: Final = statements("operate")

_COMPENSATION_REFUSED: Final[Mapping[str, str]] = {
    "itself": "An effect cannot compensate itself.",
    "not_succeeded": "Only an effect that has succeeded can be compensated, and once.",
    "compensating_not_succeeded": "The compensating effect has not succeeded.",
    "used": "The compensating effect compensates another effect already.",
}


class SchemaState(StrEnum):
    """How the database's schema stands to this release."""

    OK = "ok"
    OLD = "old"
    NEW = "new"
    ABSENT = "absent"


class PostgresOperating:
    """Rare writes, each insert-only and repeatable."""

    _connections: Connections

    async def resolution(
        self, tenant_id: UUID, effect_id: UUID, decision_id: str
    ) -> tuple[Resolution, int] | None:
        """Return an operator's earlier decision and the version it made."""
        found = await self._operate(
            "resolution",
            {"tenant_id": tenant_id, "effect_id": effect_id, "decision_id": decision_id},
        )
        if not found:
            return None
        row = found[0]
        resolution = Resolution(
            decision_id=row.decision_id,
            decision=row.decision,
            actor=row.actor,
            observed_at=row.observed_at,
            sealed=row.sealed,
            data_key_id=row.data_key_id,
        )
        return resolution, row.version

    async def compensate(
        self,
        tenant_id: UUID,
        effect_id: UUID,
        compensated_by: UUID,
        *,
        actor: str,
        sealed_reason: bytes,
        data_key_id: str,
        expected_version: int | None = None,
    ) -> StepResult:
        """Link a succeeded effect to the succeeded effect that compensates it.

        The same link again answers what it did.

        Raises:
            EffectNotFound: the tenant has no such effect, or no such compensating one.
            VersionConflict: the effect is not at the version that was expected.
            DecisionRefused: either has not succeeded, or the link is not allowed.
        """
        found = await self._operate(
            "compensate",
            {
                "tenant_id": tenant_id,
                "effect_id": effect_id,
                "compensated_by": compensated_by,
                "actor": actor,
                "sealed": sealed_reason,
                "data_key_id": data_key_id,
                "expected_version": expected_version,
            },
        )
        outcome = found[0].outcome
        if outcome == "moved":
            raise moved(found[0].version)
        if outcome in _COMPENSATION_REFUSED:
            raise DecisionRefused(_COMPENSATION_REFUSED[outcome])
        if outcome != "applied":
            missing = effect_id if outcome == "not_found" else compensated_by
            raise EffectNotFound(f"There is no effect {missing}.")
        return StepResult(effect_id, StepStatus.APPLIED, found[0].version)

    async def hold_dispatch(self, reason: str) -> None:
        """Stop every dispatch claim until an operator releases it."""
        await self._operate("hold_dispatch", {"reason": reason})

    async def release_dispatch(self, actor: str) -> bool:
        """Let dispatch go on; False where it was not held."""
        found = await self._operate("release_dispatch", {"actor": actor})
        return bool(found[0].released)

    async def dispatch_hold(self) -> DispatchHold | None:
        """Return the hold that stands, if one does."""
        found = await self._operate("dispatch_hold", {})
        return DispatchHold(found[0].reason, found[0].since) if found else None

    async def schema_state(self) -> SchemaState:
        """Say whether the database has the schema of this release.

        Raises:
            LedgerUnavailable: the database cannot be reached.
        """
        try:
            found = await self._operate("revision", {})
        except SchemaMismatch:
            return SchemaState.ABSENT
        if not found:
            return SchemaState.ABSENT
        revision = found[0].version_num
        if revision == HEAD:
            return SchemaState.OK
        return SchemaState.OLD if revision < HEAD else SchemaState.NEW

    async def _operate(self, name: str, parameters: Mapping[str, Any]) -> list[Row]:
        return await self._connections.fetch_again(Call(_SQL[name], dict(parameters)))


def moved(version: int) -> VersionConflict:
    """Say that an effect stands at another version than the caller has read."""
    return VersionConflict(
        f"The effect is at version {version}; read it and decide anew.", version=version
    )
