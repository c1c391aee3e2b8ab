"""The trials: real requests to a sandbox target, under throw-away keys of no tenant.

Nothing here touches a ledger: the adapter is called as a dispatcher calls it, with the
contract's own timeout, and the sandbox in place of the target.
"""

from __future__ import annotations

import asyncio
import hmac
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID, uuid4

from effect_broker.domain.contract import EffectContract, SafetyClass
from effect_broker.domain.errors import ContractInvalid
from effect_broker.domain.identity import downstream_key, request_hash
from effect_broker.domain.intent import EffectRecord, EffectRequest
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    Outcome,
    ProbeResult,
    ProbeStatus,
    Rejected,
)
from effect_broker.domain.status import EffectStatus
from effect_broker.ports import AdapterSource, Clock, Deadline, TargetAdapter
from effect_broker.verification.seen import AfterRefusal, Kept, Lookup, Repeat, Seen

LOOK_EVERY_SECONDS: Final = 0.25
"""Between looks for a fresh object."""

LOOK_BEYOND: Final = 2.0
"""How many settlement bounds a fresh object is looked for."""

LOOK_SECONDS_MIN: Final = 2.0

Tell = Callable[[str], None]
"""Says to a person what is being tried."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One key under which an object was made, for a later run to send again."""

    operation_key: str
    key: str
    external_id: str
    sent_at: float


def sandboxed(contract: EffectContract) -> EffectContract:
    """Return the contract with its sandbox in place of its target.

    Raises:
        ContractInvalid: no sandbox is named, or there is nothing to try from outside.
    """
    where = f"{contract.name} {contract.version}"
    if contract.sandbox is None:
        raise ContractInvalid(
            f"{where}: [contracts.sandbox] is missing: where to try, and with what."
        )
    if contract.safety is SafetyClass.TRANSACTIONAL or contract.http is None:
        raise ContractInvalid(
            f"{where}: only targets behind HTTP can be tried; a transactional contract"
            " is proved by the ledger's own transaction."
        )
    terms, http = contract.sandbox, contract.http
    changes: dict[str, Any] = {"headers": {**http.headers, **terms.headers}}
    for name in ("base_url", "account", "mode"):
        if (given := getattr(terms, name)) is not None:
            changes[name] = given
    return contract.model_copy(update={"http": http.model_copy(update=changes)})


