"""The world of the simulated adapter: objects, key records, and every request made."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from effect_broker.adapters.wire.body import UNPARSED
from effect_broker.domain.canonical import canonical
from effect_broker.domain.contract import KeyRecords, SafetyClass
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import Ambiguous, Committed, Outcome, Rejected
from effect_broker.ports import Clock


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


_SUCCESSES: Final = KeyRecords.SUCCESSES


@dataclass(frozen=True, slots=True)
class _Record:
    body_digest: bytes
    answer: Outcome


class SimulatedTarget:
    """The world of one process, for every simulated contract in it.

    A key is deduplicated where the contract is idempotent, and what is kept under it
    follows `key_records`; for a reconcilable contract it is a reference to look up by.
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
        unsafe = effect.contract.safety is SafetyClass.UNSAFE
        key = None if unsafe else effect.downstream_key
        digest = hashlib.sha256(canonical(dict(effect.request.arguments))).digest()
        self.requests.append(SimulatedRequest(effect.effect_id, attempt_id, key, digest))
        if act in _BEFORE_THE_RECORD:
            return _BEFORE_THE_RECORD[act](digest)
        record = self._records.get(_place(effect))
        if record is None:
            return _as_heard(act, self._act(effect, key, act, digest), digest)
        if record.body_digest != digest:
            return _key_conflict(digest)
        return _as_heard(act, record.answer, digest)

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

    def _act(
        self, effect: EffectRecord, key: str | None, act: Act, digest: bytes
    ) -> Outcome:
        contract = effect.contract
        keyed = contract.safety is SafetyClass.IDEMPOTENT
        all_kept = keyed and contract.key_records is KeyRecords.ALL_ANSWERS
        if act in {Act.REJECT, Act.REJECT_FINAL}:
            final = act is Act.REJECT_FINAL
            answer: Outcome = Rejected("declined", final=final, from_key_record=all_kept)
            kept = all_kept
        else:
            answer = self._commit(effect, key)
            hidden = act is Act.HIDE_COMMIT
            kept = keyed and not (hidden and contract.key_records is _SUCCESSES)
            if hidden and all_kept:
                answer = Ambiguous("server_error", evidence=_evidence(digest))
        if kept:
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
        return Committed(made.id, shown(made))


def _place(effect: EffectRecord) -> tuple[UUID, str, str]:
    return effect.tenant_id, effect.contract.name, effect.downstream_key


def shown(made: SimulatedObject) -> dict[str, Any]:
    """Return an object as the target answers with it."""
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
