"""A whole broker around the adapter under test, on a ledger in memory, its time moved."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from effect_broker.broker.attempting import Attempting
from effect_broker.broker.catalog import Catalog
from effect_broker.broker.dispatch import Dispatcher
from effect_broker.broker.measuring import Measuring
from effect_broker.broker.probing import Probing
from effect_broker.broker.reconcile import Reconciler
from effect_broker.broker.recording import Recorder
from effect_broker.broker.scopes import Scopes
from effect_broker.broker.settling import Settler
from effect_broker.broker.submit import Submitter
from effect_broker.broker.sweep import Sweeper
from effect_broker.broker.tenants import Tenants
from effect_broker.conformance.trial import HMAC_KEY, Trial
from effect_broker.domain.contract import CLOCK_MARGIN
from effect_broker.domain.intent import EffectRecord, EffectRequest
from effect_broker.domain.status import TERMINAL, EffectStatus
from effect_broker.ids import uuid7
from effect_broker.ledger.memory import MemoryLedger
from effect_broker.ledger.memory_registry import MemoryRegistry
from effect_broker.ports import Deadline, Snapshot, Tenant

PASSES_MAX: Final = 60
"""More passes than the longest recovery of a sensible contract takes."""

PATIENT_PASSES: Final = 40
"""After these the contract's review age passes at once: what only waits is then shown."""


@dataclass
class Rehearsal:
    """The broker's own processes, run by hand."""

    trial: Trial
    tenant: Tenant
    ledger: MemoryLedger
    submitter: Submitter
    dispatcher: Dispatcher
    reconciler: Reconciler
    sweeper: Sweeper

    async def submit(self) -> EffectRecord:
        """Reserve one effect with the target's arguments."""
        request = EffectRequest(
            operation_key="conformance:rehearsal:v1",
            tool=self.trial.contract.tool,
            arguments=dict(self.trial.target.arguments),
            requested_by="conformance",
        )
        reservation = await self.submitter.submit(self.tenant.tenant_id, request)
        return reservation.effect

    async def attempt(self) -> None:
        """Run one pass of the dispatcher."""
        await self.dispatcher.run_once()

    async def reconcile(self) -> None:
        """Run one pass of the reconciler."""
        await self.reconciler.run_once()

    async def snapshot(self, effect_id: UUID) -> Snapshot:
        """Read the effect as it stands."""
        found = await self.ledger.get(self.tenant.tenant_id, effect_id)
        assert found is not None
        return found

    def let_pass(self, span: timedelta) -> None:
        """Let time pass on the ledger's clock and on every clock of the host."""
        self.trial.clock.moved += max(0.0, span.total_seconds())

    async def settle(self, effect_id: UUID) -> EffectStatus:
        """Run sweep, reconciler and dispatcher until the effect waits for nobody but a
        person; time jumps to each next due instant.
        """
        for number in range(PASSES_MAX):
            await self.sweeper.run_once()
            await self.reconcile()
            await self.attempt()
            standing = await self.snapshot(effect_id)
            due = standing.work.due_at if standing.work is not None else None
            if standing.status in TERMINAL or due is None:
                return standing.status
            if number == PATIENT_PASSES:
                self.let_pass(self.trial.contract.unknown_review_after)
            self.let_pass(due - standing.now + timedelta(milliseconds=10))
        return (await self.snapshot(effect_id)).status


async def rehearsal(trial: Trial) -> Rehearsal:
    """Set a broker up around the trial's adapter."""
    clock = trial.clock
    registry = MemoryRegistry(clock.now)
    ledger = MemoryLedger(registry, clock.now)
    tenant, _ = await registry.create_tenant("conformance", "Conformance", HMAC_KEY)
    await registry.publish(trial.contract)
    catalog = Catalog(registry, clock, refresh_seconds=0)
    scopes = Scopes(catalog, trial.source)
    recorder = Recorder(ledger)
    meter, nudger = _NoMeter(), _NoNudger()
    measuring = Measuring(meter)
    return Rehearsal(
        trial=trial,
        tenant=tenant,
        ledger=ledger,
        submitter=Submitter(
            new_id=uuid7,
            ledger=ledger,
            catalog=catalog,
            tenants=Tenants(registry, clock, refresh_seconds=0),
            cipher=trial.cipher,
            deriver=trial.cipher,
            nudger=nudger,
            clock=clock,
            meter=meter,
        ),
        dispatcher=Dispatcher(
            new_id=uuid7,
            ledger=ledger,
            catalog=catalog,
            scopes=scopes,
            attempting=Attempting(trial.source, trial.cipher, _NoWatchdog()),
            settler=Settler(trial.cipher, trial.cipher, CLOCK_MARGIN, "dispatcher"),
            recorder=recorder,
            nudger=nudger,
            clock=clock,
            measuring=measuring,
            worker="conformance",
        ),
        reconciler=Reconciler(
            new_id=uuid7,
            ledger=ledger,
            catalog=catalog,
            scopes=scopes,
            probing=Probing(trial.source, trial.cipher, clock),
            recorder=recorder,
            cipher=trial.cipher,
            deriver=trial.cipher,
            nudger=nudger,
            clock=clock,
            measuring=measuring,
            worker="conformance",
            clock_margin=CLOCK_MARGIN,
        ),
        sweeper=Sweeper(ledger, recorder, nudger, measuring, meter, CLOCK_MARGIN),
    )


class _NoWatchdog:
    """Watches nothing: time is moved here, and the process must live on."""

    def guard(self, deadline: Deadline) -> AbstractContextManager[None]:
        return nullcontext()


class _NoNudger:
    """Loses every hint, which is harmless."""

    async def dispatch(
        self, effect_ids: Sequence[UUID], *, delay: timedelta = timedelta(0)
    ) -> None: ...

    async def reconcile(
        self, effect_ids: Sequence[UUID], *, delay: timedelta = timedelta(0)
    ) -> None: ...


class _NoMeter:
    """Counts nothing."""

    def count(self, name: str, value: float = 1, **labels: str) -> None: ...

    def observe(self, name: str, value: float, **labels: str) -> None: ...

    def gauge(self, name: str, value: float, **labels: str) -> None: ...
