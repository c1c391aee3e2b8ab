"""Taking work in the store without a database: claims, leases, their ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from effect_broker.domain.attempt import Attempt
from effect_broker.domain.contract import EffectContract, SafetyClass
from effect_broker.domain.errors import DispatchHeld
from effect_broker.domain.resolution import SendRefusal
from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.domain.timing import NO_WAIT, horizon_over
from effect_broker.ledger.memory_effect import LEASE, RECOVER, SEND, MemoryEffect
from effect_broker.ledger.memory_registry import MemoryRegistry
from effect_broker.ports import (
    Claim,
    Claimed,
    ClaimOrder,
    DispatchHold,
    Lapsed,
    Refused,
)

_S = EffectStatus
_E = EventType


class MemoryClaims:
    """The lanes of waiting work."""

    _registry: MemoryRegistry
    _now: Callable[[], datetime]
    _new_id: Callable[[], UUID]
    _effects: dict[UUID, MemoryEffect]
    _hold: DispatchHold | None

    async def claim(self, order: ClaimOrder) -> Claimed:
        """Take due effects and start their attempts.

        Raises:
            DispatchHeld: dispatch is stopped until an operator releases it.
        """
        if self._hold is not None:
            raise DispatchHeld(self._hold.reason)
        scopes = {term.contract_id: term.scope_digest for term in order.terms}
        waiting = [
            effect
            for effect in self._waiting(SEND, order)
            if _fits(self._contract(effect).attempt_timeout, order)
        ]
        claims: list[Claim] = []
        refused: list[Refused] = []
        unsafe, left = order.unsafe_limit, 0
        for effect in waiting:
            if len(claims) + len(refused) == order.limit:
                left += 1
                continue
            if self._contract(effect).safety is SafetyClass.UNSAFE:
                if unsafe <= 0:
                    left += 1
                    continue
                unsafe -= 1
            scope = scopes[effect.intent.contract_id]
            now = effect.clock(self._now())
            refusal = self._refusal(effect, scope, now, order.clock_margin)
            if refusal is not None:
                refused.append(Refused(effect.intent, effect.live, now, refusal))
            else:
                claims.append(self._start(effect, order, scope, now))
        return Claimed(claims, refused, more=left > 0 and order.effect_ids is None)

    async def claim_reconciliation(self, order: ClaimOrder) -> Claimed:
        """Take due unknown effects, and unclaimed ones that are proven committed."""
        waiting = [
            effect
            for effect in self._waiting(RECOVER, order)
            if _fits(self._contract(effect).probe_timeout, order)
        ]
        claims = [self._reconcile(effect, order) for effect in waiting[: order.limit]]
        more = len(waiting) > order.limit and order.effect_ids is None
        return Claimed(claims, more=more)

    async def renew(
        self, token: UUID, effect_ids: Sequence[UUID], lease: timedelta
    ) -> frozenset[UUID]:
        """Extend leases still held under `token`; the rest is lost."""
        held = [
            self._effects[effect_id]
            for effect_id in effect_ids
            if effect_id in self._effects and self._effects[effect_id].token == token
        ]
        for effect in held:
            until = self._now() + lease
            effect.work = replace(
                effect.live, due_at=max(until, effect.live.due_at or until)
            )
        return frozenset(effect.intent.effect_id for effect in held)

    async def expire_leases(
        self, limit: int, *, clock_margin: timedelta
    ) -> Sequence[Lapsed]:
        """Turn lapsed leases into unknown outcomes."""
        before = self._now() - clock_margin
        lapsed = [
            effect
            for effect in self._in_lane(LEASE)
            if effect.live.due_at is not None and effect.live.due_at < before
        ]
        return [self._lapse(effect) for effect in lapsed[:limit]]

    async def overdue(self, limit: int, *, clock_margin: timedelta) -> Sequence[Refused]:
        """Return unclaimed effects past their submit deadline."""
        now = self._now()
        return [
            Refused(effect.intent, effect.live, now, SendRefusal.SUBMIT_DEADLINE)
            for effect in self._in_lane(SEND)
            if effect.due(now) and effect.live.submit_until < now - clock_margin
        ][:limit]

    async def hold_dispatch(self, reason: str) -> None:
        """Stop every dispatch claim until an operator releases it."""
        self._hold = self._hold or DispatchHold(reason, self._now())

    async def release_dispatch(self, actor: str) -> bool:
        """Let dispatch go on; False where it was not held."""
        held, self._hold = self._hold is not None, None
        return held

    async def dispatch_hold(self) -> DispatchHold | None:
        """Return the hold that stands, if one does."""
        return self._hold

    def _in_lane(self, lane: int) -> Iterator[MemoryEffect]:
        waiting = [effect for effect in self._effects.values() if effect.lane == lane]
        return iter(sorted(waiting, key=lambda effect: str(effect.live.due_at)))

    def _waiting(self, lane: int, order: ClaimOrder) -> Iterator[MemoryEffect]:
        """Yield due work, the tenants in turn, each by age."""
        contracts = {term.contract_id for term in order.terms}
        named = None if order.effect_ids is None else set(order.effect_ids)
        queues: dict[UUID, list[MemoryEffect]] = {}
        for effect in self._in_lane(lane):
            wanted = named is None or effect.intent.effect_id in named
            known = effect.intent.contract_id in contracts
            if wanted and known and effect.due(self._now()):
                queues.setdefault(effect.intent.tenant_id, []).append(effect)
        while queues:
            for tenant_id in list(queues):
                yield queues[tenant_id].pop(0)
                if not queues[tenant_id]:
                    del queues[tenant_id]

    def _contract(self, effect: MemoryEffect) -> EffectContract:
        return self._registry.contract(effect.intent.contract_id)

    def _refusal(
        self, effect: MemoryEffect, scope: bytes, now: datetime, margin: timedelta
    ) -> SendRefusal | None:
        if effect.scope_digest is not None and effect.scope_digest != scope:
            return SendRefusal.SCOPE_CHANGED
        if now > effect.live.submit_until:
            return SendRefusal.SUBMIT_DEADLINE
        contract = self._contract(effect)
        if horizon_over(contract, effect.live, now, clock_margin=margin):
            return SendRefusal.HORIZON_OVER
        return None

    def _start(
        self, effect: MemoryEffect, order: ClaimOrder, scope: bytes, now: datetime
    ) -> Claim:
        contract, work = self._contract(effect), effect.live
        deadline = now + contract.attempt_timeout
        settlement = deadline + (contract.settlement_bound or NO_WAIT)
        horizon = work.horizon_at
        if horizon is None and contract.key_retention is not None:
            horizon = now + contract.key_retention
        effect.append(
            _E.ATTEMPT_STARTED,
            _S.DISPATCHING,
            actor=order.worker,
            at=now,
            metadata={"ordinal": work.attempts + 1},
        )
        effect.move(
            status=_S.DISPATCHING,
            attempts=work.attempts + 1,
            unproven=work.unproven + 1,
            due_at=now + contract.lease,
            settlement_at=max(settlement, work.settlement_at or settlement),
            horizon_at=horizon,
            negative_at=None,
        )
        attempt = Attempt(
            effect_id=effect.intent.effect_id,
            ordinal=effect.live.attempts,
            attempt_id=self._new_id(),
            worker=order.worker,
            version=effect.version,
            started_at=now,
            send_deadline=deadline,
            key_generation=work.key_generation,
            scope_digest=scope,
        )
        effect.attempts.append(attempt)
        effect.token, effect.scope_digest = order.token, scope
        return self._claim(effect, order.token, now, attempt)

    def _reconcile(self, effect: MemoryEffect, order: ClaimOrder) -> Claim:
        now = effect.clock(self._now())
        if effect.live.status is _S.OUTCOME_UNKNOWN:
            lease = self._contract(effect).lease
            effect.append(
                _E.RECONCILIATION_STARTED,
                _S.RECONCILING,
                actor=order.worker,
                at=now,
                metadata={},
            )
            effect.move(status=_S.RECONCILING, due_at=now + lease)
            effect.token = order.token
        return self._claim(effect, order.token, now, None)

    def _claim(
        self, effect: MemoryEffect, token: UUID, now: datetime, attempt: Attempt | None
    ) -> Claim:
        return Claim(
            token=token,
            intent=effect.intent,
            work=effect.live,
            now=now,
            lease_until=effect.live.due_at or now,
            attempt=attempt,
            downstream_key=effect.downstream_key,
        )

    def _lapse(self, effect: MemoryEffect) -> Lapsed:
        contract, work = self._contract(effect), effect.live
        now = effect.clock(self._now())
        dispatching = work.status is _S.DISPATCHING
        effect.append(
            _E.OUTCOME_LOST if dispatching else _E.RECONCILIATION_INTERRUPTED,
            _S.OUTCOME_UNKNOWN,
            actor="sweep",
            at=now,
            metadata={"reason": "lease_expired"},
        )
        waits = contract.safety is SafetyClass.UNSAFE and not work.proof_committed
        effect.move(
            status=_S.OUTCOME_UNKNOWN,
            due_at=None if waits else now,
            unknown_since=work.unknown_since or now,
        )
        effect.token = None
        return Lapsed(
            work.tenant_id, work.effect_id, _S.OUTCOME_UNKNOWN, contract.safety.value
        )


def _fits(timeout: timedelta, order: ClaimOrder) -> bool:
    return order.budget is None or timeout + order.clock_margin <= order.budget
