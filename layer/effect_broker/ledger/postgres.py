"""The authority: each step is one function in the database, called in autocommit.

Functions refuse and record; which transition to make was decided before. A commit whose
outcome is unknown never reaches a caller: it is settled here by a write on a new
connection (design rule 2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from effect_broker.domain.errors import DispatchHeld
from effect_broker.domain.intent import Intent
from effect_broker.domain.resolution import SendRefusal
from effect_broker.domain.status import TERMINAL, EffectStatus
from effect_broker.ids import uuid7
from effect_broker.ledger import rows
from effect_broker.ledger.composite import array
from effect_broker.ledger.composite import rows as composite_rows
from effect_broker.ledger.connection import Call, ConnectionLost, Connections, Row
from effect_broker.ledger.fairness import Turns
from effect_broker.ledger.operating import PostgresOperating
from effect_broker.ledger.queries import statements
from effect_broker.ledger.reads import PostgresReads
from effect_broker.ports import (
    Claim,
    Claimed,
    ClaimOrder,
    Lapsed,
    Refused,
    Reserved,
    Resolution,
    Step,
    StepResult,
    StepStatus,
)

_SQL: Final = statements("effect_work")
_SEND: Final = 0
_RECOVER: Final = 1
STEP_TRIES: Final = 3
"""How often a step is written again because its effect moved between write and read."""


class PostgresLedger(PostgresReads, PostgresOperating):
    """`Ledger` on PostgreSQL 16 or later."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        self._turns = {lane: Turns(connections, lane) for lane in (_SEND, _RECOVER)}

    async def reserve(self, intents: Sequence[Intent]) -> Sequence[Reserved]:
        """Record intents, or say what stands under their keys; repeats are harmless.

        Raises:
            NotFound: a tenant is unknown or disabled, or a contract is not published.
            LedgerUnavailable: nothing is known to be stored; repeat with the same ids.
        """
        order = sorted(range(len(intents)), key=lambda place: _key(intents[place]))
        wanted = composite_rows(rows.new_intent(intents[place]) for place in order)
        found = await self._again("reserve", {"intents": wanted})
        answers = dict(zip(order, found, strict=True))
        return [_reserved(intent, answers[place]) for place, intent in enumerate(intents)]

    async def reserve_leased(
        self, intent: Intent, order: ClaimOrder
    ) -> tuple[Reserved, Claim | None]:
        """Reserve an intent and start its first attempt in one commit.

        The claim is None where the key is taken, or where nothing may be sent now.

        Raises:
            NotFound: the tenant is unknown or disabled, or the contract not published.
            LedgerUnavailable: repeat with the same ids; nothing may be sent.
        """
        parameters = {
            **_taking(order),
            "intent": rows.new_intent(intent),
            "scope_digests": array(term.scope_digest for term in order.terms),
            "attempt_id": uuid7(),
        }
        found = await self._take("reserve_leased", parameters, order.token)
        if not found or found[0].disposition != "claimed":
            (reserved,) = await self.reserve([intent])
            return reserved, None
        claim = rows.claim(found[0], order.token)
        reserved = Reserved(
            intent=claim.intent,
            created=True,
            status=claim.work.status,
            version=claim.work.version,
            updated_at=claim.now,
        )
        return reserved, claim

    async def claim(self, order: ClaimOrder) -> Claimed:
        """Take due effects and start their attempts, committed before this returns.

        Raises:
            DispatchHeld: dispatch is stopped until an operator releases it.
            LedgerUnavailable: nothing may be sent under this token, now or later.
        """
        turn = await self._turns[_SEND].next(named=order.effect_ids is not None)
        parameters = {
            **_taking(order),
            "scope_digests": array(term.scope_digest for term in order.terms),
            "unsafe_limit": order.unsafe_limit,
            "attempt_ids": array(uuid7() for _ in range(_claimable(order))),
            "tenants": _array_or_null(turn.tenants),
            "due_from": turn.due_from,
        }
        found = await self._take("claim", parameters, order.token)
        self._turns[_SEND].took(turn, found)
        return _claimed(found, order.token)

    async def claim_reconciliation(self, order: ClaimOrder) -> Claimed:
        """Take due unknown effects, and unclaimed ones with proof of commit as they are.

        Raises:
            LedgerUnavailable: nothing is held under this token.
        """
        turn = await self._turns[_RECOVER].next(named=order.effect_ids is not None)
        parameters = {
            **_taking(order),
            "tenants": _array_or_null(turn.tenants),
            "due_from": turn.due_from,
        }
        found = await self._take("claim_reconciliation", parameters, order.token)
        self._turns[_RECOVER].took(turn, found)
        return _claimed(found, order.token)

    async def record(self, steps: Sequence[Step]) -> Sequence[StepResult]:
        """Write decided transitions, terminal ones and others in a commit each.

        Raises:
            LedgerUnavailable: it is not known what was written; repeat the same steps.
        """
        results: dict[UUID, StepResult] = {}
        if len({step.effect_id for step in steps}) < len(steps):
            raise ValueError("A batch holds one step of an effect.")
        ordered = sorted(steps, key=lambda step: step.effect_id)
        terminal = [step for step in ordered if step.transition.new in TERMINAL]
        live = [step for step in ordered if step.transition.new not in TERMINAL]
        if terminal:
            written = [rows.finishing(step, uuid7()) for step in terminal]
            found = await self._again("finish", {"steps": composite_rows(written)})
            results |= await self._results(terminal, found)
        if live:
            written = [rows.deferral(step) for step in live]
            found = await self._again("defer", {"steps": composite_rows(written)})
            results |= await self._results(live, found)
        return [results[step.effect_id] for step in steps]

    async def resolve(self, step: Step, resolution: Resolution) -> StepResult:
        """Write an operator's decision once; its id stands in the event too.

        Raises:
            LedgerUnavailable: repeat with the same decision_id.
        """
        arrow = step.transition
        named = {**arrow.metadata, "decision_id": resolution.decision_id}
        decided = replace(step, transition=replace(arrow, metadata=named))
        terminal = arrow.new in TERMINAL
        found = await self._operate(
            "resolve_finish" if terminal else "resolve_defer",
            {
                "step": rows.finishing(decided, uuid7())
                if terminal
                else rows.deferral(decided),
                "decision": rows.decision(resolution),
            },
        )
        return await self._result(decided, found[0])

    async def renew(
        self, token: UUID, effect_ids: Sequence[UUID], lease: timedelta
    ) -> frozenset[UUID]:
        """Extend leases still held under `token`; the rest is lost.

        Raises:
            LedgerUnavailable: authority counts as lost.
        """
        found = await self._again(
            "renew",
            {
                "token": token,
                "effect_ids": array(effect_ids),
                "lease_ms": rows.milliseconds(lease),
            },
        )
        return frozenset(row.renew for row in found)

    async def expire_leases(
        self, limit: int, *, clock_margin: timedelta
    ) -> Sequence[Lapsed]:
        """Turn lapsed leases into unknown outcomes."""
        found = await self._once(
            "expire_leases",
            {"limit": limit, "margin_ms": rows.milliseconds(clock_margin)},
        )
        return [
            Lapsed(row.tenant_id, row.effect_id, EffectStatus(row.status), row.safety)
            for row in found
        ]

    async def overdue(self, limit: int, *, clock_margin: timedelta) -> Sequence[Refused]:
        """Return unclaimed effects past their submit deadline."""
        found = await self._again(
            "overdue", {"limit": limit, "margin_ms": rows.milliseconds(clock_margin)}
        )
        return [rows.refused(row, SendRefusal.SUBMIT_DEADLINE) for row in found]

    async def _once(self, name: str, parameters: Mapping[str, Any]) -> list[Row]:
        return await self._connections.fetch(Call(_SQL[name], dict(parameters)))

    async def _again(self, name: str, parameters: Mapping[str, Any]) -> list[Row]:
        return await self._connections.fetch_again(Call(_SQL[name], dict(parameters)))

    async def _take(
        self, name: str, parameters: Mapping[str, Any], token: UUID
    ) -> list[Row]:
        """Claim; where the commit's outcome is unknown, settle it by a write."""
        try:
            return await self._once(name, parameters)
        except ConnectionLost:
            return await self._again("confirm_claim", {"token": token})

    async def _results(
        self, steps: Sequence[Step], found: Sequence[Row]
    ) -> dict[UUID, StepResult]:
        return {
            step.effect_id: await self._result(step, row)
            for step, row in zip(steps, found, strict=True)
        }

    async def _result(self, step: Step, row: Row) -> StepResult:
        result = StepResult(
            effect_id=step.effect_id,
            status=StepStatus(row.outcome),
            version=row.version,
            late_recorded=row.late_recorded,
            contradicted=row.contradicted,
        )
        if result.status not in (StepStatus.STALE, StepStatus.PROOF_STANDS):
            return result
        work = await self._once(
            "work", {"tenant_id": step.tenant_id, "effect_id": step.effect_id}
        )
        if not work:
            (fenced,) = await self.record([step])
            return fenced
        return replace(result, work=rows.work(work[0]), now=work[0].ledger_now)


