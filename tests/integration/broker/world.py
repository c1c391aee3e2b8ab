"""A whole broker around one ledger and one simulated target, with time that tests
move.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg

from effect_broker.adapters.simulated import SimulatedAdapters
from effect_broker.adapters.simulated_target import SimulatedTarget
from effect_broker.broker.attempting import Attempting
from effect_broker.broker.catalog import Catalog
from effect_broker.broker.dispatch import (
    HEARTBEATS_A_LEASE,
    UNSAFE_MAX,
    Dispatcher,
)
from effect_broker.broker.facade import EffectBroker
from effect_broker.broker.inspecting import Inspector
from effect_broker.broker.measuring import Measuring
from effect_broker.broker.probing import Probing
from effect_broker.broker.reconcile import Reconciler
from effect_broker.broker.recording import Recorder
from effect_broker.broker.resolving import Finding, Resolver
from effect_broker.broker.scopes import Scopes
from effect_broker.broker.settling import Settler
from effect_broker.broker.submit import Submitter
from effect_broker.broker.sweep import Sweeper
from effect_broker.broker.tenants import Tenants
from effect_broker.cipher import AesGcmCipher, Keyring
from effect_broker.clock import SystemClock
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.event import EffectEvent
from effect_broker.domain.intent import EffectRequest, Reservation
from effect_broker.domain.resolution import Decision
from effect_broker.domain.status import EffectStatus
from effect_broker.ids import uuid7
from effect_broker.ledger.memory import MemoryLedger
from effect_broker.ports import AdapterSource, Deadline, Ledger, Registry, Tenant

KEYRING = (
    '{"data_keys": {"k1": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="},'
    ' "active_data_key": "k1",'
    ' "hmac_keys": {"h1": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}}'
)
MARGIN = timedelta(milliseconds=500)

INSTANTS = (
    "created_at",
    "last_event_at",
    "due_at",
    "submit_until",
    "settlement_at",
    "horizon_at",
    "negative_at",
    "unknown_since",
)


class MovableClock(SystemClock):
    """The host's clocks, moved on by what a test let pass."""

    def __init__(self) -> None:
        self.moved = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.moved

    def boottime(self) -> float:
        return super().boottime() + self.moved

    def wall(self) -> float:
        return super().wall() + self.moved


class SilentNudger:
    """Loses every hint, and remembers it."""

    def __init__(self) -> None:
        self.dispatches: list[tuple[UUID, timedelta]] = []
        self.reconciles: list[tuple[UUID, timedelta]] = []

    async def dispatch(
        self, effect_ids: Sequence[UUID], *, delay: timedelta = timedelta(0)
    ) -> None:
        self.dispatches += [(effect_id, delay) for effect_id in effect_ids]

    async def reconcile(
        self, effect_ids: Sequence[UUID], *, delay: timedelta = timedelta(0)
    ) -> None:
        self.reconciles += [(effect_id, delay) for effect_id in effect_ids]


