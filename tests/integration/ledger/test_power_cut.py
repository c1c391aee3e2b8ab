"""The database dies under load, and comes back with everything it had acknowledged."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from uuid import UUID

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.embedded import EmbeddedPostgres
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.retention import PostgresRetention
from effect_broker.ports import EffectQuery, StepStatus
from tests.conformance.ledgers import MARGIN, S, Store, postgres_store, succeeded
from tests.guarantees import guarantee

WORKERS = 8
ACKNOWLEDGED_BEFORE_THE_CUT = 150


class Acknowledged:
    """What the workers were told before the database died."""

    def __init__(self) -> None:
        self.reserved: set[UUID] = set()
        self.ended: set[UUID] = set()
        self.enough = asyncio.Event()


async def _work(store: Store, told: Acknowledged) -> None:
    try:
        while True:
            intent = store.intent()
            reserved = await store.reserve(intent)
            assert reserved.created
            told.reserved.add(intent.effect_id)
            claim = await store.claim(intent.effect_id)
            if len(told.reserved) % 3:
                (result,) = await store.ledger.record([succeeded(claim)])
                assert result.status is StepStatus.APPLIED
                told.ended.add(intent.effect_id)
            if len(told.ended) > ACKNOWLEDGED_BEFORE_THE_CUT:
                told.enough.set()
    except LedgerUnavailable:
        return


@guarantee("acknowledged-is-kept")
async def test_nothing_acknowledged_is_lost_and_nothing_is_stuck(
    private_postgres: EmbeddedPostgres,
) -> None:
    connections = Connections(private_postgres.url(), limit=WORKERS)
    store = postgres_store(private_postgres.url(), connections)
    await store.open()
    told = Acknowledged()
    workers = [asyncio.create_task(_work(store, told)) for _ in range(WORKERS)]
    await told.enough.wait()
    await asyncio.to_thread(private_postgres.kill)
    await asyncio.gather(*workers)
    await asyncio.to_thread(private_postgres.restart)

    for effect_id in told.reserved:
        assert await store.ledger.get(store.tenant_id, effect_id) is not None
    for effect_id in told.ended:
        assert await store.status(effect_id) is S.SUCCEEDED
        assert await store.ledger.receipt(store.tenant_id, effect_id) is not None
    retention = PostgresRetention(connections)
    assert await retention.check() == {}

    await _finish_everything(store)
    statuses: Counter[S] = Counter()
    after = None
    while page := await store.ledger.page(
        store.tenant_id, EffectQuery(limit=100, after=after)
    ):
        statuses.update(snapshot.status for snapshot in page)
        after = page[-1].intent.effect_id
    assert set(statuses) == {S.SUCCEEDED}
    assert await retention.check() == {}
    await connections.close()


async def _finish_everything(store: Store) -> None:
    """Sweep and work on, as workers that start again would."""
    await store.pass_time(timedelta(seconds=31))
    while await store.ledger.expire_leases(50, clock_margin=MARGIN):
        continue
    while claims := (await store.claims()).claims:
        await store.ledger.record([succeeded(claim) for claim in claims])
    while claims := (await store.ledger.claim_reconciliation(store.order())).claims:
        await store.ledger.record([succeeded(claim) for claim in claims])
