"""What every process of the broker stands on."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from effect_broker.broker.catalog import Catalog
from effect_broker.broker.facade import EffectBroker
from effect_broker.broker.inspecting import Inspector
from effect_broker.broker.measuring import Measuring
from effect_broker.broker.resolving import Resolver
from effect_broker.broker.submit import Submitter
from effect_broker.broker.tenants import Tenants
from effect_broker.cipher import AesGcmCipher, Keyring
from effect_broker.clock import SystemClock
from effect_broker.domain.contract import CLOCK_MARGIN
from effect_broker.domain.errors import (
    CipherError,
    KeysMissing,
    SchemaMismatch,
    SecretNotFound,
)
from effect_broker.ids import uuid7
from effect_broker.ledger.callbacks import PostgresCallbacks
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.key_use import DeclaredKeys, Fetch, KeyKind, PostgresKeyUse
from effect_broker.ledger.postgres import PostgresLedger
from effect_broker.ledger.registry import PostgresRegistry
from effect_broker.ports import Callbacks, Meter, Nudger
from effect_broker.settings import LOCAL, Settings, SettingsInvalid
from effect_broker.telemetry.unknown import UnknownGauges
from effect_broker.wiring.sources import conninfo, keyring_text

if TYPE_CHECKING:
    from effect_broker.failpoints import Failpoints

_log: Final = logging.getLogger(__name__)

LAMBDA_CONNECTIONS: Final = 1
"""One connection an environment: reserved concurrency then bounds the database's."""

PROCESS_CONNECTIONS: Final = 4
"""A plain process serves many requests at once; more only queue inside the database."""


