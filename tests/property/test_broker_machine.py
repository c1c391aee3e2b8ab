"""Any history that Hypothesis can think of, on both stores at once, beside a model.

The model is small on purpose: per order, what its requests are told to do. What must hold
is asked of the target's own objects, and both stores must tell the same story.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from effect_broker.domain.errors import DecisionRefused, PayloadDrift
from effect_broker.domain.resolution import Decision
from effect_broker.domain.status import EffectStatus
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.ledger.registry import PostgresRegistry
from tests.integration.broker.conftest import memory_world
from tests.integration.broker.holding import HoldingAdapters
from tests.integration.broker.world import MovableClock, World, contract, postgres_time

ACTS = ["commit", "lose_answer", "lose_request", "reject", "not_executed", "not_sent"]
ANSWERED = frozenset({EffectStatus.SUCCEEDED, EffectStatus.COMPENSATED})
RESTING = ANSWERED | {
    EffectStatus.FAILED_FINAL,
    EffectStatus.MANUAL_REVIEW,
    EffectStatus.OUTCOME_UNKNOWN,
}
CONTRACTS: dict[str, dict[str, Any]] = {
    "idempotent": {"key_records": "all_answers"},
    "commits": {"key_records": "commits"},
    "careful": {"key_records": "successes", "probe": {"consistency": "strong"}},
    "reconcilable": {},
    "unsafe": {},
}
ORDERS_MAX = 15
"""So few that no limit decides who goes first: there the stores may differ."""

LAG_SECONDS = 25.0
"""A lookup misses a fresh object for so long: inside the contract's settlement bound."""

T = TypeVar("T")
_runs = count()


@dataclass
class Side:
    """One store's world with the workers that were stopped in it."""

    world: World
    effects: dict[int, UUID] = field(default_factory=dict)
    paused: list[tuple[HoldingAdapters, asyncio.Task[Any]]] = field(default_factory=list)


