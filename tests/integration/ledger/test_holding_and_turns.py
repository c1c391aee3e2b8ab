"""When nothing may be claimed, and whose turn it is when something may."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from effect_broker.domain.errors import DispatchHeld
from effect_broker.ledger.connection import Call, Connections
from effect_broker.ledger.fairness import (
    FULL_LOOK_SECONDS,
    LOOK_BACK,
    LOOK_BACK_EFFECTS,
    READ_AGAIN_SECONDS,
    TENANTS_AT_ONCE,
    Turns,
)
from effect_broker.ledger.memory import MemoryLedger
from effect_broker.ledger.memory_registry import MemoryRegistry
from effect_broker.ledger.postgres import PostgresLedger
from tests.conformance.ledgers import S, Store, memory_store, postgres_store
from tests.guarantees import guarantee


@guarantee("confirmed-before-sent")
async def test_a_failover_that_may_have_lost_commits_holds_dispatch_for_everybody(
    store: Store, fresh_database: str
) -> None:
    reserved = await store.reserve()
    with psycopg.connect(fresh_database) as connection:
        connection.execute(
            "UPDATE effect_broker.ledger_control SET timeline = 'FFFFFFFF'"
        )
    with pytest.raises(DispatchHeld, match="failed over"):
        await store.claims()
    other = postgres_store(fresh_database, Connections(fresh_database))
    other.tenant_id, other.contract_id = store.tenant_id, store.contract_id
    with pytest.raises(DispatchHeld, match="failed over"):
        await other.ledger.claim(other.order(reserved.intent.effect_id))
    assert await store.status(reserved.intent.effect_id) is S.PREPARED
    leased, claim = await store.ledger.reserve_leased(store.intent(), store.order())
    assert (leased.created, claim) == (True, None)
    assert await store.ledger.release_dispatch("operator:1")
    assert len((await store.claims()).claims) == 2
    await other.ledger._connections.close()  # type: ignore[union-attr]


async def test_an_engine_that_tells_no_timeline_is_not_asked_for_it(
    store: Store, fresh_database: str
) -> None:
    with psycopg.connect(fresh_database) as connection:
        connection.execute("UPDATE effect_broker.ledger_control SET timeline = NULL")
        connection.execute("REVOKE EXECUTE ON FUNCTION pg_walfile_name FROM PUBLIC")
    await store.dispatching()
    _, claim = await store.ledger.reserve_leased(store.intent(), store.order())
    assert claim is not None


async def test_every_tenant_is_served_beside_one_with_everything(store: Store) -> None:
    await store.ledger.reserve([store.intent() for _ in range(400)])
    small: set[UUID] = set()
    for number in range(20):
        tenant, _ = await store.registry.create_tenant(f"t{number}", "T", "h1")
        small.add(tenant.tenant_id)
        await store.ledger.reserve([store.intent(tenant_id=tenant.tenant_id)])
    served: Counter[UUID] = Counter()
    for _ in range(3):
        claimed = await store.claims(limit=16)
        served.update(claim.work.tenant_id for claim in claimed.claims)
    assert small <= set(served)


class FakeConnections:
    """Answers with a list of tenants, and counts how often it was asked."""

    def __init__(self, tenants: list[UUID]) -> None:
        self.tenants = tenants
        self.asked: list[dict[str, Any]] = []

    async def fetch_again(self, call: Call) -> list[Any]:
        self.asked.append(call.parameters)
        return [FoundTenant(tenant) for tenant in self.tenants]


@dataclass
class FoundTenant:
    due_tenants: UUID


@dataclass
class FoundWork:
    tenant_id: UUID
    oldest_due_at: datetime


async def test_turns_look_back_a_little_and_now_and_then_at_everything() -> None:
    time = [100.0]
    tenants = [uuid4() for _ in range(40)]
    connections = FakeConnections(tenants)
    turns = Turns(connections, 0, monotonic=lambda: time[0])  # type: ignore[arg-type]
    first = await turns.next(named=False)
    assert first.due_from is None
    assert first.tenants == tenants[:TENANTS_AT_ONCE]
    oldest = datetime(2026, 1, 1, tzinfo=UTC)
    turns.took(first, [FoundWork(tenants[0], oldest), FoundWork(tenants[1], oldest)])
    second = await turns.next(named=False)
    assert second.due_from == oldest - LOOK_BACK
    assert second.tenants == tenants[2 : 2 + TENANTS_AT_ONCE]
    assert len(connections.asked) == 1
    time[0] += READ_AGAIN_SECONDS
    await turns.next(named=False)
    assert len(connections.asked) == 2
    assert connections.asked[1]["after"] == tenants[-1]
    time[0] += FULL_LOOK_SECONDS
    assert (await turns.next(named=False)).due_from is None


async def test_a_busy_process_looks_back_over_few_effects() -> None:
    turns = Turns(FakeConnections([uuid4()]), 0)  # type: ignore[arg-type]
    turn = await turns.next(named=False)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for second in range(30):
        batch = [FoundWork(uuid4(), start + timedelta(seconds=second))] * 100
        turns.took(turn, batch)
    looks = await turns.next(named=False)
    assert looks.due_from == start + timedelta(seconds=30 - LOOK_BACK_EFFECTS // 100)


async def test_a_nudge_needs_no_turn() -> None:
    connections = FakeConnections([])
    turns = Turns(connections, 0)  # type: ignore[arg-type]
    turn = await turns.next(named=True)
    assert (turn.tenants, turn.due_from, connections.asked) == (None, None, [])
    turns.took(turn, [FoundWork(uuid4(), datetime(2026, 1, 1, tzinfo=UTC))])
    assert (await turns.next(named=False)).due_from is None


async def test_work_that_surfaces_behind_the_last_look_is_found(
    store: Store, fresh_database: str
) -> None:
    assert isinstance(store.ledger, PostgresLedger)
    time = [0.0]
    store.ledger._turns[0] = Turns(
        store.ledger._connections, 0, monotonic=lambda: time[0]
    )
    await store.ledger.reserve([store.intent() for _ in range(3)])
    assert len((await store.claims(limit=2)).claims) == 2
    with psycopg.connect(fresh_database) as connection:
        connection.execute(
            "UPDATE effect_broker.effect_work SET due_at = due_at - %s", [2 * LOOK_BACK]
        )
    assert (await store.claims()).claims == []
    assert len((await store.claims()).claims) == 1


def test_no_ledger_in_memory_is_built_in_production(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = memory_store().registry
    assert isinstance(registry, MemoryRegistry)
    monkeypatch.setenv("EFFECT_BROKER_ENVIRONMENT", "production")
    with pytest.raises(RuntimeError, match="no authority"):
        MemoryLedger(registry, lambda: datetime.now(UTC) + timedelta(0))
    with pytest.raises(RuntimeError, match="no authority"):
        MemoryRegistry(lambda: datetime.now(UTC))