@dataclass(frozen=True)
class Core:
    """The parts that a surface needs, each made when it is first asked for.

    A process that `seals` is let at the ledger only with every key that rows may stand
    under. One that migrates, mends or looks does without.
    """

    settings: Settings
    meter: Meter
    connections_max: int = LAMBDA_CONNECTIONS
    seals: bool = True

    @cached_property
    def clock(self) -> SystemClock:
        """The host's clocks."""
        return SystemClock()

    @cached_property
    def connections(self) -> Connections:
        """The connections to the writer, opened when first used."""
        return Connections(
            conninfo(self.settings),
            limit=self.connections_max,
            introduction=self._introduce if self.seals else None,
        )

    @cached_property
    def ledger(self) -> PostgresLedger:
        """The only authority."""
        if self.failpoints is None:
            return PostgresLedger(self.connections)
        from effect_broker.failpoints.ledger import FailpointLedger

        return FailpointLedger(self.connections, self.failpoints)

    @cached_property
    def failpoints(self) -> Failpoints | None:
        """Where a proof stops this process; None in production, and wherever else no
        orders are named.
        """
        if self.settings.failpoints is None:
            return None
        from effect_broker.failpoints import Failpoints

        return Failpoints.from_file(self.settings.failpoints)

    @cached_property
    def registry(self) -> PostgresRegistry:
        """Tenants, keys and contracts."""
        return PostgresRegistry(self.connections)

    @cached_property
    def catalog(self) -> Catalog:
        """The published contracts, kept briefly."""
        return Catalog(self.registry, self.clock)

    @cached_property
    def keyring(self) -> Keyring:
        """The keys of this process; read once.

        Raises:
            SettingsInvalid: no keyring is named.
            SecretNotFound: the named secret cannot be read.
            CipherError: what was read is no keyring.
        """
        return Keyring.from_json(keyring_text(self.settings))

    @cached_property
    def cipher(self) -> AesGcmCipher:
        """Seals what is stored and derives downstream keys."""
        return AesGcmCipher(self.keyring)

    @cached_property
    def nudger(self) -> Nudger:
        """Hints over SQS; silent where no queue is named."""
        from effect_broker.aws.nudges import SqsNudger

        return SqsNudger(
            dispatch_queue_url=self.settings.dispatch_queue_url,
            reconcile_queue_url=self.settings.reconcile_queue_url,
        )

    @cached_property
    def callback_store(self) -> PostgresCallbacks:
        """Tokens of callers that wait."""
        return PostgresCallbacks(self.connections)

    @cached_property
    def callbacks(self) -> Callbacks:
        """Tells callers that wait in Step Functions."""
        from effect_broker.aws.task_callbacks import StepFunctionsCallbacks

        return StepFunctionsCallbacks()

    @cached_property
    def measuring(self) -> Measuring:
        """Counts what dispatch and reconciliation did."""
        return Measuring(self.meter)

    @cached_property
    def broker(self) -> EffectBroker:
        """The use cases that surfaces call; no adapter is reachable from them."""
        return EffectBroker(
            submitter=Submitter(
                new_id=uuid7,
                ledger=self.ledger,
                catalog=self.catalog,
                tenants=Tenants(self.registry, self.clock),
                cipher=self.cipher,
                deriver=self.cipher,
                nudger=self.nudger,
                clock=self.clock,
                meter=self.meter,
            ),
            inspector=Inspector(
                self.ledger, self.catalog, self.cipher, clock_margin=CLOCK_MARGIN
            ),
            resolver=Resolver(
                ledger=self.ledger,
                catalog=self.catalog,
                cipher=self.cipher,
                deriver=self.cipher,
                nudger=self.nudger,
                measuring=self.measuring,
                clock_margin=CLOCK_MARGIN,
            ),
            catalog=self.catalog,
            clock=self.clock,
        )

    @cached_property
    def unknown_gauges(self) -> UnknownGauges:
        """Tells how much is unproved, and since when."""
        return UnknownGauges(self.meter)

    async def measure_unknown(self) -> None:
        """Set the gauges of what is unproved, over all tenants.

        Raises:
            LedgerUnavailable: nothing is known; the gauges stay as they were.
        """
        self.unknown_gauges.tell(await self.ledger.unknown_summary())

    async def check_keys(self) -> None:
        """Accept a keyring that has every key which rows may stand under.

        Raises:
            KeysMissing: keys are missing, or there is no keyring where one is needed.
            LedgerUnavailable: nothing is known.
        """
        self._judge(await PostgresKeyUse(self.connections.fetch).declared())

    async def _introduce(self, fetch: Fetch) -> bool:
        """Prove the keyring before the ledger is used, and name the key that will seal.

        A ledger that is not migrated is left to whoever asks for more.
        """
        use = PostgresKeyUse(fetch)
        try:
            declared = await use.declared()
        except SchemaMismatch:
            return False
        if declared.as_owner and self.settings.environment != LOCAL:
            _log.warning("the ledger is used by its owner, who could undo its history")
        self._judge(declared)
        active = self._readable_keyring().active_data_key
        if active not in declared.data:
            await use.declare(KeyKind.DATA, active)
        return True

    def _judge(self, declared: DeclaredKeys) -> None:
        if not declared.data and not declared.hmac:
            return
        lost = self._readable_keyring().missing(
            data_key_ids=declared.data, hmac_key_ids=declared.hmac
        )
        if lost:
            raise KeysMissing(
                f"The keyring lacks {', '.join(sorted(lost))}, under which the ledger has"
                " rows or tenants. Put them back: `effect-broker ledger reencrypt` says"
                " when a key may be dropped."
            )

    def _readable_keyring(self) -> Keyring:
        try:
            return self.keyring
        except (CipherError, OSError, SecretNotFound, SettingsInvalid) as error:
            said = getattr(error, "message", type(error).__name__)
            raise KeysMissing(f"The keyring cannot be read: {said}") from error

    async def check_ready(self) -> None:
        """Accept a ledger that can be reached and has this release's schema.

        Raises:
            LedgerUnavailable: it cannot be reached.
            SchemaMismatch: its schema is older or newer.
        """
        state = await self.ledger.schema_state()
        if state != "ok":
            raise SchemaMismatch(
                "The ledger's schema is older or newer than this release."
            )
