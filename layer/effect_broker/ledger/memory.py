"""The ledger without a database: the same answers, for tests and simulations only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from effect_broker.domain.attempt import Attempt
from effect_broker.domain.errors import NotFound
from effect_broker.domain.event import EffectEvent
from effect_broker.domain.intent import Intent
from effect_broker.domain.receipt import Receipt
from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.domain.work import WorkState
from effect_broker.ids import uuid7
from effect_broker.ledger.memory_claims import MemoryClaims
from effect_broker.ledger.memory_effect import LEASE, MemoryEffect
from effect_broker.ledger.memory_guard import refuse_in_production
from effect_broker.ledger.memory_registry import MemoryRegistry
from effect_broker.ledger.memory_steps import MemorySteps
from effect_broker.ports import (
    Claim,
    ClaimOrder,
    DispatchHold,
    EffectQuery,
    Reserved,
    Snapshot,
    UnknownCount,
)


class MemoryLedger(MemoryClaims, MemorySteps):
    """`Ledger` in one process, one event loop and no threads.

    `now` is the ledger's clock, so that a test moves time instead of waiting for it.

    Raises:
        RuntimeError: in production, where only a database is an authority.
    """

    def __init__(
        self,
        registry: MemoryRegistry,
        now: Callable[[], datetime],
        *,
        new_id: Callable[[], UUID] = uuid7,
    ) -> None:
        refuse_in_production()
        self._registry = registry
        self._now = now
        self._new_id = new_id
        self._effects: dict[UUID, MemoryEffect] = {}
        self._keys: dict[tuple[UUID, str], UUID] = {}
        self._hold: DispatchHold | None = None

    async def reserve(self, intents: Sequence[Intent]) -> Sequence[Reserved]:
        """Record intents, or say what stands under their keys.

        Raises:
            NotFound: a tenant is unknown or disabled, or a contract is not published;
                then nothing of the batch is stored.
        """
        for intent in intents:
            known = self._registry.accepts(intent.tenant_id, intent.contract_id)
            key = (intent.tenant_id, intent.operation_key)
            if key not in self._keys and not known:
                raise NotFound(
                    "The tenant is unknown or disabled, or the contract is not published."
                )
        return [self._reserve(intent) for intent in intents]

    async def reserve_leased(
        self, intent: Intent, order: ClaimOrder
    ) -> tuple[Reserved, Claim | None]:
        """Reserve an intent and start its first attempt in one commit."""
        (reserved,) = await self.reserve([intent])
        if not reserved.created or self._hold is not None:
            return reserved, None
        named = replace(order, effect_ids=[intent.effect_id], limit=1)
        claimed = await self.claim(named)
        if not claimed.claims:
            return reserved, None
        standing = self._effects[intent.effect_id]
        return _reserved(standing, created=True), claimed.claims[0]

    async def find(self, tenant_id: UUID, operation_key: str) -> Reserved | None:
        """Return what stands under an operation key."""
        effect_id = self._keys.get((tenant_id, operation_key))
        if effect_id is None:
            return None
        return _reserved(self._effects[effect_id], created=False)

    async def get(self, tenant_id: UUID, effect_id: UUID) -> Snapshot | None:
        """Read an effect."""
        effect = self._owned(tenant_id, effect_id)
        return None if effect is None else effect.snapshot(self._now())

    async def attempts(self, tenant_id: UUID, effect_id: UUID) -> Sequence[Attempt]:
        """Read an effect's attempts with their endings, by ordinal."""
        effect = self._owned(tenant_id, effect_id)
        return [] if effect is None else list(effect.attempts)

    async def events(self, tenant_id: UUID, effect_id: UUID) -> Sequence[EffectEvent]:
        """Read an effect's history, by sequence."""
        effect = self._owned(tenant_id, effect_id)
        return [] if effect is None else list(effect.events)

    async def receipt(self, tenant_id: UUID, effect_id: UUID) -> Receipt | None:
        """Read the terminal row of an effect."""
        effect = self._owned(tenant_id, effect_id)
        return None if effect is None else effect.receipt

    async def page(self, tenant_id: UUID, query: EffectQuery) -> Sequence[Snapshot]:
        """List effects by keyset, newest first."""
        found = [
            effect.snapshot(self._now())
            for effect in self._newest_first(tenant_id, query.after)
            if self._matches(effect, query)
        ]
        return found[: query.limit]

    async def contradictions(
        self, tenant_id: UUID, *, limit: int = 50, after: UUID | None = None
    ) -> Sequence[Snapshot]:
        """List terminal effects against which late evidence speaks, newest first."""
        query = EffectQuery(contradicted=True, limit=limit, after=after)
        return await self.page(tenant_id, query)

    async def unknown_summary(self) -> Sequence[UnknownCount]:
        """Count unproved effects over all tenants, by contract."""
        ages: dict[tuple[str, str], list[float]] = defaultdict(list)
        for effect in self._effects.values():
            since = self._unknown_since(effect)
            if since is not None:
                named = (effect.intent.contract_name, effect.intent.tool)
                ages[named].append((self._now() - since).total_seconds())
        return [
            UnknownCount(contract, tool, len(found), max(found))
            for (contract, tool), found in sorted(ages.items())
        ]

    def _reserve(self, intent: Intent) -> Reserved:
        key = (intent.tenant_id, intent.operation_key)
        if key in self._keys:
            standing = self._effects[self._keys[key]]
            mine = standing.intent.effect_id == intent.effect_id
            return _reserved(standing, created=mine)
        now = self._now()
        contract = self._registry.contract(intent.contract_id)
        stored = replace(intent, created_at=now)
        effect = MemoryEffect(
            stored, _new_work(stored, now, now + contract.submit_deadline)
        )
        effect.append(
            EventType.EFFECT_RESERVED,
            EffectStatus.PREPARED,
            actor=intent.requested_by or "caller",
            at=now,
            metadata={},
        )
        self._effects[intent.effect_id] = effect
        self._keys[key] = intent.effect_id
        return _reserved(effect, created=True)

    def _newest_first(self, tenant_id: UUID, after: UUID | None) -> list[MemoryEffect]:
        own = [
            effect
            for effect_id, effect in self._effects.items()
            if effect.intent.tenant_id == tenant_id
            and (after is None or effect_id < after)
        ]
        return sorted(own, key=lambda effect: effect.intent.effect_id, reverse=True)

    def _matches(self, effect: MemoryEffect, query: EffectQuery) -> bool:
        since = effect.intent.created_at
        if query.unknown:
            since = self._unknown_since(effect)
            if since is None:
                return False
        if query.contradicted and not effect.contradicted:
            return False
        assert since is not None
        prefix = query.operation_prefix or ""
        return (
            query.status in (None, effect.status)
            and query.tool in (None, effect.intent.tool)
            and effect.intent.operation_key.startswith(prefix)
            and self._now() - since >= (query.older_than or timedelta(0))
        )

    def _unknown_since(self, effect: MemoryEffect) -> datetime | None:
        """Return since when the effect is unproved, also where nobody swept its lease."""
        if effect.work is None or effect.work.unknown_since is not None:
            return None if effect.work is None else effect.work.unknown_since
        ends_at = effect.work.due_at
        lapsed = effect.lane == LEASE and ends_at is not None and ends_at < self._now()
        return ends_at if lapsed else None


def _new_work(intent: Intent, now: datetime, submit_until: datetime) -> WorkState:
    return WorkState(
        effect_id=intent.effect_id,
        tenant_id=intent.tenant_id,
        status=EffectStatus.PREPARED,
        version=1,
        attempts=0,
        unproven=0,
        proven_through=0,
        rejections=0,
        retries=0,
        redispatches=0,
        probes=0,
        key_generation=1,
        proof_committed=False,
        due_at=now,
        settlement_at=None,
        horizon_at=None,
        submit_until=submit_until,
        negative_at=None,
        unknown_since=None,
        created_at=now,
    )


def _reserved(effect: MemoryEffect, *, created: bool) -> Reserved:
    return Reserved(
        intent=effect.intent,
        created=created,
        status=effect.status,
        version=effect.version,
        updated_at=effect.updated_at,
    )
