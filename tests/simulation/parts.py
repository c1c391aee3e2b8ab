"""What a simulated process is given in place of a host, a database and a network."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from effect_broker.adapters.wire.gate import NothingSent, SendGate, unsent
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.domain.identity import request_hash
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    NotSent,
    Outcome,
    ProbeResult,
    ProbeStatus,
    Rejected,
)
from effect_broker.ports import (
    Claim,
    Deadline,
    LocalMutation,
    Sealed,
    StepFor,
    TargetAdapter,
    Transacted,
)
from tests.simulation.contracts import BY_TOOL
from tests.simulation.target import Answer, Request

if TYPE_CHECKING:
    from tests.simulation.world import Process

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
WRITING: Final = frozenset(
    {"reserve", "reserve_leased", "claim", "claim_reconciliation", "record", "resolve"}
)


class PlainCipher:
    """Seals nothing: what is stored is not what a simulation is about."""

    def seal(
        self, plaintext: bytes, *, tenant_id: UUID, effect_id: UUID, column: str
    ) -> Sealed:
        return Sealed(plaintext, "k1")

    def open(
        self,
        ciphertext: bytes,
        *,
        key_id: str,
        tenant_id: UUID,
        effect_id: UUID,
        column: str,
    ) -> bytes:
        return ciphertext

    def mac(self, hmac_key_id: str, message: bytes) -> bytes:
        return request_hash("mac", {"m": message.decode()}, hmac_key_id, "1", ())


class NoMeter:
    def count(self, name: str, value: float = 1, **labels: str) -> None: ...

    def observe(self, name: str, value: float, **labels: str) -> None: ...

    def gauge(self, name: str, value: float, **labels: str) -> None: ...


class NoWatchdog:
    """The gate alone: a simulated process that overruns is frozen, not late."""

    def guard(self, deadline: Deadline) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass
class HostClock:
    """One host's clocks: each started at another time, the wall clock is off."""

    process: Process
    started: float
    wall_off: float

    def monotonic(self) -> float:
        return self.process.world.loop.now + self.started

    def boottime(self) -> float:
        return self.process.world.loop.now + self.started + 7.0

    def wall(self) -> float:
        now = self.process.world.loop.now
        return EPOCH.timestamp() + now + self.wall_off


class LossyLedger:
    """The ledger over a connection: calls take time, get lost, or lose their answers."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def __getattr__(self, name: str) -> Any:
        world = self._process.world
        inner = getattr(world.ledger, name)

        async def call(*args: Any, **named: Any) -> Any:
            dice = world.dice
            slow = dice.fault("slow ledger", 0.04)
            await asyncio.sleep(dice.between(0.2, 3) if slow else dice.between(0, 0.01))
            if dice.fault("ledger call lost", 0.02):
                world.tell(f"{self._process.name}: {name} is lost")
                raise LedgerUnavailable("lost before")
            found = await inner(*args, **named)
            if name in WRITING:
                world.check(self._process.name)
                if name == "record":
                    world.recorded(args[0], found)
                if dice.fault("ledger answer lost", 0.04):
                    world.tell(f"{self._process.name}: the answer to {name} is lost")
                    raise LedgerUnavailable("lost behind")
            if dice.chance(0.3):
                await asyncio.sleep(dice.between(0, 0.01))
            return found

        return call


class QueueNudger:
    """A queue that loses, doubles, delays and reorders."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def dispatch(
        self, effect_ids: Sequence[UUID], *, delay: timedelta = timedelta(0)
    ) -> None:
        self._put("dispatcher", effect_ids, delay)

    async def reconcile(
        self, effect_ids: Sequence[UUID], *, delay: timedelta = timedelta(0)
    ) -> None:
        self._put("reconciler", effect_ids, delay)

    def _put(self, kind: str, effect_ids: Sequence[UUID], delay: timedelta) -> None:
        world = self._process.world
        for effect_id in effect_ids:
            copies = 1
            if world.dice.fault("nudge lost", 0.2):
                copies = 0
            elif world.dice.fault("nudge doubled", 0.15):
                copies = 2
            for _ in range(copies):
                late = delay.total_seconds() + world.dice.between(0.01, 0.5)
                world.later(late, kind, effect_id)


