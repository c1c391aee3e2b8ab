"""How long a lost answer stays unsettled beyond what its contract asks to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Final
from uuid import UUID

from benchmarks.arithmetic import Measured
from benchmarks.bench import Bench
from benchmarks.broker import BrokerClient, MeasuredCore, request
from benchmarks.contract import LOST, LOST_TOOL
from benchmarks.server import Place
from effect_broker.aws.nudges import delay_seconds
from effect_broker.domain.status import EventType
from effect_broker.ledger.registry import PostgresRegistry
from effect_broker.wiring.workers import Workers

EFFECTS: Final = 20
PATIENCE_SECONDS: Final = 60


class DelayingNudges:
    """Hints that come as a queue delivers them: after whole seconds, rounded up."""

    def __init__(self) -> None:
        self.due: asyncio.Queue[UUID] = asyncio.Queue()
        self.asked_at_least: dict[UUID, timedelta] = {}

    async def dispatch(
        self, effect_ids: Sequence[UUID], *, delay: timedelta = timedelta(0)
    ) -> None:
        """Lose the hint: the bench dispatches by itself."""

    async def reconcile(
        self, effect_ids: Sequence[UUID], *, delay: timedelta = timedelta(0)
    ) -> None:
        """Deliver each id after the delay."""
        for effect_id in effect_ids:
            waited = self.asked_at_least.get(effect_id, timedelta(0))
            self.asked_at_least[effect_id] = waited + delay
            asyncio.get_running_loop().call_later(
                delay_seconds(delay), self.due.put_nowait, effect_id
            )


async def added_latency(bench: Bench) -> Measured:
    """Lose answers, reconcile as nudges ask, and read the ledger's own instants."""
    with bench.server.place() as place:
        nudges = DelayingNudges()
        client = BrokerClient(place, nudger=nudges)
        await PostgresRegistry(client.core.connections).publish(LOST)
        effects = [await client.lose(request(tool=LOST_TOOL)) for _ in range(EFFECTS)]
        reconciler = Workers(client.core, "reconciler").reconciler
        open_effects = set(effects)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while open_effects:
                effect_id = await nudges.due.get()
                await reconciler.run_once(effect_ids=[effect_id])
                if await client.core.ledger.receipt(place.tenant_id, effect_id):
                    open_effects.discard(effect_id)
                    bench.told(1 - len(open_effects) / EFFECTS)
        added = [
            await _added(client.core, place, effect_id, nudges.asked_at_least[effect_id])
            for effect_id in effects
        ]
        await client.close()
    return Measured(median(added), {"longest": max(added), "shortest": min(added)})


async def _added(
    core: MeasuredCore, place: Place, effect_id: UUID, waits: timedelta
) -> float:
    """Return the seconds from loss to receipt, less what the contract asks for."""
    events = await core.ledger.events(place.tenant_id, effect_id)
    instants: dict[EventType, datetime] = {event.type: event.at for event in events}
    taken = instants[EventType.RECEIPT_RECORDED] - instants[EventType.OUTCOME_LOST]
    return (taken - waits).total_seconds()
