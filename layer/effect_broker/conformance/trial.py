"""One check's stage: a fresh target, the adapter under test, and clocks that can be
moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NoReturn, TypeVar
from uuid import UUID

from effect_broker.cipher import AesGcmCipher, Keyring
from effect_broker.clock import SystemClock
from effect_broker.conformance.failure import ConformanceFailure
from effect_broker.conformance.target import TargetUnderTest
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.identity import downstream_key, request_hash
from effect_broker.domain.intent import EffectRecord, EffectRequest
from effect_broker.domain.outcome import Ambiguous, Outcome, ProbeResult, ProbeStatus
from effect_broker.domain.status import EffectStatus
from effect_broker.ids import uuid7
from effect_broker.ports import AdapterSource, Deadline

T = TypeVar("T")

TENANT: Final = UUID("00000000-0000-4000-8000-0000000000c0")
EFFECT: Final = UUID("00000000-0000-4000-8000-0000000000c1")
HMAC_KEY: Final = "h1"
DISPATCH_SECONDS: Final = 2.0
"""How long an attempt of a check may take: far more than the loopback needs."""

OVERRUN_SECONDS: Final = 3.0
"""What an adapter gets on top before the check calls it stuck."""

_TEST_KEY: Final = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
KEYRING: Final = (
    f'{{"data_keys": {{"k1": "{_TEST_KEY}"}}, "active_data_key": "k1",'
    f' "hmac_keys": {{"{HMAC_KEY}": "{_TEST_KEY}"}}}}'
)
"""Seals what lives as long as one check, in this process only."""


class MovableClock(SystemClock):
    """The host's clocks, moved on by what a check let pass."""

    def __init__(self) -> None:
        self.moved = 0.0

    def monotonic(self) -> float:
        """Return the host's reading, moved."""
        return super().monotonic() + self.moved

    def boottime(self) -> float:
        """Return the host's reading, moved."""
        return super().boottime() + self.moved

    def wall(self) -> float:
        """Return the host's reading, moved."""
        return super().wall() + self.moved

    def now(self) -> datetime:
        """Return the wall clock as an instant."""
        return datetime.fromtimestamp(self.wall(), UTC)

    def deadline_in(self, seconds: float) -> Deadline:
        """Return the deadline that lies `seconds` from now on every clock."""
        return Deadline(
            self.monotonic() + seconds, self.boottime() + seconds, self.wall() + seconds
        )


@dataclass(frozen=True)
class Trial:
    """What a check talks to."""

    check: str
    target: TargetUnderTest
    source: AdapterSource
    contract: EffectContract
    scope: bytes
    clock: MovableClock
    cipher: AesGcmCipher

    def effect(
        self, name: str = "first", arguments: Mapping[str, Any] | None = None
    ) -> EffectRecord:
        """Return an effect with the key that the broker would have stored for it."""
        contract = self.contract
        given = dict(self.target.arguments if arguments is None else arguments)
        operation_key = f"conformance:{name}:v1"
        now = self.clock.now()
        return EffectRecord(
            effect_id=EFFECT,
            tenant_id=TENANT,
            request=EffectRequest(operation_key, contract.tool, given),
            request_hash=request_hash(
                contract.tool,
                given,
                contract.name,
                contract.version,
                contract.non_intent_fields,
            ),
            downstream_key=downstream_key(
                self.cipher, HMAC_KEY, TENANT, operation_key, contract
            ),
            contract=contract,
            status=EffectStatus.DISPATCHING,
            version=2,
            created_at=now,
            updated_at=now,
        )

    async def dispatch(
        self,
        effect: EffectRecord,
        *,
        seconds: float = DISPATCH_SECONDS,
        scope: bytes | None = None,
    ) -> Outcome:
        """Make one attempt, as the dispatcher would; an exception is ambiguity there."""
        adapter = await self.source.adapter(
            self.contract,
            scope_digest=self.scope if scope is None else scope,
            deadline=self.clock.deadline_in(seconds),
        )
        task = await self._in_time(
            adapter.dispatch(effect, attempt_id=uuid7()), max(seconds, 0.0)
        )
        if (error := task.exception()) is not None:
            return Ambiguous(f"adapter_raised:{type(error).__name__}")
        return task.result()

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        """Ask once, as the reconciler would; an exception is an unknown answer there."""
        adapter = await self.source.adapter(
            self.contract, scope_digest=self.scope, deadline=None
        )
        task = await self._in_time(adapter.probe(effect), DISPATCH_SECONDS)
        if (error := task.exception()) is not None:
            evidence = {"reason": f"probe_raised:{type(error).__name__}"}
            return ProbeResult(ProbeStatus.UNKNOWN, evidence=evidence)
        return task.result()

    def fail(self, what: str, *, where: str, todo: str) -> NoReturn:
        """End the check.

        Raises:
            ConformanceFailure: always.
        """
        raise ConformanceFailure(self.check, what, where=where, todo=todo)

    async def _in_time(
        self, work: Coroutine[Any, Any, T], seconds: float
    ) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        await asyncio.wait([task], timeout=seconds + OVERRUN_SECONDS)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
            self.fail(
                f"the adapter did not return {OVERRUN_SECONDS} s after its deadline.",
                where=f"an attempt or lookup of {seconds} s",
                todo="End at the deadline: abort the connection, and return Ambiguous.",
            )
        return task


@asynccontextmanager
async def trial(check: str, target: TargetUnderTest) -> AsyncIterator[Trial]:
    """Start the target for one check, and stop it after."""
    clock = MovableClock()
    source = await target.start(clock)
    try:
        contract = target.contract
        yield Trial(
            check=check,
            target=target,
            source=source,
            contract=contract,
            scope=await source.scope_digest(contract),
            clock=clock,
            cipher=AesGcmCipher(Keyring.from_json(KEYRING)),
        )
    finally:
        await target.stop()
