"""Watches that no unknown outcome stays unlisted, while a cell is played."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import psycopg

from effect_broker.ports import EffectQuery
from examples.crash_matrix.matrix.times import MATRIX_TIMES
from examples.crash_matrix.matrix.world import World

LOOK_SECONDS: Final = 0.3
SWEEP: Final = timedelta(seconds=1.0)
"""The margin that the sweep itself keeps; listing needs none, but may."""

UNPROVED = """
    SELECT w.effect_id, w.status::text AS status
    FROM effect_broker.effect_work w
    JOIN effect_broker.effect_attempts a USING (effect_id)
    LEFT JOIN effect_broker.effect_attempt_endings n USING (effect_id, ordinal)
    WHERE ((n.kind IS NULL AND a.started_at + %(over)s < clock_timestamp())
            OR (n.kind = 'ambiguous' AND NOT n.late))
        AND NOT EXISTS (
            SELECT FROM effect_broker.effect_events v
            WHERE v.effect_id = a.effect_id AND v.at > coalesce(n.ended_at, a.started_at)
                AND v.type = 'RedispatchPermitted'
                AND v.metadata::json ->> 'reason' IN
                    ('absent_after_settlement', 'no_receipt_under_the_row_lock')
        )
"""


async def watch(world: World) -> None:
    """Look until cancelled; what ought to be listed and is not is a broken promise.

    An effect ought to be listed, by its tenant's list and by the gauge, from a lease and
    a sweep after an attempt that nobody has proved, until it is over or a conclusive
    lookup has found nothing; at T the ledger itself is looked up.
    """
    async with await psycopg.AsyncConnection.connect(
        world.url, autocommit=True
    ) as reading:
        while True:
            before = await _unproved(reading)
            if before:
                listed = await _listed(world)
                # What was settled between the two looks need not be listed any more.
                missing = {*before} & {*await _unproved(reading)} - listed
                for effect_id in missing:
                    status = before[effect_id]
                    world.broken.append(f"{status}, unproved and not listed as unknown")
            await asyncio.sleep(LOOK_SECONDS)


async def _unproved(reading: psycopg.AsyncConnection[Any]) -> dict[UUID, str]:
    found = await reading.execute(UNPROVED, {"over": MATRIX_TIMES.lease + SWEEP})
    return dict(await found.fetchall())


async def _listed(world: World) -> set[UUID]:
    """Return what the tenant's list shows, if the gauge over all tenants counts too."""
    ledger = world.core.ledger
    page = await ledger.page(world.tenant_id, EffectQuery(unknown=True))
    counted = sum(item.count for item in await ledger.unknown_summary())
    return {item.intent.effect_id for item in page} if counted else set()