@dataclass
class Trying:
    """Runs the trials of one sandboxed contract, one after another."""

    contract: EffectContract
    source: AdapterSource
    clock: Clock
    tell: Tell
    made: list[Memory] = field(default_factory=list)
    _secret: bytes = field(default_factory=lambda: os.urandom(32))
    _tenant: UUID = field(default_factory=uuid4)

    def mac(self, hmac_key_id: str, message: bytes) -> bytes:
        """Derive throw-away keys, in the format that the contract declares."""
        return hmac.digest(self._secret, message, "sha256")

    async def run(self, earlier: tuple[Memory, ...] = ()) -> Seen:
        """Try what can be tried; `earlier` are keys of a run before.

        Raises:
            ContractInvalid, SecretNotFound: the sandbox cannot be reached as described.
        """
        sandbox = self.contract.sandbox
        assert sandbox is not None
        kept = tuple([await self._kept(memory) for memory in earlier])
        first = self._effect()
        self.tell("a first request")
        outcome = await self._send(first)
        if not isinstance(outcome, Committed):
            raise ContractInvalid(
                f"{self.contract.name}: the sandbox did not carry out sandbox.arguments:"
                f" {_said(outcome)}."
            )
        lookup = await self._lookup(first, outcome)
        if self.contract.safety is SafetyClass.UNSAFE and not self._keyed:
            return Seen(lookup=lookup, kept=kept)
        self.tell("the same key again")
        repeat = _repeat(outcome, await self._send(first))
        self._remember(first, outcome)
        return Seen(
            repeat=repeat,
            at_once=await self._at_once(),
            drift=await self._drift(first, outcome),
            after_refusal=await self._after_refusal(),
            lookup=lookup,
            kept=kept,
        )

    @property
    def _keyed(self) -> bool:
        http = self.contract.http
        return http is not None and bool(http.key_header or http.key_body)

    async def _kept(self, memory: Memory) -> Kept:
        age = self.clock.wall() - memory.sent_at
        self.tell(f"a key that is {age:.0f} s old")
        effect = replace(self._effect(), downstream_key=memory.key)
        first = Committed(memory.external_id)
        return Kept(age, _repeat(first, await self._send(effect)))

    async def _at_once(self) -> Repeat:
        self.tell("the same key twice at once")
        effect = self._effect()
        one, other = await asyncio.gather(self._send(effect), self._send(effect))
        if not isinstance(one, Committed):
            one, other = other, one
        return _repeat(one, other)

    async def _drift(self, effect: EffectRecord, first: Committed) -> Repeat | None:
        sandbox = self.contract.sandbox
        if sandbox is None or sandbox.other_arguments is None:
            return None
        self.tell("the same key with other arguments")
        drifted = self._with(effect, sandbox.other_arguments)
        return _repeat(first, await self._send(drifted))

    async def _after_refusal(self) -> AfterRefusal | None:
        sandbox = self.contract.sandbox
        if sandbox is None or sandbox.rejected_arguments is None:
            return None
        self.tell("a refusal under a key")
        effect = self._effect()
        refused = await self._send(self._with(effect, sandbox.rejected_arguments))
        if not isinstance(refused, Rejected) or refused.not_executed:
            return AfterRefusal.NOT_REFUSED
        match await self._send(effect):
            case Committed():
                return AfterRefusal.KEY_WAS_FREE
            case Rejected(not_executed=False) | Ambiguous(contract_violated=True):
                return AfterRefusal.KEY_WAS_TAKEN
            case _:
                return AfterRefusal.UNCLEAR

    async def _lookup(self, effect: EffectRecord, made: Committed) -> Lookup | None:
        if self.contract.probe is None:
            return None
        self.tell("a lookup of a fresh object")
        begun, patience = self.clock.monotonic(), self._patience()
        while True:
            found = await self._probe(effect)
            passed = self.clock.monotonic() - begun
            if found.status is ProbeStatus.COMMITTED or passed > patience:
                break
            await asyncio.sleep(LOOK_EVERY_SECONDS)
        seen = found.status is ProbeStatus.COMMITTED
        stranger = await self._probe(self._effect())
        return Lookup(
            seconds=passed if seen else None,
            looked_for=passed,
            other_id=seen and found.external_id not in (None, made.external_id),
            stranger=stranger.status is ProbeStatus.COMMITTED,
        )

    def _patience(self) -> float:
        bound = self.contract.settlement_bound
        seconds = bound.total_seconds() if bound is not None else 0.0
        return max(LOOK_SECONDS_MIN, LOOK_BEYOND * seconds)

    def _remember(self, effect: EffectRecord, outcome: Committed) -> None:
        if outcome.external_id is None:
            return
        key = effect.request.operation_key
        now = self.clock.wall()
        memory = Memory(key, effect.downstream_key, outcome.external_id, now)
        self.made.append(memory)

    async def _send(self, effect: EffectRecord) -> Outcome:
        adapter = await self._adapter(sending=True)
        return await adapter.dispatch(effect, attempt_id=uuid4())

    async def _probe(self, effect: EffectRecord) -> ProbeResult:
        adapter = await self._adapter(sending=False)
        return await adapter.probe(effect)

    async def _adapter(self, *, sending: bool) -> TargetAdapter:
        scope = await self.source.scope_digest(self.contract)
        seconds = self.contract.attempt_timeout.total_seconds()
        deadline = Deadline(
            monotonic=self.clock.monotonic() + seconds,
            boottime=self.clock.boottime() + seconds,
            wall=self.clock.wall() + seconds,
        )
        return await self.source.adapter(
            self.contract, scope_digest=scope, deadline=deadline if sending else None
        )

    def _effect(self) -> EffectRecord:
        """Make a throw-away effect with a key of its own."""
        sandbox = self.contract.sandbox
        assert sandbox is not None
        operation_key = f"verify:{uuid4().hex}:try:v1"
        now = datetime.fromtimestamp(self.clock.wall(), UTC)
        effect = EffectRecord(
            effect_id=uuid4(),
            tenant_id=self._tenant,
            request=EffectRequest(operation_key, self.contract.tool, {}, "verify"),
            request_hash=b"",
            downstream_key=downstream_key(
                self, "throw-away", self._tenant, operation_key, self.contract
            ),
            contract=self.contract,
            status=EffectStatus.DISPATCHING,
            version=1,
            created_at=now,
            updated_at=now,
        )
        return self._with(effect, sandbox.arguments)

    def _with(self, effect: EffectRecord, arguments: Mapping[str, Any]) -> EffectRecord:
        contract = self.contract
        digest = request_hash(
            contract.tool,
            arguments,
            contract.name,
            contract.version,
            contract.non_intent_fields,
        )
        request = replace(effect.request, arguments=arguments)
        return replace(effect, request=request, request_hash=digest)


def _repeat(first: Outcome, second: Outcome) -> Repeat:
    """Say what a second request did, beside what the first had made."""
    match second:
        case Committed() if isinstance(first, Committed):
            if None in (first.external_id, second.external_id):
                return Repeat.UNCLEAR
            same = first.external_id == second.external_id
            return Repeat.SAME_OBJECT if same else Repeat.ANOTHER_OBJECT
        case Ambiguous(contract_violated=True):
            return Repeat.REFUSED_AS_CONFLICT
        case Ambiguous(in_progress=True):
            return Repeat.IN_PROGRESS
        case Rejected(not_executed=False):
            return Repeat.REFUSED
        case _:
            return Repeat.UNCLEAR


def _said(outcome: Outcome) -> str:
    reason = getattr(outcome, "reason", "")
    return f"{type(outcome).__name__.lower()} ({reason})"
