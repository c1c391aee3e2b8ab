"""The parts that reach targets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from uuid import uuid4

from effect_broker.adapters.source import Adapters, adapters
from effect_broker.broker.attempting import Attempting
from effect_broker.broker.dispatch import Dispatcher
from effect_broker.broker.in_process import InProcess
from effect_broker.broker.probing import Probing
from effect_broker.broker.reconcile import Reconciler
from effect_broker.broker.recording import Recorder
from effect_broker.broker.scopes import Scopes
from effect_broker.broker.settling import Settler
from effect_broker.broker.sweep import Sweeper
from effect_broker.broker.upkeep import Upkeep
from effect_broker.domain.contract import CLOCK_MARGIN
from effect_broker.ids import uuid7
from effect_broker.ledger.retention import PostgresRetention
from effect_broker.ledger.transacting import PostgresTransactor
from effect_broker.ports import SecretSource, Transactor
from effect_broker.secrets import CachedSecrets
from effect_broker.watchdog import ThreadWatchdog
from effect_broker.wiring.core import Core
from effect_broker.wiring.sources import secret_source


@dataclass(frozen=True)
class Workers:
    """The processes that reach targets: dispatcher, reconciler, sweep.

    A send that outlives its deadline ends the process (`end_process`): build this only
    where the process is the broker's own.
    """

    core: Core
    kind: str

    @cached_property
    def name(self) -> str:
        """A name for people who read attempts; no authority hangs on it."""
        return f"{self.kind}-{uuid4().hex[:12]}"

    @cached_property
    def adapters(self) -> Adapters:
        """Every kind of target that this process can speak to."""
        found = adapters(self._secrets, self.core.clock, watchdog=self._watchdog)
        if self.core.failpoints is None:
            return found
        from effect_broker.failpoints.adapters import FailpointAdapters

        return FailpointAdapters(found, self.core.failpoints)

    @cached_property
    def dispatcher(self) -> Dispatcher:
        """Runs due attempts."""
        core = self.core
        return Dispatcher(
            new_id=uuid7,
            ledger=core.ledger,
            catalog=core.catalog,
            scopes=self._scopes,
            attempting=Attempting(
                self.adapters,
                core.cipher,
                self._watchdog,
                self._transactor,
            ),
            settler=Settler(
                cipher=core.cipher,
                deriver=core.cipher,
                clock_margin=CLOCK_MARGIN,
                actor="dispatcher",
            ),
            recorder=self._recorder,
            nudger=core.nudger,
            clock=core.clock,
            measuring=core.measuring,
            worker=self.name,
        )

    @cached_property
    def in_process(self) -> InProcess:
        """Carries an effect out in the call that submits it."""
        submitter = self.core.broker.submitter
        return InProcess(submitter, self.dispatcher, self.core.nudger)

    @cached_property
    def reconciler(self) -> Reconciler:
        """Moves unknown effects on."""
        core = self.core
        return Reconciler(
            new_id=uuid7,
            ledger=core.ledger,
            catalog=core.catalog,
            scopes=self._scopes,
            probing=Probing(self.adapters, core.cipher, core.clock),
            recorder=self._recorder,
            cipher=core.cipher,
            deriver=core.cipher,
            nudger=core.nudger,
            clock=core.clock,
            measuring=core.measuring,
            worker=self.name,
            clock_margin=CLOCK_MARGIN,
        )

    @cached_property
    def sweeper(self) -> Sweeper:
        """Finds what no nudge found; reaches no target."""
        core = self.core
        return Sweeper(
            ledger=core.ledger,
            recorder=self._recorder,
            nudger=core.nudger,
            measuring=core.measuring,
            meter=core.meter,
            clock_margin=CLOCK_MARGIN,
        )

    async def sweep(self) -> None:
        """End lapsed leases and overdue work, measure what is unproved, and now and then
        keep the tables in order.

        Raises:
            LedgerUnavailable: the next sweep does it.
        """
        await self.sweeper.run_once()
        await self.core.measure_unknown()
        await self._upkeep.run_if_due()

    @cached_property
    def _transactor(self) -> Transactor:
        found = PostgresTransactor(self.core.connections)
        if self.core.failpoints is None:
            return found
        from effect_broker.failpoints.transacting import FailpointTransactor

        return FailpointTransactor(found, self.core.failpoints)

    @cached_property
    def _upkeep(self) -> Upkeep:
        return Upkeep(PostgresRetention(self.core.connections), self.core.clock)

    @cached_property
    def _recorder(self) -> Recorder:
        return Recorder(self.core.ledger)

    @cached_property
    def _scopes(self) -> Scopes:
        return Scopes(self.core.catalog, self.adapters)

    @cached_property
    def _watchdog(self) -> ThreadWatchdog:
        return ThreadWatchdog(self.core.clock)

    @cached_property
    def _secrets(self) -> SecretSource:
        return CachedSecrets(secret_source(self.core.settings), self.core.clock)
