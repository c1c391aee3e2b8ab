"""A target in memory that does as it is told: for `dev`, for demonstrations, for tests.

What each request of an effect does is scripted: by the contract's `simulated.script`, by
a `simulate` argument (one act or a list), or by the test; after the script every request
commits. Keys, replays and drift follow the contract, so that what it claims is so.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from effect_broker.adapters.http_target import digest_of
from effect_broker.adapters.wire.body import UNPARSED
from effect_broker.adapters.wire.gate import SendForbidden, SendGate, unsent
from effect_broker.domain.canonical import canonical
from effect_broker.domain.contract import EffectContract, KeyRecords, SafetyClass
from effect_broker.domain.errors import ContractInvalid
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
from effect_broker.ports import Clock, Deadline, TargetAdapter


class Act(StrEnum):
    """What the target does with one request."""

    COMMIT = "commit"
    LOSE_REQUEST = "lose_request"  # it never arrives, and nobody learns that
    LOSE_ANSWER = "lose_answer"  # it commits, and nobody learns that
    HIDE_COMMIT = "hide_commit"  # it commits and answers with a server error
    CUT_ANSWER = "cut_answer"  # it commits, and the answer breaks off
    REJECT = "reject"
    REJECT_FINAL = "reject_final"
    NOT_EXECUTED = "not_executed"
    NOT_SENT = "not_sent"
    IN_PROGRESS = "in_progress"
    KEY_CONFLICT = "key_conflict"


@dataclass(frozen=True, slots=True)
class SimulatedRequest:
    """One request as the target saw it; `key` is None where the contract sends none."""

    effect_id: UUID
    attempt_id: UUID
    key: str | None
    body_digest: bytes


@dataclass(frozen=True, slots=True)
class SimulatedObject:
    """What a commit made, and since when a lookup can see it."""

    id: str
    contract: str
    key: str | None
    received: Any
    visible_at: float


@dataclass(frozen=True, slots=True)
class _Record:
    body_digest: bytes
    answer: Outcome


class SimulatedTarget:
    """The world of one process: objects, key records and every request, in order.

    `lag_seconds` is how long a lookup misses a fresh object; `account` makes the scope.
    """

    def __init__(self, clock: Clock, *, lag_seconds: float = 0.0) -> None:
        self._clock = clock
        self.lag_seconds = lag_seconds
        self.account = "simulated"
        self.requests: list[SimulatedRequest] = []
        self.objects: list[SimulatedObject] = []
        self._records: dict[tuple[UUID, str, str], _Record] = {}

    def receive(self, effect: EffectRecord, attempt_id: UUID, act: Act) -> Outcome:
        """Take one request, and return what its sender learns."""
        contract = effect.contract
        key = None if contract.safety is SafetyClass.UNSAFE else effect.downstream_key
        digest = hashlib.sha256(canonical(dict(effect.request.arguments))).digest()
        self.requests.append(SimulatedRequest(effect.effect_id, attempt_id, key, digest))
        if act in _BEFORE_THE_RECORD:
            return _BEFORE_THE_RECORD[act](digest)
        record = self._records.get(_place(effect)) if key is not None else None
        if record is not None and record.body_digest != digest:
            return _key_conflict(digest)
        answer = record.answer if record is not None else self._act(effect, key, act)
        return _as_heard(act, answer, digest)

    def look_up(self, effect: EffectRecord) -> SimulatedObject | None:
        """Find an object by its key, if a lookup can see it yet."""
        return next(
            (
                found
                for found in self.objects
                if found.key == effect.downstream_key
                and found.contract == effect.contract.name
                and found.visible_at <= self._clock.wall()
            ),
            None,
        )

    def _act(self, effect: EffectRecord, key: str | None, act: Act) -> Outcome:
        records = effect.contract.key_records
        if act in {Act.REJECT, Act.REJECT_FINAL}:
            kept = key is not None and records is KeyRecords.ALL_ANSWERS
            answer: Outcome = Rejected(
                "declined", final=act is Act.REJECT_FINAL, from_key_record=kept
            )
        else:
            answer = self._commit(effect, key)
            kept = act is not Act.HIDE_COMMIT or records is not KeyRecords.SUCCESSES
        if kept and key is not None:
            digest = hashlib.sha256(canonical(dict(effect.request.arguments))).digest()
            self._records[_place(effect)] = _Record(digest, answer)
        return answer

    def _commit(self, effect: EffectRecord, key: str | None) -> Committed:
        made = SimulatedObject(
            id=f"sim_{len(self.objects) + 1}",
            contract=effect.contract.name,
            key=key,
            received=dict(effect.request.arguments),
            visible_at=self._clock.wall() + self.lag_seconds,
        )
        self.objects.append(made)
        return Committed(made.id, _shown(made))


class SimulatedAdapters:
    """Builds adapters onto one target; `script` overrides what contracts say."""

    def __init__(
        self,
        clock: Clock,
        *,
        target: SimulatedTarget | None = None,
        script: Callable[[EffectRecord], Sequence[str]] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self.target = target or SimulatedTarget(clock)
        self._script = script
        self._sleep = sleep
        self._seen: Counter[UUID] = Counter()

    async def scope_digest(self, contract: EffectContract) -> bytes:
        """Digest the target's account."""
        return digest_of("simulated", contract.name, self.target.account)

    async def adapter(
        self,
        contract: EffectContract,
        *,
        scope_digest: bytes,
        deadline: Deadline | None,
    ) -> TargetAdapter:
        """Make an adapter for one attempt or probe.

        Raises:
            ContractInvalid: the contract's script holds no act.
        """
        if contract.simulated is not None:
            _acts(contract, contract.simulated.script)
        gate = SendGate(
            self._clock,
            deadline,
            scope=await self.scope_digest(contract),
            expected_scope=scope_digest,
        )
        return _SimulatedAdapter(contract, self, gate)

    async def send(
        self, effect: EffectRecord, attempt_id: UUID, gate: SendGate
    ) -> Outcome:
        """Play one request, latency included."""
        terms = effect.contract.simulated
        turn = self._seen[effect.effect_id]
        self._seen[effect.effect_id] += 1
        acts = _acts(effect.contract, self._scripted(effect))
        act = acts[turn] if turn < len(acts) else Act.COMMIT
        if act is Act.NOT_SENT:
            return NotSent("scripted")
        try:
            gate.permit()
        except SendForbidden as refused:
            return unsent(refused.reason)
        if terms is not None and terms.latency:
            await self._sleep(terms.latency.total_seconds())
        return self.target.receive(effect, attempt_id, act)

    def _scripted(self, effect: EffectRecord) -> Sequence[str]:
        if self._script is not None:
            return self._script(effect)
        asked = effect.request.arguments.get("simulate")
        if isinstance(asked, str):
            return (asked,)
        if isinstance(asked, list | tuple):
            return [str(act) for act in asked]
        terms = effect.contract.simulated
        return terms.script if terms is not None else ()


