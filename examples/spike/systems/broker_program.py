"""This broker: submit, then sweep, reconcile and dispatch until the effect is at rest."""

from __future__ import annotations

import asyncio
import time
from uuid import UUID

from effect_broker.domain.errors import ReceiptNotFound
from effect_broker.domain.intent import EffectRequest
from effect_broker.domain.status import TERMINAL, EffectStatus
from effect_broker.settings import Settings
from effect_broker.surfaces.telling import outcome_sentence
from effect_broker.telemetry import NullMeter
from effect_broker.wiring.core import Core
from effect_broker.wiring.workers import Workers
from examples.crash_matrix.matrix.process import CONNECTIONS, TENANT
from examples.spike.systems.charging import Turn, main

REST_SECONDS_MAX = 20.0
PASS_SECONDS = 0.2


async def turn_of(turn: Turn) -> tuple[str, str]:
    """Submit under the order's own key, and work until nothing more is to be expected."""
    core = Core(Settings.from_environment(), NullMeter(), CONNECTIONS)
    workers = Workers(core, "spike")
    try:
        tenant = await core.registry.tenant(slug=TENANT)
        assert tenant is not None
        request = EffectRequest(
            f"order:{turn.order}:charge:v1",
            f"matrix.{turn.world}",
            turn.arguments,
            "spike",
        )
        reserved = await core.broker.submit(tenant.tenant_id, request)
        effect_id = reserved.effect.effect_id
        until = time.monotonic() + REST_SECONDS_MAX
        while time.monotonic() < until:
            await workers.sweep()
            await workers.reconciler.run_once()
            await workers.dispatcher.run_once()
            status = await _status(core, tenant.tenant_id, effect_id)
            unsafe = turn.world == "plain"
            if status in TERMINAL or (unsafe and status is EffectStatus.OUTCOME_UNKNOWN):
                break
            await asyncio.sleep(PASS_SECONDS)
        return await _told(core, tenant.tenant_id, effect_id), str(status)
    finally:
        await core.connections.close()


async def _status(core: Core, tenant_id: UUID, effect_id: UUID) -> EffectStatus:
    return (await core.broker.get(tenant_id, effect_id)).snapshot.status


async def _told(core: Core, tenant_id: UUID, effect_id: UUID) -> str:
    try:
        receipt = await core.broker.replay_receipt(tenant_id, effect_id)
    except ReceiptNotFound:
        view = await core.broker.get(tenant_id, effect_id)
        status = view.snapshot.status
        return f"{status}: {outcome_sentence(status, unknown=view.unknown)}"
    return f"{receipt['kind']}: {receipt['external_id']}"


def run(turn: Turn) -> tuple[str, str]:
    """Run one turn on an event loop."""
    return asyncio.run(turn_of(turn))


if __name__ == "__main__":
    main(run)