class CountingMeter:
    """Keeps counters by name and labels."""

    def __init__(self) -> None:
        self.counts: dict[str, float] = {}

    def count(self, name: str, value: float = 1, **labels: str) -> None:
        for key in (name, f"{name}{sorted(labels.items())}"):
            self.counts[key] = self.counts.get(key, 0) + value

    def observe(self, name: str, value: float, **labels: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def gauge(self, name: str, value: float, **labels: str) -> None:
        self.counts[name] = value


class NoWatchdog:
    """Watches nothing: these tests move clocks, and their processes must live on."""

    def guard(self, deadline: Deadline) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass
class World:
    """Everything a test talks to."""

    ledger: Ledger
    registry: Registry
    clock: MovableClock
    pass_time: Callable[[timedelta], Awaitable[None]]
    reopen: Callable[[], Ledger] | None = None
    unsafe_max: int = UNSAFE_MAX
    target: SimulatedTarget = field(init=False)
    adapters: SimulatedAdapters = field(init=False)
    nudger: SilentNudger = field(default_factory=SilentNudger)
    meter: CountingMeter = field(default_factory=CountingMeter)
    tenant: Tenant = field(init=False)
    acts: dict[str, list[str]] = field(default_factory=dict)
    cipher: AesGcmCipher = field(
        default_factory=lambda: AesGcmCipher(Keyring.from_json(KEYRING))
    )

    def __post_init__(self) -> None:
        self.target = SimulatedTarget(self.clock)
        self.adapters = SimulatedAdapters(
            self.clock,
            target=self.target,
            script=lambda effect: self.acts.get(effect.request.operation_key, []),
        )

    @property
    def is_memory(self) -> bool:
        """Whether this world's ledger reads the clock that `let_pass` moves."""
        return isinstance(self.ledger, MemoryLedger)

    async def open(self, *contracts: EffectContract, slug: str = "acme") -> World:
        """Create the tenant and publish contracts."""
        self.tenant, _ = await self.registry.create_tenant(slug, "Acme", "h1")
        for contract in contracts:
            await self.registry.publish(contract)
        return self

    @property
    def catalog(self) -> Catalog:
        return Catalog(self.registry, self.clock, refresh_seconds=0)

    def dispatcher(
        self,
        *,
        ledger: Ledger | None = None,
        adapters: AdapterSource | None = None,
        recorder: Recorder | None = None,
        worker: str = "worker",
        heartbeats_a_lease: int = HEARTBEATS_A_LEASE,
    ) -> Dispatcher:
        """Return a dispatcher; two made alike are two workers with one configuration."""
        ledger, adapters = ledger or self.ledger, adapters or self.adapters
        return Dispatcher(
            new_id=uuid7,
            ledger=ledger,
            catalog=self.catalog,
            scopes=Scopes(self.catalog, adapters),
            attempting=Attempting(adapters, self.cipher, NoWatchdog()),
            settler=Settler(self.cipher, self.cipher, MARGIN, "dispatcher"),
            recorder=recorder or Recorder(ledger, sleep=_no_sleep),
            nudger=self.nudger,
            clock=self.clock,
            measuring=Measuring(self.meter),
            worker=worker,
            unsafe_max=self.unsafe_max,
            heartbeats_a_lease=heartbeats_a_lease,
        )

    def reconciler(
        self, *, ledger: Ledger | None = None, adapters: AdapterSource | None = None
    ) -> Reconciler:
        """Return a reconciler."""
        ledger, adapters = ledger or self.ledger, adapters or self.adapters
        return Reconciler(
            new_id=uuid7,
            ledger=ledger,
            catalog=self.catalog,
            scopes=Scopes(self.catalog, adapters),
            probing=Probing(adapters, self.cipher, self.clock),
            recorder=Recorder(ledger, sleep=_no_sleep),
            cipher=self.cipher,
            deriver=self.cipher,
            nudger=self.nudger,
            clock=self.clock,
            measuring=Measuring(self.meter),
            worker="reconciler",
            clock_margin=MARGIN,
        )

    @property
    def sweeper(self) -> Sweeper:
        return Sweeper(
            self.ledger,
            Recorder(self.ledger, sleep=_no_sleep),
            self.nudger,
            Measuring(self.meter),
            self.meter,
            MARGIN,
        )

    @property
    def broker(self) -> EffectBroker:
        return EffectBroker(
            submitter=Submitter(
                new_id=uuid7,
                ledger=self.ledger,
                catalog=self.catalog,
                tenants=Tenants(self.registry, self.clock, refresh_seconds=0),
                cipher=self.cipher,
                deriver=self.cipher,
                nudger=self.nudger,
                clock=self.clock,
                meter=self.meter,
            ),
            inspector=Inspector(
                self.ledger, self.catalog, self.cipher, clock_margin=MARGIN
            ),
            resolver=Resolver(
                ledger=self.ledger,
                catalog=self.catalog,
                cipher=self.cipher,
                deriver=self.cipher,
                nudger=self.nudger,
                measuring=Measuring(self.meter),
                clock_margin=MARGIN,
            ),
            catalog=self.catalog,
            clock=self.clock,
        )

    async def submit(
        self, key: str = "order:1:charge:v1", *acts: str, amount: int = 100
    ) -> Reservation:
        """Submit a charge whose requests are played by `acts`."""
        if acts:
            self.acts[key] = list(acts)
        request = EffectRequest(key, "sim.charge", {"amount": amount}, "test")
        return await self.broker.submit(self.tenant.tenant_id, request)

    async def status(self, effect_id: UUID) -> EffectStatus:
        view = await self.broker.get(self.tenant.tenant_id, effect_id)
        return view.snapshot.status

    async def events(self, effect_id: UUID) -> list[str]:
        events: Sequence[EffectEvent] = await self.broker.events(
            self.tenant.tenant_id, effect_id
        )
        return [str(event.type) for event in events]

    async def receipt(self, effect_id: UUID) -> Any:
        return await self.broker.replay_receipt(self.tenant.tenant_id, effect_id)

    async def fail_by_operator(self, effect_id: UUID) -> None:
        """Resolve an unknown effect as failed, on evidence from now."""
        await self.decide(effect_id, Decision.FAILED)

    async def decide(self, effect_id: UUID, decision: Decision) -> None:
        """Resolve an effect as an operator would who looked at the target just now."""
        snapshot = await self.ledger.get(self.tenant.tenant_id, effect_id)
        assert snapshot is not None
        finding = Finding(
            decision=decision,
            reason="looked into the target's books",
            evidence={},
            expected_version=snapshot.version,
            decision_id=f"{decision}-{snapshot.version}",
            actor="operator:ann",
            observed_at=snapshot.now,
        )
        await self.broker.resolve(self.tenant.tenant_id, effect_id, finding)

    async def unknown_since(self, effect_id: UUID) -> Any:
        snapshot = await self.ledger.get(self.tenant.tenant_id, effect_id)
        assert snapshot is not None
        return snapshot.work.unknown_since if snapshot.work else None

    async def let_pass(self, seconds: float) -> None:
        """Let time pass on the ledger's clock and on every host's.

        A process remembers how old the oldest due work was; after instants were moved
        only a fresh one knows nothing false.
        """
        self.clock.moved += seconds
        await self.pass_time(timedelta(seconds=seconds))
        if self.reopen is not None:
            self.ledger = self.reopen()

    async def settle(self, passes: int = 12, *, seconds: float = 5.0) -> None:
        """Run sweep, reconciler and dispatcher until nothing is due, time passing
        between.
        """
        for _ in range(passes):
            await self.sweeper.run_once()
            await self.reconciler().run_once()
            await self.dispatcher().run_once()
            await self.let_pass(seconds)


async def _no_sleep(_: float) -> None:
    """Waiting between tries is the caller's matter, not this test's."""


def postgres_time(url: str) -> Callable[[timedelta], Awaitable[None]]:
    """Return what moves every instant of live work into the past, as if time had
    passed.
    """
    moves = ", ".join(f"{name} = {name} - %(span)s" for name in INSTANTS)
    statement = f"UPDATE effect_broker.effect_work SET {moves}"

    async def pass_time(span: timedelta) -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as moving:
            await moving.execute(statement, {"span": span})

    return pass_time


def contract(safety: str = "idempotent", **changes: Any) -> EffectContract:
    """Return a contract of the simulated target with short times."""
    fields: dict[str, Any] = {
        "tool": "sim.charge",
        "name": "sim-charge",
        "version": "1",
        "safety": safety,
        "adapter": "simulated",
        "attempt_timeout": "10s",
        "lease": "30s",
        "backoff": {"initial": "1s", "factor": 1.0, "max": "1s", "jitter": 0.0},
        "arguments": {
            "type": "object",
            "properties": {"amount": {"type": "integer"}},
            "required": ["amount"],
        },
    }
    if safety != "transactional":
        fields["settlement_bound"] = "30s"
    if safety == "idempotent":
        fields |= {"key_retention": "24h", "key_records": "all_answers"}
    if safety == "reconcilable":
        fields["probe"] = {"consistency": "strong"}
    return EffectContract.model_validate(fields | changes)
