"""Workers that lost their claim change nothing; what they learned is evidence all
the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from effect_broker.domain.attempt import EndingKind
from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.domain.status import EffectStatus
from tests.guarantees import guarantee
from tests.integration.broker.holding import HoldingAdapters
from tests.integration.broker.world import World, contract


@guarantee("send-deadline-holds")
async def test_worker_that_slept_past_its_deadline_sends_nothing(world: World) -> None:
    await world.open(contract("reconcilable"))
    effect = (await world.submit()).effect
    holding = HoldingAdapters(world.adapters, after_answer=False)
    paused = asyncio.create_task(world.dispatcher(adapters=holding).run_once())
    await holding.reached.wait()
    await world.let_pass(120)
    await world.settle()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    holding.go.set()
    report = await paused
    assert report.fenced == 1
    assert len(world.target.requests) == 1
    assert world.meter.counts["fenced_writes_total"] == 1
    assert world.meter.counts["sends_prevented_total"] == 1


@guarantee("fenced-answer-is-evidence")
async def test_late_answer_of_a_fenced_worker_settles_even_an_unsafe_effect(
    world: World,
) -> None:
    await world.open(contract("unsafe"))
    effect = (await world.submit()).effect
    holding = HoldingAdapters(world.adapters, after_answer=True)
    paused = asyncio.create_task(world.dispatcher(adapters=holding).run_once())
    await holding.reached.wait()
    await world.let_pass(120)
    await world.sweeper.run_once()
    assert await world.status(effect.effect_id) is EffectStatus.OUTCOME_UNKNOWN
    holding.go.set()
    await paused
    await world.settle(passes=2)
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert len(world.target.requests) == 1
    assert (await world.receipt(effect.effect_id))["source"] == "late_answer"


@guarantee("proof-of-commit-blocks")
async def test_late_proof_of_commit_blocks_the_next_send(world: World) -> None:
    await world.open(contract())
    effect = (await world.submit()).effect
    holding = HoldingAdapters(world.adapters, after_answer=True)
    paused = asyncio.create_task(world.dispatcher(adapters=holding).run_once())
    await holding.reached.wait()
    await world.let_pass(120)
    await world.sweeper.run_once()
    await world.reconciler().run_once()
    assert await world.status(effect.effect_id) is EffectStatus.PREPARED
    holding.go.set()
    await paused
    report = await world.dispatcher().run_once()
    assert report.attempts == 0
    await world.reconciler().run_once()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert len(world.target.requests) == 1


async def test_late_proof_that_arrives_during_the_next_attempt_is_used_by_it(
    world: World,
) -> None:
    await world.open(contract(key_records="commits"))
    effect = (await world.submit("order:1:charge:v1", "commit", "not_executed")).effect
    first = HoldingAdapters(world.adapters, after_answer=True)
    paused = asyncio.create_task(world.dispatcher(adapters=first).run_once())
    await first.reached.wait()
    await world.let_pass(120)
    await world.sweeper.run_once()
    await world.reconciler().run_once()
    second = HoldingAdapters(world.adapters, after_answer=True)
    going = asyncio.create_task(world.dispatcher(adapters=second).run_once())
    await second.reached.wait()
    first.go.set()
    await paused
    assert await world.status(effect.effect_id) is EffectStatus.DISPATCHING
    second.go.set()
    await going
    assert await world.status(effect.effect_id) is EffectStatus.OUTCOME_UNKNOWN
    await world.reconciler().run_once()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    attempts = await world.ledger.attempts(world.tenant.tenant_id, effect.effect_id)
    assert [attempt.ending and attempt.ending.kind for attempt in attempts] == [
        EndingKind.COMMITTED,
        EndingKind.NOT_EXECUTED,
    ]
    assert [attempt.late for attempt in attempts] == [True, False]


class CountedRenewals:
    """Passes everything on; says when a lease was renewed, `lost` times in vain."""

    def __init__(self, inner: Any, *, lost: int = 0) -> None:
        self._inner = inner
        self._lost = lost
        self.renewed = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def renew(
        self, token: UUID, effect_ids: Sequence[UUID], lease: timedelta
    ) -> frozenset[UUID]:
        if self._lost > 0:
            self._lost -= 1
            raise LedgerUnavailable("The ledger is away.")
        kept: frozenset[UUID] = await self._inner.renew(token, effect_ids, lease)
        self.renewed.set()
        return kept


async def test_long_attempt_keeps_its_lease_also_past_a_lost_heartbeat(
    world: World,
) -> None:
    await world.open(contract())
    effect = (await world.submit()).effect
    ledger = CountedRenewals(world.ledger, lost=2)
    holding = HoldingAdapters(world.adapters, after_answer=True)
    dispatcher = world.dispatcher(
        ledger=ledger, adapters=holding, heartbeats_a_lease=3000
    )
    running = asyncio.create_task(dispatcher.run_once())
    await holding.reached.wait()
    await world.let_pass(29)
    ledger.renewed.clear()
    await ledger.renewed.wait()
    await world.let_pass(29)
    await world.sweeper.run_once()
    assert await world.status(effect.effect_id) is EffectStatus.DISPATCHING
    holding.go.set()
    assert (await running).recorded == 1
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED


async def test_worker_that_learns_of_its_lost_claim_stops_its_attempt(
    world: World,
) -> None:
    await world.open(contract("unsafe"))
    effect = (await world.submit()).effect
    holding = HoldingAdapters(world.adapters, after_answer=False)
    dispatcher = world.dispatcher(adapters=holding, heartbeats_a_lease=300)
    running = asyncio.create_task(dispatcher.run_once())
    await holding.reached.wait()
    await world.ledger.expire_leases(10, clock_margin=timedelta(days=-1))
    async with asyncio.timeout(20):
        report = await running
    assert report.fenced == 1
    assert world.target.requests == []
    assert await world.status(effect.effect_id) is EffectStatus.OUTCOME_UNKNOWN


async def test_few_unsafe_effects_are_under_way_at_once(world: World) -> None:
    await world.open(contract("unsafe"))
    for number in range(5):
        await world.submit(f"order:{number}:charge:v1")
    holding = HoldingAdapters(world.adapters, after_answer=False)
    running = asyncio.create_task(world.dispatcher(adapters=holding).run_once())
    await holding.reached.wait()
    holding.go.set()
    report = await running
    assert (report.attempts, report.more) == (2, True)
    assert len(world.target.requests) == 2


async def test_two_workers_with_one_configuration_make_one_charge(world: World) -> None:
    await world.open(contract("unsafe"))
    effect = (await world.submit()).effect
    one, two = world.dispatcher(), world.dispatcher()
    reports = await asyncio.gather(one.run_once(), two.run_once())
    assert sorted(report.attempts for report in reports) == [0, 1]
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert len(world.target.requests) == 1


@guarantee("every-transition-is-a-swap")
async def test_ghost_of_the_same_worker_leaves_its_successor_alone(world: World) -> None:
    await world.open(contract())
    effect = (await world.submit()).effect
    ghost = HoldingAdapters(world.adapters, after_answer=False)
    ghostly = asyncio.create_task(world.dispatcher(adapters=ghost).run_once())
    await ghost.reached.wait()
    await world.let_pass(120)
    await world.sweeper.run_once()
    await world.reconciler().run_once()
    successor = HoldingAdapters(world.adapters, after_answer=False)
    living = asyncio.create_task(world.dispatcher(adapters=successor).run_once())
    await successor.reached.wait()
    ghost.go.set()
    assert (await ghostly).fenced == 1
    assert await world.status(effect.effect_id) is EffectStatus.DISPATCHING
    successor.go.set()
    assert (await living).recorded == 1
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert len(world.target.requests) == 1


@guarantee("contradiction-is-recorded")
async def test_answer_that_contradicts_a_final_failure_is_recorded_and_listed(
    world: World,
) -> None:
    await world.open(contract("unsafe"))
    effect = (await world.submit()).effect
    holding = HoldingAdapters(world.adapters, after_answer=True)
    paused = asyncio.create_task(world.dispatcher(adapters=holding).run_once())
    await holding.reached.wait()
    await world.let_pass(120)
    await world.sweeper.run_once()
    await world.fail_by_operator(effect.effect_id)
    holding.go.set()
    await paused
    assert await world.status(effect.effect_id) is EffectStatus.FAILED_FINAL
    assert (await world.events(effect.effect_id))[-1] == "ContradictionRecorded"