class BrokerMachine(RuleBasedStateMachine):
    """Submits, sends, loses, pauses, sweeps, asks and resolves, in any order."""

    url: str
    kind: str

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.connections = Connections(self.url, limit=4)
        self.sides = [
            Side(memory_world()),
            Side(
                World(
                    PostgresLedger(self.connections),
                    PostgresRegistry(self.connections),
                    MovableClock(),
                    postgres_time(self.url),
                    lambda: PostgresLedger(self.connections),
                )
            ),
        ]
        self.orders = 0

    @initialize()
    def publish(self) -> None:
        kind = self.kind
        made = contract(
            kind if kind in {"reconcilable", "unsafe"} else "idempotent",
            name=f"sim-{kind}",
            submit_deadline="10h",
            retry_limit=2,
            backoff={"initial": "7s", "factor": 1.0, "max": "7s", "jitter": 0.0},
            **CONTRACTS[kind],
        )
        for side in self.sides:
            side.world.target.lag_seconds = LAG_SECONDS
            side.world.unsafe_max = ORDERS_MAX
        slug = f"acme-{next(_runs)}"
        self.each(lambda side: side.world.open(made, slug=slug))

    @precondition(lambda self: self.orders < ORDERS_MAX)
    @rule(acts=st.lists(st.sampled_from(ACTS), min_size=1, max_size=4))
    def submit(self, acts: list[str]) -> None:
        self.orders += 1
        order = self.orders

        async def submit(side: Side) -> None:
            made = await side.world.submit(_key(order), *acts, amount=order)
            assert made.created
            side.effects[order] = made.effect.effect_id

        self.each(submit)

    @precondition(lambda self: self.orders > 0)
    @rule(data=st.data())
    def submit_again(self, data: st.DataObject) -> None:
        order = data.draw(st.integers(1, self.orders))

        async def again(side: Side) -> None:
            made = await side.world.submit(_key(order), amount=order)
            assert made.replayed
            assert made.effect.effect_id == side.effects[order]
            with pytest.raises(PayloadDrift):
                await side.world.submit(_key(order), amount=10_000)

        self.each(again)

    @rule(after_answer=st.booleans())
    def dispatch_and_pause(self, after_answer: bool) -> None:
        async def pause(side: Side) -> None:
            holding = HoldingAdapters(side.world.adapters, after_answer=after_answer)
            dispatcher = side.world.dispatcher(adapters=holding)
            running = asyncio.ensure_future(dispatcher.run_once())
            reached = asyncio.ensure_future(holding.reached.wait())
            await asyncio.wait({running, reached}, return_when=asyncio.FIRST_COMPLETED)
            reached.cancel()
            side.paused.append((holding, running))

        self.each(pause)

    @precondition(lambda self: self.sides[0].paused)
    @rule()
    def wake_the_oldest(self) -> None:
        self.each(_wake)

    @rule(seconds=st.sampled_from([0, 12, 35, 45, 100]))
    def let_pass_and_work(self, seconds: int) -> None:
        async def work(side: Side) -> None:
            await side.world.let_pass(seconds)
            await side.world.sweeper.run_once()
            await side.world.reconciler().run_once()
            await side.world.dispatcher().run_once()

        self.each(work)

    @rule(seconds=st.sampled_from([12, 35, 4000]))
    def let_pass_and_only_ask(self, seconds: int) -> None:
        async def ask(side: Side) -> None:
            await side.world.let_pass(seconds)
            await side.world.sweeper.run_once()
            await side.world.reconciler().run_once()

        self.each(ask)

    @precondition(lambda self: self.orders > 0)
    @rule(data=st.data())
    def operator_looks_and_decides(self, data: st.DataObject) -> None:
        order = data.draw(st.integers(1, self.orders))

        async def decide(side: Side) -> bool:
            effect_id = side.effects[order]
            if await side.world.status(effect_id) not in (
                EffectStatus.OUTCOME_UNKNOWN,
                EffectStatus.MANUAL_REVIEW,
            ):
                return False
            found = _objects(side.world, order) > 0
            decision = Decision.COMMITTED if found else Decision.FAILED
            try:
                await side.world.decide(effect_id, decision)
            except DecisionRefused:
                return False
            return True

        first, second = self.each(decide)
        assert first == second

    @invariant()
    def one_effect_and_no_lie(self) -> None:
        self.each(self.check)

    async def check(self, side: Side) -> None:
        for order, effect_id in side.effects.items():
            status = await side.world.status(effect_id)
            objects = _objects(side.world, order)
            assert objects <= 1, f"order {order}: {objects} objects"
            assert status not in ANSWERED or objects == 1, f"order {order}: no object"
            assert status is not EffectStatus.FAILED_FINAL or objects == 0, "a lie"
            if objects == 1 and status not in ANSWERED | {EffectStatus.DISPATCHING}:
                assert await _may_have_committed(side.world, effect_id), (
                    "a hidden unknown"
                )

    @invariant()
    def both_stores_tell_one_story(self) -> None:
        memory, postgres = self.each(_story)
        assert memory == postgres

    def teardown(self) -> None:
        try:
            while self.sides[0].paused:
                self.each(_wake)
            self.each(lambda side: side.world.settle(15, seconds=200))
            self.each(self.check)
            assert all(set(found) <= RESTING for found in self.each(_statuses))
        finally:
            self.loop.run_until_complete(self.connections.close())
            self.loop.close()
            with psycopg.connect(self.url, autocommit=True) as cleaning:
                cleaning.execute("DELETE FROM effect_broker.effect_work")

    def each(self, act: Callable[[Side], Awaitable[T]]) -> list[T]:
        async def acting() -> list[T]:
            return [await act(side) for side in self.sides]

        return self.loop.run_until_complete(acting())


async def _may_have_committed(world: World, effect_id: UUID) -> bool:
    """Say whether the ledger shows the effect as unproved, or already holds the proof."""
    snapshot = await world.ledger.get(world.tenant.tenant_id, effect_id)
    assert snapshot is not None
    assert snapshot.work is not None
    return snapshot.work.unknown_since is not None or snapshot.work.proof_committed


async def _wake(side: Side) -> None:
    holding, running = side.paused.pop(0)
    holding.go.set()
    await running


async def _story(side: Side) -> list[Any]:
    told: list[Any] = []
    for effect_id in side.effects.values():
        told.append(await side.world.status(effect_id))
        told.append(await side.world.events(effect_id))
    return told


async def _statuses(side: Side) -> list[EffectStatus]:
    return [await side.world.status(effect) for effect in side.effects.values()]


def _objects(world: World, order: int) -> int:
    return sum(made.received["amount"] == order for made in world.target.objects)


def _key(order: int) -> str:
    return f"order:{order}:charge:v1"


@pytest.mark.parametrize("kind", sorted(CONTRACTS))
def test_no_history_makes_a_second_effect_or_a_lie(database_url: str, kind: str) -> None:
    machine = type("Machine", (BrokerMachine,), {"url": database_url, "kind": kind})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