class _SimulatedAdapter:
    def __init__(
        self, contract: EffectContract, adapters: SimulatedAdapters, gate: SendGate
    ) -> None:
        self._contract = contract
        self._adapters = adapters
        self._gate = gate

    @property
    def contract(self) -> EffectContract:
        return self._contract

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        return await self._adapters.send(effect, attempt_id, self._gate)

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        reason = self._gate.refusal()
        if self._contract.probe is None or reason is not None:
            return ProbeResult(
                ProbeStatus.UNKNOWN, evidence={"failure": reason or "no_lookup"}
            )
        found = self._adapters.target.look_up(effect)
        if found is None:
            return ProbeResult(ProbeStatus.NOT_COMMITTED)
        return ProbeResult(ProbeStatus.COMMITTED, found.id, _shown(found))


def _acts(contract: EffectContract, script: Sequence[str]) -> Sequence[Act]:
    try:
        return [Act(name) for name in script]
    except ValueError:
        raise ContractInvalid(
            f"{contract.name} {contract.version}: a simulated act is one of"
            f" {', '.join(Act)}."
        ) from None


def _place(effect: EffectRecord) -> tuple[UUID, str, str]:
    return effect.tenant_id, effect.contract.name, effect.downstream_key


def _shown(made: SimulatedObject) -> dict[str, Any]:
    return {"id": made.id, "received": made.received}


def _evidence(digest: bytes) -> dict[str, Any]:
    return {"bytes_may_have_left": True, "request_digest": digest.hex()}


def _key_conflict(digest: bytes) -> Outcome:
    return Ambiguous("key_conflict", evidence=_evidence(digest), contract_violated=True)


_BEFORE_THE_RECORD: dict[Act, Callable[[bytes], Outcome]] = {
    Act.LOSE_REQUEST: lambda digest: Ambiguous("lost", evidence=_evidence(digest)),
    Act.NOT_EXECUTED: lambda digest: Rejected(
        "not_executed", not_executed=True, evidence=_evidence(digest)
    ),
    Act.IN_PROGRESS: lambda digest: Ambiguous(
        "in_progress", evidence=_evidence(digest), in_progress=True
    ),
    Act.KEY_CONFLICT: _key_conflict,
}


def _as_heard(act: Act, answer: Outcome, digest: bytes) -> Outcome:
    """Return what of the target's answer reaches the sender."""
    evidence = _evidence(digest)
    if act is Act.LOSE_ANSWER:
        return Ambiguous("lost", evidence=evidence)
    if act is Act.HIDE_COMMIT:
        return Ambiguous("server_error", evidence=evidence)
    match answer:
        case Committed() if act is Act.CUT_ANSWER:
            return Committed(None, raw=b'{"id"', flags=(UNPARSED,), evidence=evidence)
        case Committed():
            return Committed(answer.external_id, answer.output, evidence=evidence)
        case Rejected():
            return Rejected(
                answer.reason,
                final=answer.final,
                from_key_record=answer.from_key_record,
                evidence=evidence,
            )
        case _:
            return answer
