"""One history: callers, workers, reconcilers, a sweep, an operator and a target, under a
seed that decides what happens to each of them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from effect_broker.broker.attempting import Attempting
from effect_broker.broker.catalog import Catalog
from effect_broker.broker.dispatch import Dispatcher
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
from effect_broker.domain.errors import (
    DecisionRefused,
    DispatchHeld,
    EffectBrokerError,
    LedgerUnavailable,
    PayloadDrift,
    VersionConflict,
)
from effect_broker.domain.intent import EffectRecord, EffectRequest
from effect_broker.domain.resolution import Decision
from effect_broker.domain.status import TERMINAL, EffectStatus
from effect_broker.ledger.memory import MemoryLedger
from effect_broker.ledger.memory_registry import MemoryRegistry
from effect_broker.ports import EffectQuery, Step, StepResult, Tenant
from tests.simulation import invariants
from tests.simulation.contracts import KINDS, Kind, next_version
from tests.simulation.dice import Dice
from tests.simulation.loop import SimulatedLoop
from tests.simulation.parts import (
    EPOCH,
    AtomicTransactor,
    HostClock,
    LossyLedger,
    NoMeter,
    NoWatchdog,
    PlainCipher,
    QueueNudger,
    SimulatedSource,
)
from tests.simulation.target import Request, Row, Target

MARGIN: Final = timedelta(seconds=1)
STORM_SECONDS: Final = 30.0
CALM_SECONDS_MAX: Final = 1200.0
ASKED: Final = (
    EffectQuery(unknown=True),
    EffectQuery(status=EffectStatus.MANUAL_REVIEW),
)
"""What an operator lists: what is unknown, and what waits for a decision."""

WORKERS: Final = ("dispatcher", "dispatcher", "reconciler", "reconciler")


class Broken(Exception):
    """A promise was broken; the message says which, by which effect."""


@dataclass(frozen=True)
class Effect:
    """One business intent of the history."""

    operation_key: str
    kind: Kind
    amount: int


@dataclass(frozen=True)
class Sent:
    """One request as it left a worker."""

    at: float
    attempt_id: UUID
    request: Request


@dataclass(eq=False)
class Process:
    """One worker process: its parts are new whenever it starts."""

    world: World
    kind: str
    name: str
    clock: HostClock = field(init=False)
    main: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        dice = self.world.dice
        self.clock = HostClock(self, dice.between(0, 9000), dice.between(-30, 30))

    def parts(self) -> dict[str, Any]:
        """Return what dispatcher and reconciler share."""
        world = self.world
        ledger = LossyLedger(self)
        catalog = Catalog(world.registry, self.clock, refresh_seconds=5)
        return {
            "new_id": world.new_id,
            "ledger": ledger,
            "catalog": catalog,
            "scopes": Scopes(catalog, SimulatedSource(self)),
            "recorder": Recorder(ledger),
            "nudger": QueueNudger(self),
            "clock": self.clock,
            "measuring": Measuring(NoMeter()),
            "worker": "worker",
        }

    def dispatcher(self) -> Dispatcher:
        """Return the process's dispatcher."""
        cipher = self.world.cipher
        return Dispatcher(
            attempting=Attempting(
                SimulatedSource(self), cipher, NoWatchdog(), AtomicTransactor(self)
            ),
            settler=Settler(cipher, cipher, MARGIN, "dispatcher"),
            **self.parts(),
        )

    def reconciler(self) -> Reconciler:
        """Return the process's reconciler."""
        cipher = self.world.cipher
        return Reconciler(
            probing=Probing(SimulatedSource(self), cipher, self.clock),
            cipher=cipher,
            deriver=cipher,
            clock_margin=MARGIN,
            **self.parts(),
        )

    def sweeper(self) -> Sweeper:
        """Return the process's sweep."""
        ledger: Any = LossyLedger(self)
        meter = NoMeter()
        return Sweeper(
            ledger, Recorder(ledger), QueueNudger(self), Measuring(meter), meter, MARGIN
        )

    def broker(self) -> EffectBroker:
        """Return the process's facade."""
        world, ledger = self.world, LossyLedger(self)
        any_ledger: Any = ledger
        catalog = Catalog(world.registry, self.clock, refresh_seconds=5)
        nudger, meter = QueueNudger(self), NoMeter()
        return EffectBroker(
            submitter=Submitter(
                ledger=any_ledger,
                catalog=catalog,
                tenants=Tenants(world.registry, self.clock),
                cipher=world.cipher,
                deriver=world.cipher,
                nudger=nudger,
                clock=self.clock,
                meter=meter,
                new_id=world.new_id,
            ),
            inspector=Inspector(any_ledger, catalog, world.cipher, clock_margin=MARGIN),
            resolver=Resolver(
                ledger=any_ledger,
                catalog=catalog,
                cipher=world.cipher,
                deriver=world.cipher,
                nudger=nudger,
                measuring=Measuring(meter),
                clock_margin=MARGIN,
            ),
            catalog=catalog,
            clock=self.clock,
        )


