"""Dispatching as the broker does: one source, one adapter for each attempt."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from effect_broker.adapters.http import HttpAdapters
from effect_broker.adapters.wire.connections import Connections
from effect_broker.adapters.wire.exchange import AbortingWatchdog
from effect_broker.clock import SystemClock
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import Outcome, ProbeResult
from effect_broker.ports import Clock, Deadline, SecretSource
from tests.integration.adapters.given import ATTEMPT, GivenSecrets, effect


class Sender:
    """Makes attempts and probes over one set of connections."""

    def __init__(
        self,
        connections: Connections,
        *,
        secrets: SecretSource | None = None,
        clock: Clock | None = None,
        watchdog: AbortingWatchdog | None = None,
    ) -> None:
        self.adapters = HttpAdapters(
            secrets or GivenSecrets(),
            clock or SystemClock(),
            connections=connections,
            watchdog=watchdog,
        )

    async def dispatch(
        self,
        contract: EffectContract,
        record: EffectRecord | None = None,
        *,
        scope: bytes | None = None,
        deadline: Deadline | None = None,
        attempt_id: UUID = ATTEMPT,
        **of_effect: Any,
    ) -> Outcome:
        adapter = await self.adapters.adapter(
            contract,
            scope_digest=scope or await self.adapters.scope_digest(contract),
            deadline=deadline,
        )
        return await adapter.dispatch(
            record or effect(contract, **of_effect), attempt_id=attempt_id
        )

    async def probe(
        self, contract: EffectContract, *, scope: bytes | None = None, **of_effect: Any
    ) -> ProbeResult:
        adapter = await self.adapters.adapter(
            contract,
            scope_digest=scope or await self.adapters.scope_digest(contract),
            deadline=None,
        )
        return await adapter.probe(effect(contract, **of_effect))
