"""Tokens of waiting callers in memory, for tests and simulations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from effect_broker.domain.status import EffectStatus
from effect_broker.domain.work import WorkState
from effect_broker.ledger.memory import MemoryLedger
from effect_broker.ledger.memory_guard import refuse_in_production
from effect_broker.ports import Callback, Sealed

_LEASE = timedelta(seconds=30)
_LEASE_MAX = timedelta(minutes=15)
_LOOK_MAX = timedelta(minutes=10)


@dataclass(slots=True)
class _Kept:
    tenant_id: UUID
    sealed: Sealed
    due_at: datetime
    token: UUID | None = None
    deliveries: int = 0


class MemoryCallbacks:
    """`CallbackStore` beside a `MemoryLedger`; `now` is the ledger's clock.

    Raises:
        RuntimeError: in production, where only a database is an authority.
    """

    def __init__(self, ledger: MemoryLedger, now: Callable[[], datetime]) -> None:
        refuse_in_production()
        self._ledger = ledger
        self._now = now
        self._kept: dict[tuple[UUID, UUID], _Kept] = {}

    async def keep(
        self, tenant_id: UUID, effect_id: UUID, callback_id: UUID, sealed: Sealed
    ) -> bool:
        """Keep a token once; say whether it can be answered now."""
        kept = _Kept(tenant_id, sealed, self._now())
        self._kept.setdefault((effect_id, callback_id), kept)
        return not _goes_on(await self._work(tenant_id, effect_id))

    async def claim(
        self, token: UUID, limit: int, *, effect_ids: Sequence[UUID] | None = None
    ) -> Sequence[Callback]:
        """Take what can be answered: of these effects, or all that is due."""
        now = self._now()
        taken: list[Callback] = []
        for (effect_id, callback_id), kept in list(self._kept.items()):
            due = kept.due_at <= now
            if effect_ids is not None:
                due = effect_id in effect_ids and (kept.token is None or due)
            if not due or len(taken) == limit:
                continue
            work = await self._work(kept.tenant_id, effect_id)
            if _goes_on(work):
                kept.token, kept.due_at = None, now + _pause(work, now)
                continue
            kept.token, kept.due_at = token, now + _lease(kept.deliveries)
            kept.deliveries += 1
            taken.append(
                Callback(
                    effect_id, callback_id, kept.tenant_id, kept.sealed, kept.deliveries
                )
            )
        return taken

    async def end(self, callback: Callback, token: UUID) -> bool:
        """Forget an answered one; False where the lease was lost meanwhile."""
        place = (callback.effect_id, callback.callback_id)
        if place not in self._kept or self._kept[place].token != token:
            return False
        del self._kept[place]
        return True

    async def _work(self, tenant_id: UUID, effect_id: UUID) -> WorkState | None:
        found = await self._ledger.get(tenant_id, effect_id)
        return None if found is None else found.work


def _goes_on(work: WorkState | None) -> bool:
    if work is None or work.proof_committed:
        return work is not None
    unknown = work.status is EffectStatus.OUTCOME_UNKNOWN and work.due_at is None
    return not unknown and work.status is not EffectStatus.MANUAL_REVIEW


def _pause(work: WorkState | None, now: datetime) -> timedelta:
    if work is None or work.due_at is None:
        return _LOOK_MAX
    return max(_LEASE, min(work.due_at - now, _LOOK_MAX))


def _lease(deliveries: int) -> timedelta:
    return min(_LEASE * (1 << min(deliveries, 10)), _LEASE_MAX)