class SimulatedSource:
    """Adapters of one process, for whatever account its credentials open now."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def scope_digest(self, contract: EffectContract) -> bytes:
        return digest(self._process.world.account(contract.tool))

    async def adapter(
        self, contract: EffectContract, *, scope_digest: bytes, deadline: Deadline | None
    ) -> TargetAdapter:
        world, dice = self._process.world, self._process.world.dice
        if contract.safety == "transactional":
            return _LocalAdapter(self._process, contract)
        if dice.fault("slow secrets", 0.08):
            await asyncio.sleep(dice.between(0.5, 3))
        if dice.fault("credentials change behind the claim", 0.01):
            world.switch_account(contract.tool)
        account = world.account(contract.tool)
        return SimulatedAdapter(self._process, contract, account, scope_digest, deadline)


def digest(account: str) -> bytes:
    """Return the scope digest of an account."""
    return account.encode().ljust(32, b"-")


class SimulatedAdapter:
    """Sends through the real gate to the simulated target."""

    def __init__(
        self,
        process: Process,
        contract: EffectContract,
        account: str,
        expected: bytes,
        deadline: Deadline | None,
    ) -> None:
        self._process = process
        self._contract = contract
        self._account = account
        self._expected = expected
        self._deadline = deadline

    @property
    def contract(self) -> EffectContract:
        return self._contract

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        world, dice = self._process.world, self._process.world.dice
        gate = SendGate(
            self._process.clock,
            self._deadline,
            scope=digest(self._account),
            expected_scope=self._expected,
        )
        if dice.fault("cannot connect", 0.06):
            return NotSent("connect_failed")
        stalls = dice.fault("stalls before the write", 0.1)
        longest = 4.2 if dice.chance(0.6) else 40.0
        await asyncio.sleep(dice.between(2, longest) if stalls else 0.01)
        try:
            gate.permit()
        except NothingSent as refused:
            world.tell(f"{self._process.name} does not send: {refused.reason}")
            return unsent(refused.reason)
        request = self._request(effect)
        world.sent(self._process.name, effect, attempt_id, request)
        answer = world.target.send(request)
        if dice.fault("adapter breaks behind its request", 0.04):
            raise ZeroDivisionError("behind the request")
        try:
            async with asyncio.timeout(gate.seconds_left()):
                told, row_id = await answer
        except TimeoutError:
            return Ambiguous("timed_out")
        return outcome(effect, told, row_id)

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        world, dice = self._process.world, self._process.world.dice
        slow = dice.fault("slow probe", 0.15)
        await asyncio.sleep(dice.between(0.5, 2) if slow else 0.01)
        if dice.fault("probe fails", 0.1):
            return ProbeResult(ProbeStatus.UNKNOWN)
        row = world.target.found(self._account, effect.downstream_key)
        if dice.fault("slow answer of a probe", 0.15):
            await asyncio.sleep(dice.between(0.5, 4))
        said = "absent" if row is None else row.row_id
        world.tell(f"{self._process.name} probes {effect.request.operation_key}: {said}")
        if row is None:
            return ProbeResult(ProbeStatus.NOT_COMMITTED)
        return ProbeResult(ProbeStatus.COMMITTED, row.row_id)

    def _request(self, effect: EffectRecord) -> Request:
        kind = BY_TOOL[effect.request.tool]
        unkeyed = self._contract.safety == "unsafe"
        return Request(
            operation_key=effect.request.operation_key,
            account=self._account,
            key=None if unkeyed else effect.downstream_key,
            payload=effect.request_hash.hex(),
            keeps=kind.keeps,
            retention=kind.retention,
        )


def outcome(effect: EffectRecord, told: Answer, row_id: str | None) -> Outcome:
    """Say what an answer proves, as a contract's table of meanings does."""
    recorded = effect.contract.safety == "idempotent"
    match told:
        case Answer.CREATED:
            return Committed(row_id)
        case Answer.DECLINED:
            return Rejected("declined", from_key_record=recorded)
        case Answer.DECLINED_FINAL:
            return Rejected("declined_final", final=True, from_key_record=recorded)
        case Answer.LIMITED:
            retry = timedelta(seconds=2)
            return Rejected("limited", not_executed=True, retry_after=retry)
        case Answer.IN_PROGRESS:
            return Ambiguous("in_progress", in_progress=True)
        case Answer.CONFLICT:
            return Ambiguous("key_conflict", contract_violated=True)
        case _:
            return Ambiguous("status_500")


class _LocalAdapter:
    """A target that is the ledger's own database."""

    def __init__(self, process: Process, contract: EffectContract) -> None:
        self._process = process
        self._contract = contract

    @property
    def contract(self) -> EffectContract:
        return self._contract

    def mutation(self, effect: EffectRecord) -> LocalMutation:
        return _LocalMutation(self._process, effect.request.operation_key)

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        raise AssertionError("a local mutation is never dispatched")

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        raise AssertionError("the ledger itself is the lookup")


@dataclass
class _LocalMutation:
    process: Process
    operation_key: str

    def seconds_left(self) -> float | None:
        return None

    async def apply(self, cursor: Any) -> Committed:
        row = self.process.world.target.commit_locally(self.operation_key)
        return Committed(row.row_id)

    def refused(self, error: BaseException) -> Outcome:
        return NotSent("rolled_back")


class AtomicTransactor:
    """One transaction of the simulated database: all of it at one instant, or nothing."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def transact(
        self, claim: Claim, mutation: LocalMutation, step_for: StepFor
    ) -> Transacted | Outcome:
        world, dice = self._process.world, self._process.world.dice
        slow = dice.fault("slow transaction", 0.1)
        await asyncio.sleep(dice.between(1, 20) if slow else 0.01)
        if dice.fault("transaction rolled back", 0.1):
            return NotSent("rolled_back")
        standing = await world.ledger.get(claim.intent.tenant_id, claim.intent.effect_id)
        held = world.holder_of(claim.intent.effect_id)
        if standing is None or standing.work is None or held != claim.token:
            return NotSent("claim_lost")
        done = await mutation.apply(None)
        step = step_for(done, standing.work, standing.now)
        (result,) = await world.ledger.record([step])
        world.check(self._process.name)
        if dice.fault("answer of a commit lost", 0.1):
            return Ambiguous("commit_unknown")
        return Transacted(done, step, result)
