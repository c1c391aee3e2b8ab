"""Whatever becomes of the worker or of its COMMIT, there is one mutation, or none."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
import pytest_asyncio

from effect_broker.domain.status import EffectStatus
from tests.guarantees import guarantee
from tests.integration.adapters.mutations import Pause
from tests.integration.adapters.sql_world import (
    HeldTransactor,
    SqlWorld,
    sql_contract,
    sql_world,
)
from tests.integration.ledger.proxy import Cut, Proxy, proxy_before


@pytest_asyncio.fixture
async def world(fresh_database: str) -> AsyncIterator[SqlWorld]:
    async with sql_world(fresh_database) as made:
        yield made


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[tuple[SqlWorld, Proxy]]:
    async with proxy_before(url) as proxy, sql_world(url, through=proxy.url) as world:
        yield world, proxy


def break_commit(proxy: Proxy, cut: Cut) -> None:
    proxy.cut, proxy.marker = cut, b"COMMIT"


async def worker(url: str, *arguments: str) -> asyncio.subprocess.Process:
    module = "tests.integration.adapters.sql_child"
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, url, *arguments
    )


async def one_mutation(world: SqlWorld, effect_id: object) -> None:
    assert await world.charges() == 1
    events = await world.events(effect_id)  # type: ignore[arg-type]
    assert events.count("ReceiptRecorded") == 1
    assert await world.status(effect_id) is EffectStatus.SUCCEEDED  # type: ignore[arg-type]


@guarantee("transactional-exactly-one")
async def test_worker_killed_before_its_commit_has_done_nothing(
    world: SqlWorld,
) -> None:
    await world.start(sql_contract("charge_and_die"))
    charged = await world.charge()
    process = await worker(world.url)
    assert await process.wait() == -signal.SIGKILL
    assert await world.charges() == 0
    await world.let_pass(60)
    await world.sweeper.run_once()
    assert await world.status(charged.effect_id) is EffectStatus.OUTCOME_UNKNOWN
    await world.reconciler().run_once()
    assert await world.status(charged.effect_id) is EffectStatus.PREPARED


@guarantee("transactional-exactly-one")
async def test_worker_killed_after_its_commit_leaves_one_mutation(
    world: SqlWorld,
) -> None:
    await world.start(sql_contract())
    charged = await world.charge()
    process = await worker(world.url, "after_commit")
    assert await process.wait() == -signal.SIGKILL
    await one_mutation(world, charged.effect_id)
    await world.recover()
    await one_mutation(world, charged.effect_id)


@guarantee("transactional-exactly-one")
@pytest.mark.parametrize("arrives", [True, False])
async def test_worker_killed_at_its_commit_leaves_one_mutation(
    world: SqlWorld, arrives: bool
) -> None:
    await world.start(sql_contract())
    charged = await world.charge()
    async with proxy_before(world.url) as proxy:
        break_commit(proxy, Cut.LATE)
        process = await worker(proxy.url)
        await proxy.until_held()
        process.kill()
        await process.wait()
        assert await world.charges() == 0
        if arrives:
            await proxy.deliver()
        else:
            await proxy.drop()
    await world.recover()
    await one_mutation(world, charged.effect_id)


@guarantee("transactional-exactly-one")
@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.HALF, Cut.AFTER])
async def test_unknown_commit_is_settled_by_the_ledger(
    fresh_database: str, cut: Cut
) -> None:
    async with proxied(fresh_database) as (world, proxy):
        await world.start(sql_contract())
        charged = await world.charge()
        break_commit(proxy, cut)
        report = await world.sql_dispatcher().run_once()
        assert (report.recorded, report.fenced) == (1, 0)
        committed = cut is not Cut.BEFORE
        assert await world.status(charged.effect_id) is (
            EffectStatus.SUCCEEDED if committed else EffectStatus.RETRYABLE
        )
        assert await world.charges() == int(committed)
        assert "OutcomeLost" not in await world.events(charged.effect_id)
        await world.recover()
        await one_mutation(world, charged.effect_id)


@guarantee("transactional-exactly-one")
@pytest.mark.parametrize("arrives", [True, False])
async def test_commit_still_on_its_way_is_waited_for(
    fresh_database: str, arrives: bool
) -> None:
    async with proxied(fresh_database) as (world, proxy):
        await world.start(sql_contract())
        charged = await world.charge()
        break_commit(proxy, Cut.LATE)
        passing = asyncio.create_task(world.sql_dispatcher().run_once())
        await world.until_a_lock_is_waited_for()
        assert not passing.done()
        if arrives:
            await proxy.deliver()
        else:
            await proxy.drop()
        report = await passing
        assert (report.recorded, report.fenced) == (1, 0)
        assert await world.charges() == int(arrives)
        await world.recover()
        await one_mutation(world, charged.effect_id)


async def test_connection_lost_within_the_transaction_has_done_nothing(
    fresh_database: str,
) -> None:
    async with proxied(fresh_database) as (world, proxy):
        await world.start(sql_contract())
        charged = await world.charge()
        proxy.cut, proxy.marker = Cut.BEFORE, b"INSERT INTO public.charges"
        await world.sql_dispatcher().run_once()
        assert await world.status(charged.effect_id) is EffectStatus.RETRYABLE
        assert await world.charges() == 0
        await world.recover()
        await one_mutation(world, charged.effect_id)


@guarantee("transactional-exactly-one")
async def test_two_workers_make_one_mutation(world: SqlWorld) -> None:
    await world.start(sql_contract())
    charged = await world.charge()
    reports = await asyncio.gather(*(world.sql_dispatcher().run_once() for _ in range(2)))
    assert sum(report.recorded for report in reports) == 1
    await one_mutation(world, charged.effect_id)


@guarantee("transactional-exactly-one", "fenced-answer-is-evidence")
async def test_worker_that_lost_its_claim_does_nothing(world: SqlWorld) -> None:
    await world.start(sql_contract())
    charged = await world.charge()
    held = HeldTransactor(world.transactor)
    late = asyncio.create_task(world.sql_dispatcher(held).run_once())
    await held.reached.wait()
    await world.pass_time(timedelta(seconds=60))
    await world.sweeper.run_once()
    await world.reconciler().run_once()
    await world.sql_dispatcher().run_once()
    await one_mutation(world, charged.effect_id)
    held.go.set()
    report = await late
    assert (report.recorded, report.fenced) == (0, 1)
    await one_mutation(world, charged.effect_id)


@guarantee("transactional-exactly-one")
async def test_lease_that_ends_during_the_transaction_takes_nothing_from_it(
    world: SqlWorld,
) -> None:
    Pause.prepare()
    await world.start(sql_contract("charge_slowly"))
    charged = await world.charge()
    held = HeldTransactor(world.transactor)
    passing = asyncio.create_task(world.sql_dispatcher(held).run_once())
    await held.reached.wait()
    await world.pass_time(timedelta(seconds=60))
    held.go.set()
    await Pause.reached.wait()
    assert (await world.sweeper.run_once()).lapsed == 0
    await world.reconciler().run_once()
    assert (await world.sql_dispatcher().run_once()).attempts == 0
    Pause.go.set()
    assert (await passing).recorded == 1
    await one_mutation(world, charged.effect_id)


async def test_cancelled_worker_has_done_nothing_and_another_does_it(
    world: SqlWorld,
) -> None:
    Pause.prepare()
    await world.start(sql_contract("charge_slowly"))
    charged = await world.charge()
    passing = asyncio.create_task(world.sql_dispatcher().run_once())
    await Pause.reached.wait()
    passing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await passing
    assert await world.status(charged.effect_id) is EffectStatus.OUTCOME_UNKNOWN
    assert await world.charges() == 0
    Pause.go.set()
    await world.recover()
    await one_mutation(world, charged.effect_id)


async def test_mutation_that_outlives_its_deadline_is_rolled_back(
    world: SqlWorld,
) -> None:
    Pause.prepare()
    await world.start(sql_contract("charge_slowly", attempt_timeout="200ms"))
    charged = await world.charge()
    await world.sql_dispatcher().run_once()
    assert Pause.reached.is_set()
    assert await world.status(charged.effect_id) is EffectStatus.RETRYABLE
    assert await world.charges() == 0


async def test_process_without_a_transactor_mutates_nothing(world: SqlWorld) -> None:
    from effect_broker.adapters.sql import SqlAdapters

    await world.start(sql_contract())
    charged = await world.charge()
    await world.dispatcher(adapters=SqlAdapters(world.clock)).run_once()
    assert await world.status(charged.effect_id) is EffectStatus.RETRYABLE
    assert "AttemptNotSent" in await world.events(charged.effect_id)
