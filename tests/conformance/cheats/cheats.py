"""Adapters that break one promise each, as adapters in the field do."""

from __future__ import annotations

import asyncio
import json
import time
from uuid import UUID, uuid4

from effect_broker.adapters.custom import AdapterContext
from effect_broker.adapters.wire.gate import SendGate
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    Outcome,
    ProbeResult,
    ProbeStatus,
    Rejected,
)
from effect_broker.ports import Clock, Deadline, SecretSource, TargetAdapter
from tests.conformance.cheats.honest import Answer, HonestAdapter


class HiddenRetry(HonestAdapter):
    """Sends once more when the connection breaks, as many clients do by default."""

    async def send(self, effect: EffectRecord, attempt_id: UUID) -> Answer:
        try:
            return await super().send(effect, attempt_id)
        except (ConnectionError, asyncio.IncompleteReadError):
            return await super().send(effect, attempt_id)


class ChangedKey(HonestAdapter):
    """Makes a key for each attempt, as generated clients do."""

    def key(self, effect: EffectRecord) -> str:
        return str(uuid4())


class CutKey(HonestAdapter):
    """Cuts the key to what it believes to be the target's limit."""

    def key(self, effect: EffectRecord) -> str:
        return effect.downstream_key[:30]


class ChangedBody(HonestAdapter):
    """Says when it was sent."""

    def body(self, effect: EffectRecord, attempt_id: UUID) -> bytes:
        return json.dumps(
            {**effect.request.arguments, "sent": time.monotonic_ns()}
        ).encode()


class OtherDigest(HonestAdapter):
    """Reports a digest of something else than it sent."""

    def told(self, answer: Answer) -> Outcome:
        return Committed(None, evidence={"request_digest": "0" * 64})


class FailureForLostAnswer(HonestAdapter):
    """Takes a broken connection for a refusal."""

    def unanswered(self) -> Outcome:
        return Rejected("connection_lost", final=True)


class FailureForTimeout(HonestAdapter):
    """Takes silence for a refusal."""

    async def send(self, effect: EffectRecord, attempt_id: UUID) -> Answer:
        try:
            return await super().send(effect, attempt_id)
        except asyncio.CancelledError:
            return Answer(400, b"{}")

    def told(self, answer: Answer) -> Outcome:
        if answer.status == 400:
            return Rejected("timed_out")
        return super().told(answer)


class SuccessWithoutAnswer(HonestAdapter):
    """Hopes that what was sent has arrived."""

    def unanswered(self) -> Outcome:
        return Committed(None, {"accepted": True})


class SuccessWithoutAsking(HonestAdapter):
    """Answers out of its own head, and sends nothing."""

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        return Committed("ch_1", {"id": "ch_1"})


class FailureForCutBody(HonestAdapter):
    """Loses the status with the body."""

    def broken_off(self, answer: Answer) -> Outcome:
        return Rejected("unreadable")


class UnflaggedCutBody(HonestAdapter):
    """Keeps the status, and does not say that the body is missing."""

    def broken_off(self, answer: Answer) -> Outcome:
        return Committed(None)


class FailureForServerError(HonestAdapter):
    """Takes a server error for proof that nothing happened."""

    def told(self, answer: Answer) -> Outcome:
        if answer.status >= 500:
            return Rejected(f"status_{answer.status}", final=True)
        return super().told(answer)


class FailureForBusyTarget(HonestAdapter):
    """Takes every 4xx for a refusal."""

    def told(self, answer: Answer) -> Outcome:
        if 400 <= answer.status < 500:
            return Rejected(f"status_{answer.status}", final=True)
        return super().told(answer)


class NeverSure(HonestAdapter):
    """Takes no answer for a success."""

    def told(self, answer: Answer) -> Outcome:
        return Ambiguous(f"status_{answer.status}")


class BlindLookup(HonestAdapter):
    """Never finds anything."""

    def looked_up(self, found: list[dict[str, str]]) -> ProbeResult:
        return ProbeResult(ProbeStatus.NOT_COMMITTED)


class HopefulLookup(HonestAdapter):
    """Finds what is not there."""

    def looked_up(self, found: list[dict[str, str]]) -> ProbeResult:
        return ProbeResult(ProbeStatus.COMMITTED)


class FailedLookupTellsAbsent(HonestAdapter):
    """Takes a lookup without an answer for an answer of nothing."""

    def lookup_failed(self) -> ProbeResult:
        return ProbeResult(ProbeStatus.NOT_COMMITTED)


class LookupThatMutates(HonestAdapter):
    """Asks by sending again: the target will know the key."""

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        outcome = await self.dispatch(effect, attempt_id=uuid4())
        if isinstance(outcome, Committed):
            return ProbeResult(ProbeStatus.COMMITTED, outcome.external_id)
        return ProbeResult(ProbeStatus.UNKNOWN)


class UngatedSource:
    """A source of one's own that binds its adapters to no scope and no deadline."""

    def __init__(self, secrets: SecretSource, clock: Clock) -> None:
        self._secrets = secrets
        self._clock = clock

    async def scope_digest(self, contract: EffectContract) -> bytes:
        return b"s" * 32

    async def adapter(
        self,
        contract: EffectContract,
        *,
        scope_digest: bytes,
        deadline: Deadline | None,
    ) -> TargetAdapter:
        gate = SendGate(self._clock, None, scope=b"", expected_scope=b"")
        context = AdapterContext(self._secrets, self._clock, None, gate)
        return HonestAdapter(contract, context)