def _key(intent: Intent) -> tuple[UUID, str]:
    return intent.tenant_id, intent.operation_key


def _reserved(intent: Intent, row: Row) -> Reserved:
    if row.effect_id is not None:
        return rows.reserved(row, created=row.created)
    return Reserved(
        intent=replace(intent, created_at=row.ledger_now),
        created=True,
        status=EffectStatus.PREPARED,
        version=1,
        updated_at=row.ledger_now,
    )


def _taking(order: ClaimOrder) -> dict[str, Any]:
    return {
        "token": order.token,
        "worker": order.worker,
        "limit": order.limit,
        "contract_ids": array(term.contract_id for term in order.terms),
        "margin_ms": rows.milliseconds(order.clock_margin),
        "budget_ms": _floor_ms(order.budget),
        "effect_ids": _array_or_null(order.effect_ids),
    }


def _array_or_null(ids: Sequence[UUID] | None) -> str | None:
    return None if ids is None else array(ids)


def _claimable(order: ClaimOrder) -> int:
    """A nudge of one needs one attempt id, whatever a whole batch may hold."""
    if order.effect_ids is None:
        return order.limit
    return min(order.limit, len(order.effect_ids))


def _floor_ms(budget: timedelta | None) -> int | None:
    return None if budget is None else budget // timedelta(milliseconds=1)


def _claimed(found: Sequence[Row], token: UUID) -> Claimed:
    if found and found[0].disposition == "held":
        raise DispatchHeld(found[0].detail or "Dispatch is held by an operator.")
    taken = [row for row in found if row.disposition == "claimed"]
    forbidden = [row for row in found if row.disposition not in ("claimed", "fenced")]
    return Claimed(
        claims=[rows.claim(row, token) for row in taken],
        refused=[rows.refused(row, SendRefusal(row.disposition)) for row in forbidden],
        more=any(row.remaining for row in found),
    )
