"""Both stores behind one face, with a clock that tests move, and words for steps."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg

from effect_broker.domain.attempt import AttemptEnding, EndingKind
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.intent import Intent
from effect_broker.domain.receipt import ReceiptDraft, ReceiptKind, ReceiptSource
from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.domain.transition import transition
from effect_broker.domain.work import WorkState
from effect_broker.ids import uuid7
from effect_broker.ledger.callbacks import PostgresCallbacks
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.memory import MemoryLedger
from effect_broker.ledger.memory_callbacks import MemoryCallbacks
from effect_broker.ledger.memory_registry import MemoryRegistry
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.ledger.registry import PostgresRegistry
from effect_broker.ports import (
    CallbackStore,
    Claim,
    Claimed,
    ClaimOrder,
    ContractTerms,
    Reserved,
    Step,
)

MARGIN = timedelta(milliseconds=250)
SCOPE = hashlib.sha256(b"the target's scope").digest()
OTHER_SCOPE = hashlib.sha256(b"another account").digest()
S = EffectStatus
E = EventType

INSTANTS = (
    "created_at",
    "last_event_at",
    "due_at",
    "submit_until",
    "settlement_at",
    "horizon_at",
    "negative_at",
    "unknown_since",
)


def contract(safety: str = "idempotent", **terms: Any) -> EffectContract:
    """Return a contract of 10 s attempts, 30 s leases and a minute of settlement."""
    known = {
        "tool": "payments.charge",
        "name": "payments-charge",
        "version": "1",
        "safety": safety,
        "adapter": "simulated",
        "simulated": {},
        "attempt_timeout": "10s",
        "lease": "30s",
        "submit_deadline": "1h",
        "arguments": {"type": "object"},
    }
    if safety != "transactional":
        known["settlement_bound"] = "60s"
    if safety == "idempotent":
        known["key_retention"] = "24h"
    if safety == "reconcilable":
        known["probe"] = {
            "url": "https://target.example/charges?ref={downstream_key}",
            "found": "/data/0",
            "consistency": "strong",
        }
    return EffectContract.model_validate(known | terms)


@dataclass
class Store:
    """A ledger with its registry, one tenant and one published contract."""

    ledger: MemoryLedger | PostgresLedger
    registry: MemoryRegistry | PostgresRegistry
    pass_time: Callable[[timedelta], Awaitable[None]]
    callbacks: CallbackStore
    tenant_id: UUID = field(default_factory=uuid4)
    contract: EffectContract = field(default_factory=contract)
    contract_id: int = 0

    async def open(
        self, agreed: EffectContract | None = None, slug: str = "acme"
    ) -> None:
        """Create the tenant and publish the contract that later steps use."""
        tenant, _ = await self.registry.create_tenant(slug, slug.title(), "h1")
        self.tenant_id = tenant.tenant_id
        self.contract = agreed or contract()
        published, _ = await self.registry.publish(self.contract)
        self.contract_id = published.contract_id

    def intent(self, operation_key: str | None = None, **changes: Any) -> Intent:
        effect_id = uuid7()
        key = operation_key or f"order:{effect_id}:charge"
        return replace(
            Intent(
                effect_id=effect_id,
                tenant_id=self.tenant_id,
                operation_key=key,
                tool=self.contract.tool,
                request_hash=hashlib.sha256(key.encode()).digest(),
                contract_id=self.contract_id,
                contract_name=self.contract.name,
                contract_version=self.contract.version,
                safety=self.contract.safety.value,
                downstream_key=hashlib.sha256(key.encode()).hexdigest(),
                hmac_key_id="h1",
                arguments_ciphertext=os.urandom(64),
                data_key_id="k1",
                preview='{"amount":1}',
                requested_by="agent:7",
                trace_id=None,
            ),
            **changes,
        )

    async def reserve(self, intent: Intent | None = None) -> Reserved:
        (reserved,) = await self.ledger.reserve([intent or self.intent()])
        return reserved

    def order(self, *effect_ids: UUID, **changes: Any) -> ClaimOrder:
        return replace(
            ClaimOrder(
                token=uuid4(),
                worker="worker-1",
                limit=10,
                terms=[ContractTerms(self.contract_id, SCOPE)],
                clock_margin=MARGIN,
                effect_ids=list(effect_ids) or None,
            ),
            **changes,
        )

    async def dispatching(self, intent: Intent | None = None) -> Claim:
        """Reserve an effect and claim it."""
        reserved = await self.reserve(intent)
        return await self.claim(reserved.intent.effect_id)

    async def claim(self, effect_id: UUID, **changes: Any) -> Claim:
        claimed = await self.ledger.claim(self.order(effect_id, **changes))
        assert len(claimed.claims) == 1, claimed
        return claimed.claims[0]

    async def claims(self, **changes: Any) -> Claimed:
        return await self.ledger.claim(self.order(**changes))

    async def lapse(self, claim: Claim) -> None:
        """Let the lease of a claim end, and sweep."""
        await self.pass_time(timedelta(seconds=31))
        lapsed = await self.ledger.expire_leases(100, clock_margin=MARGIN)
        assert claim.work.effect_id in {item.effect_id for item in lapsed}

    async def reconciling(self, effect_id: UUID) -> Claim:
        claimed = await self.ledger.claim_reconciliation(self.order(effect_id))
        assert len(claimed.claims) == 1, claimed
        return claimed.claims[0]

    async def unheld(self, effect_id: UUID) -> Claim:
        """Return what an operator acts on: the state of an effect that nobody holds."""
        snapshot = await self.ledger.get(self.tenant_id, effect_id)
        assert snapshot is not None
        assert snapshot.work is not None
        return Claim(uuid4(), snapshot.intent, snapshot.work, snapshot.now, snapshot.now)

    async def requested(self, effect_id: UUID) -> Claim:
        """Make a parked effect due, as an operator would, and take it."""
        asked = step(
            await self.unheld(effect_id),
            E.RECONCILIATION_REQUESTED,
            S.OUTCOME_UNKNOWN,
            delay=timedelta(0),
            unknown=True,
        )
        await self.ledger.record([asked])
        return await self.reconciling(effect_id)

    async def work(self, effect_id: UUID) -> WorkState:
        snapshot = await self.ledger.get(self.tenant_id, effect_id)
        assert snapshot is not None
        assert snapshot.work is not None
        return snapshot.work

    async def status(self, effect_id: UUID) -> EffectStatus:
        snapshot = await self.ledger.get(self.tenant_id, effect_id)
        assert snapshot is not None
        return snapshot.status


def ending(kind: EndingKind, **changes: Any) -> AttemptEnding:
    """Return what the sender of an attempt learned."""
    return replace(
        AttemptEnding(kind=kind, reason=kind.value, evidence={"status": 200}), **changes
    )


def committed(external_id: str | None = "ch_1") -> AttemptEnding:
    return ending(
        EndingKind.COMMITTED,
        external_id=external_id,
        result_ciphertext=b"sealed",
        data_key_id="k1",
        request_digest=hashlib.sha256(b"request").digest(),
        response_digest=hashlib.sha256(b"response").digest(),
    )


def succeeded(claim: Claim, external_id: str | None = "ch_1", **changes: Any) -> Step:
    """Return the step of a dispatcher whose attempt committed."""
    ended = committed(external_id)
    return step(
        claim,
        E.RECEIPT_RECORDED,
        S.SUCCEEDED,
        ending=ended if claim.attempt else None,
        receipt=ReceiptDraft(
            kind=ReceiptKind.SUCCEEDED,
            source=ReceiptSource.ATTEMPT,
            reason="committed",
            external_id=external_id,
            result_ciphertext=b"sealed",
            data_key_id="k1",
            evidence_digest=hashlib.sha256(b"evidence").digest(),
            target_time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
            flags=("output_unparsed", 'with "quotes", \\ and {braces}'),
        ),
        **changes,
    )


def failed(claim: Claim, **changes: Any) -> Step:
    """Return the step of a dispatcher whose attempt was refused for good."""
    return step(
        claim,
        E.ATTEMPT_REJECTED,
        S.FAILED_FINAL,
        unproven=0,
        proven_through=claim.work.attempts,
        ending=ending(EndingKind.REJECTED, final=True),
        receipt=ReceiptDraft(
            kind=ReceiptKind.FAILED_FINAL, source=ReceiptSource.ATTEMPT, reason="refused"
        ),
        **changes,
    )


def retryable(claim: Claim, delay: timedelta = timedelta(0), **changes: Any) -> Step:
    """Return the step of a dispatcher whose attempt was refused for now."""
    return step(
        claim,
        E.ATTEMPT_REJECTED,
        S.RETRYABLE,
        delay=delay,
        unproven=claim.work.unproven - 1,
        proven_through=claim.work.attempts,
        rejections=claim.work.rejections + 1,
        retries=claim.work.retries + 1,
        ending=ending(EndingKind.REJECTED),
        **changes,
    )


def lost(claim: Claim, delay: timedelta | None = timedelta(0), **changes: Any) -> Step:
    """Return the step of a dispatcher that cannot tell."""
    return step(
        claim,
        E.OUTCOME_LOST,
        S.OUTCOME_UNKNOWN,
        delay=delay,
        unknown=True,
        ending=ending(EndingKind.AMBIGUOUS),
        **changes,
    )


def step(
    claim: Claim,
    event: EventType,
    new: EffectStatus,
    *,
    actor: str = "worker-1",
    speaks_for_all: bool = False,
    **changes: Any,
) -> Step:
    """Return a step of whoever holds a claim."""
    held = claim.work.status in (S.DISPATCHING, S.RECONCILING)
    return Step(
        tenant_id=claim.work.tenant_id,
        effect_id=claim.work.effect_id,
        version=claim.work.version,
        token=claim.token if held else None,
        transition=transition(claim.work, event, new, reason="because", **changes),
        actor=actor,
        attempt=claim.attempt,
        speaks_for_all=speaks_for_all,
    )


def memory_store() -> Store:
    """Return a store whose time is a variable."""
    time = [datetime(2026, 1, 1, tzinfo=UTC)]

    def now() -> datetime:
        time[0] += timedelta(microseconds=1)
        return time[0]

    async def pass_time(by: timedelta) -> None:
        time[0] += by

    registry = MemoryRegistry(now)
    ledger = MemoryLedger(registry, now)
    return Store(ledger, registry, pass_time, MemoryCallbacks(ledger, now))


def postgres_store(url: str, connections: Connections) -> Store:
    """Return a store in which time passes by moving live instants into the past."""
    moves = ", ".join(f"{name} = {name} - %(by)s" for name in INSTANTS)
    statements = (
        f"UPDATE effect_broker.effect_work SET {moves}",
        "UPDATE effect_broker.effect_callbacks SET due_at = due_at - %(by)s",
    )

    async def pass_time(by: timedelta) -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as session:
            for statement in statements:
                await session.execute(statement.encode(), {"by": by})

    return Store(
        PostgresLedger(connections),
        PostgresRegistry(connections),
        pass_time,
        PostgresCallbacks(connections),
    )