class World:
    """Everything of one history."""

    def __init__(
        self,
        seed: int,
        muted: frozenset[int] = frozenset(),
        kinds: Sequence[Kind] = KINDS,
    ) -> None:
        self._kinds = kinds
        self.dice = Dice(seed, muted)
        self.loop = SimulatedLoop(self.dice)
        self.story: list[str] = []
        self._wobble = 0.0
        self._stepped = 0.0
        self.registry = MemoryRegistry(self.ledger_now)
        self.ledger = MemoryLedger(self.registry, self.ledger_now, new_id=self.new_id)
        self.cipher = PlainCipher()
        self.target = Target(self.loop, self.dice, self.tell, self._committed)
        self.sends: dict[str, list[Sent]] = defaultdict(list)
        self.tenant: Tenant
        self.effects: list[Effect] = []
        self.ids: dict[str, UUID] = {}
        self._accounts: dict[str, str] = {}
        self._queues: dict[str, asyncio.Queue[UUID]] = {}
        self._waiting: dict[str, list[asyncio.Future[None]]] = defaultdict(list)
        self._checked: dict[str, tuple[int, bool]] = {}
        self._processes: list[Process | None] = [None] * len(WORKERS)
        self._started = 0
        self._storm = True

    def run(self) -> None:
        """Play the history to its end.

        Raises:
            Broken: a promise was broken.
        """
        try:
            self.loop.run_until_complete(self._play())
        finally:
            self.loop.bury()

    # What parts of the world tell and ask

    def tell(self, line: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{self.loop.now:7.2f}  {line}")

    def new_id(self) -> UUID:
        """Make an id that is ordered by time, as the real ones are."""
        milliseconds = int(EPOCH.timestamp() * 1000 + self.loop.now * 1000)
        return UUID(int=milliseconds << 80 | 7 << 76 | self.dice.bits(76))

    @property
    def clock_off(self) -> float:
        """By how many seconds the ledger's clock is off.

        A step back lies beyond what the broker can promise where the target forgets keys
        within seconds: who has just started did not see it. Those histories have none.
        """
        return self._wobble + self._stepped

    def ledger_now(self) -> datetime:
        """Return the ledger's clock."""
        return EPOCH + timedelta(seconds=self.loop.now + self.clock_off)

    def account(self, tool: str) -> str:
        """Return the account that credentials open now."""
        return self._accounts.get(tool, "main")

    def switch_account(self, tool: str) -> None:
        """Let the credentials of a tool open another account from now on."""
        self._accounts[tool] = "other"
        self.tell(f"{tool} now opens another account")

    def later(self, seconds: float, kind: str, effect_id: UUID) -> None:
        """Deliver a nudge."""
        self.loop.call_later(seconds, self._deliver, kind, effect_id)

    def _deliver(self, kind: str, effect_id: UUID) -> None:
        self._queues[kind].put_nowait(effect_id)
        waiting = self._waiting[kind]
        while waiting:
            if not (waiter := waiting.pop(0)).done():
                waiter.set_result(None)
                return

    def holder_of(self, effect_id: UUID) -> UUID | None:
        """Return the token under which an effect is held."""
        return self.ledger._effects[effect_id].token

    def sent(
        self, who: str, effect: EffectRecord, attempt_id: UUID, request: Request
    ) -> None:
        """Judge a request as it leaves."""
        name = request.operation_key
        self.tell(f"{who} sends {name} to {request.account}")
        self.sends[name].append(Sent(self.loop.now, attempt_id, request))
        self._judge(invariants.of_a_send(self, effect.effect_id, self.sends[name]))

    def recorded(self, steps: Sequence[Step], results: Sequence[StepResult]) -> None:
        """Judge a record that reached the ledger."""
        self._judge(invariants.of_a_record(self, steps, results))

    def check(self, who: str) -> None:
        """Judge the ledger after a write, and tell what changed."""
        for effect in self.effects:
            effect_id = self.ids.get(effect.operation_key)
            standing = self.ledger._keys.get(
                (self.tenant.tenant_id, effect.operation_key)
            )
            if standing is None:
                continue
            if effect_id is None:
                self.ids[effect.operation_key] = standing
            found = self.ledger._effects[standing]
            seen = (found.version, found.contradicted)
            if self._checked.get(effect.operation_key) == seen:
                continue
            self._checked[effect.operation_key] = seen
            self._judge(invariants.of_an_effect(self, effect, found))
            last = found.events[-1]
            name, status = effect.operation_key, last.new_status
            line = f"{name} {last.type} -> {status} (#{last.sequence})"
            if self._told.get(effect.operation_key) != line:
                self._told[effect.operation_key] = line
                self.tell(f"{who}: {line}")

    _told: dict[str, str]

    def _committed(self, row: Row) -> None:
        self._judge(invariants.of_a_row(self, row))

    def _judge(self, complaint: str | None) -> None:
        if complaint is not None and self._broken is None:
            self._broken = complaint
            self.tell(f"BROKEN: {complaint}")

    _broken: str | None = None

    # The history

    async def _play(self) -> None:
        self._told = {}
        self.tenant, _ = await self.registry.create_tenant("shop", "Shop", "h1")
        dice = self.dice
        for number in range(1 + dice.below(3)):
            kind = dice.one_of(self._kinds)
            self.effects.append(Effect(f"{kind.tool}:{number}", kind, 100 + number))
        for kind in {it.kind.tool: it.kind for it in self.effects}.values():
            await self.registry.publish(kind.contract)
        self._queues = {kind: asyncio.Queue() for kind in ("dispatcher", "reconciler")}
        for place in range(len(WORKERS)):
            self._start(place)
        tasks = [
            self.loop.spawn("world", self._call(effect, again))
            for effect in self.effects
            for again in range(1 + dice.below(3))
        ]
        tasks.append(self.loop.spawn("world", self._operate()))
        tasks.append(self.loop.spawn("world", self._disturb()))
        await asyncio.sleep(STORM_SECONDS)
        self._storm, dice.calm = False, True
        self.tell("-- calm")
        await self._settle()
        for task in tasks:
            task.cancel()
        self._judge(self.loop.defect())
        self._judge(await invariants.of_the_end(self))
        if self._broken is not None:
            raise Broken(self._broken)

    async def _settle(self) -> None:
        ends = self.loop.now + CALM_SECONDS_MAX
        while self.loop.now < ends and self._broken is None:
            for place in range(len(WORKERS)):
                process = self._processes[place]
                if process is None:
                    self._start(place)
                else:
                    self.loop.thaw(process.name)
            if all(self._is_settled(effect) for effect in self.effects):
                return
            self._judge(invariants.of_listing(self) or self.loop.defect())
            await asyncio.sleep(5.0)

    def _is_settled(self, effect: Effect) -> bool:
        effect_id = self.ids.get(effect.operation_key)
        if effect_id is None:
            return False
        return self.ledger._effects[effect_id].status in TERMINAL

    def _start(self, place: int) -> None:
        self._started += 1
        kind = WORKERS[place]
        process = Process(self, kind, f"{kind} {self._started}")
        self._processes[place] = process
        work = self._dispatching if kind == "dispatcher" else self._reconciling
        process.main = self.loop.spawn(process.name, work(process))

    async def _dispatching(self, process: Process) -> None:
        dispatcher = process.dispatcher()
        while True:
            ids = await self._woken("dispatcher")
            await self._one_pass(process, dispatcher, ids)

    async def _reconciling(self, process: Process) -> None:
        reconciler, sweeper = process.reconciler(), process.sweeper()
        while True:
            ids = await self._woken("reconciler")
            if ids is None:
                try:
                    await sweeper.run_once()
                    self.check(process.name)
                except LedgerUnavailable:
                    continue
            await self._one_pass(process, reconciler, ids)

    async def _one_pass(
        self, process: Process, worker: Any, ids: Sequence[UUID] | None
    ) -> None:
        try:
            await worker.run_once(effect_ids=ids, budget=timedelta(seconds=60))
        except LedgerUnavailable:
            await asyncio.sleep(0.5)
        except DispatchHeld as held:
            self.tell(f"{process.name} is held: {held}")
            await asyncio.sleep(5.0)

    async def _woken(self, kind: str) -> Sequence[UUID] | None:
        """Wait for a nudge, or for the time of a sweep."""
        queue = self._queues[kind]
        if queue.empty():
            self._waiting[kind].append(waiter := self.loop.create_future())
            longest = 6.0 if self._storm else 9.0
            wake = self.loop.call_later(self.dice.between(1, longest), _wake, waiter)
            await waiter
            wake.cancel()
        return [queue.get_nowait()] if not queue.empty() else None

    async def _call(self, effect: Effect, again: int) -> None:
        """Submit an effect as a caller does who repeats until told."""
        process = Process(self, "caller", f"caller of {effect.operation_key}")
        broker = process.broker()
        late = self.dice.between(0, 25) if again else self.dice.between(0, 5)
        await asyncio.sleep(late)
        arguments = {"amount": effect.amount}
        drifts = again > 0 and self.dice.fault("caller changes the amount", 0.2)
        if drifts:
            arguments = {"amount": effect.amount + 1}
        request = EffectRequest(effect.operation_key, effect.kind.tool, arguments)
        while True:
            try:
                made = await broker.submit(self.tenant.tenant_id, request)
            except LedgerUnavailable:
                await asyncio.sleep(self.dice.between(0.1, 2))
                continue
            except PayloadDrift as refused:
                self._judge(invariants.of_a_drift(self, effect, refused, drifts))
                return
            self._judge(invariants.of_an_answer(self, effect, made, drifts))
            return

    async def _operate(self) -> None:
        """Look at what is unknown, now and then too early, and decide by the target."""
        process = Process(self, "operator", "operator")
        broker = process.broker()
        while True:
            await asyncio.sleep(self.dice.between(4, 15))
            try:
                await self.ledger.release_dispatch("operator")
                for query in ASKED:
                    for view in await broker.page(self.tenant.tenant_id, query):
                        await self._decide(broker, view)
            except (LedgerUnavailable, VersionConflict):
                continue

    async def _decide(self, broker: EffectBroker, view: Any) -> None:
        snapshot, dice = view.snapshot, self.dice
        parked = snapshot.status is EffectStatus.MANUAL_REVIEW
        if not parked and snapshot.intent.safety != "unsafe" and dice.chance(0.9):
            return
        name = snapshot.intent.operation_key
        early = dice.fault("operator looked too early", 0.3)
        looked_at = snapshot.now - timedelta(seconds=dice.between(1, 20) if early else 0)
        since = looked_at - EPOCH - timedelta(seconds=self.clock_off)
        rows = [
            row
            for row in self.target.rows
            if row.operation_key == name and row.made_at <= since.total_seconds()
        ]
        decision = Decision.COMMITTED
        if not rows:
            decision = Decision.FAILED if dice.chance(0.4) else Decision.NOT_COMMITTED
        finding = Finding(
            decision=decision,
            reason="looked into the target's books",
            evidence={},
            expected_version=snapshot.version,
            decision_id=f"d{self.dice.bits(40)}",
            actor="operator",
            observed_at=looked_at,
            external_id=rows[0].row_id if rows else None,
        )
        try:
            await broker.resolve(
                self.tenant.tenant_id, snapshot.intent.effect_id, finding
            )
        except DecisionRefused:
            self.tell(f"operator's {decision} about {name} is refused")
            return
        except EffectBrokerError as error:
            self.tell(f"operator's {decision} about {name}: {type(error).__name__}")
            return
        self.check("operator")

    async def _disturb(self) -> None:
        """Kill, freeze, step clocks, switch accounts and deploy, as the dice say."""
        dice = self.dice
        while self._storm:
            await asyncio.sleep(dice.between(0.5, 4))
            place = dice.below(len(WORKERS))
            process = self._processes[place]
            if process is not None and dice.fault("killed", 0.2):
                self.tell(f"{process.name} is killed")
                self.loop.kill(process.name)
                self._processes[place] = None
                self.loop.call_later(dice.between(0.2, 10), self._start_again, place)
            elif process is not None and dice.fault("terminated", 0.1):
                self.tell(f"{process.name} is terminated")
                process.main.cancel()
                self._processes[place] = None
                self.loop.call_later(dice.between(0.2, 10), self._start_again, place)
            elif process is not None and dice.fault("frozen", 0.15):
                seconds = dice.between(1, 30)
                self.tell(f"{process.name} is frozen for {seconds:.0f} s")
                self.loop.freeze(process.name)
                self.loop.call_later(seconds, self.loop.thaw, process.name)
            if dice.fault("clock steps a little", 0.05):
                self._wobble = dice.between(-0.45, 0.45)
                self.tell(f"the ledger's clock is off by {self._wobble:+.2f} s")
            short = any(effect.kind.tool == "a.short" for effect in self.effects)
            if not short and dice.fault("clock steps back", 0.01):
                self._stepped -= dice.between(5, 60)
                self.tell(f"the ledger's clock steps back by {-self._stepped:.0f} s")
            self._judge(invariants.of_listing(self) or self.loop.defect())
            effect = dice.one_of(self.effects)
            if dice.fault("credentials open another account", 0.03):
                self.switch_account(effect.kind.tool)
            if dice.fault("a new version of a contract", 0.08):
                published, _ = await self.registry.publish(
                    next_version(effect.kind.contract)
                )
                self.tell(
                    f"{published.contract.name} {published.contract.version} is out"
                )

    def _start_again(self, place: int) -> None:
        if self._processes[place] is None:
            self._start(place)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def digest_of(story: Sequence[str]) -> str:
    """Return the digest by which two runs of a seed are compared."""
    return hashlib.sha256("\n".join(story).encode()).hexdigest()
