"""Writing decided steps in the store without a database, late evidence included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from uuid import UUID

from effect_broker.domain.attempt import Attempt, AttemptEnding, EndingKind
from effect_broker.domain.contract import SafetyClass
from effect_broker.domain.errors import DecisionRefused, EffectNotFound, VersionConflict
from effect_broker.domain.receipt import Receipt, ReceiptKind
from effect_broker.domain.status import TERMINAL, EffectStatus, EventType
from effect_broker.domain.transition import Transition
from effect_broker.domain.work import WorkState
from effect_broker.ledger.chain import receipt_digest
from effect_broker.ledger.memory_effect import MemoryEffect
from effect_broker.ledger.memory_registry import MemoryRegistry
from effect_broker.ledger.rows import prose
from effect_broker.ports import Resolution, Step, StepResult, StepStatus

_S = EffectStatus
_E = EventType
_ABSENT = (EndingKind.REJECTED, EndingKind.NOT_EXECUTED, EndingKind.NOT_SENT)
_BARRED_BY_PROOF = (_S.PREPARED, _S.RETRYABLE, _S.DISPATCHING, _S.FAILED_FINAL)


class MemorySteps:
    """Compare-and-swap on version and token, as the functions in the database do it."""

    _registry: MemoryRegistry
    _now: Callable[[], datetime]
    _new_id: Callable[[], UUID]
    _effects: dict[UUID, MemoryEffect]

    async def record(self, steps: Sequence[Step]) -> Sequence[StepResult]:
        """Write decided transitions; a lost claim leaves its ending as late evidence."""
        if len({step.effect_id for step in steps}) < len(steps):
            raise ValueError("A batch holds one step of an effect.")
        return [self._record(step) for step in steps]

    async def resolve(self, step: Step, resolution: Resolution) -> StepResult:
        """Write an operator's decision once; its id stands in the event too."""
        effect = self._owned(step.tenant_id, step.effect_id)
        if effect is not None and resolution.decision_id in effect.resolutions:
            _, version = effect.resolutions[resolution.decision_id]
            return StepResult(step.effect_id, StepStatus.APPLIED, version)
        arrow = step.transition
        named = {**arrow.metadata, "decision_id": resolution.decision_id}
        decided = replace(step, transition=replace(arrow, metadata=named))
        result = self._record(decided)
        if effect is not None and result.status is StepStatus.APPLIED:
            effect.resolutions[resolution.decision_id] = (resolution, result.version)
        return result

    async def resolution(
        self, tenant_id: UUID, effect_id: UUID, decision_id: str
    ) -> tuple[Resolution, int] | None:
        """Return an operator's earlier decision and the version it made."""
        effect = self._owned(tenant_id, effect_id)
        return None if effect is None else effect.resolutions.get(decision_id)

    async def compensate(
        self,
        tenant_id: UUID,
        effect_id: UUID,
        compensated_by: UUID,
        *,
        actor: str,
        sealed_reason: bytes,
        data_key_id: str,
        expected_version: int | None = None,
    ) -> StepResult:
        """Link a succeeded effect to the succeeded effect that compensates it.

        Raises:
            VersionConflict: the effect is not at the version that was expected.
            EffectNotFound: the tenant has no such effect, or no such compensating one.
            DecisionRefused: either has not succeeded, or the link is not allowed.
        """
        target = self._owned(tenant_id, effect_id)
        by = self._owned(tenant_id, compensated_by)
        if target is None or by is None:
            missing = effect_id if target is None else compensated_by
            raise EffectNotFound(f"There is no effect {missing}.")
        if target is by:
            raise DecisionRefused("An effect cannot compensate itself.")
        if target.compensated_by != compensated_by:
            if expected_version not in (None, target.version):
                raise VersionConflict("The effect has moved on.", version=target.version)
            self._check_link(target, by)
            target.append(
                _E.COMPENSATION_LINKED,
                _S.COMPENSATED,
                actor=actor,
                at=target.clock(self._now()),
                metadata={"compensated_by": str(compensated_by)},
            )
            target.compensated_by = compensated_by
        return StepResult(effect_id, StepStatus.APPLIED, target.version)

    def _check_link(self, target: MemoryEffect, by: MemoryEffect) -> None:
        if target.status is not _S.SUCCEEDED:
            raise DecisionRefused(
                "Only an effect that has succeeded can be compensated, and once."
            )
        if by.status is not _S.SUCCEEDED:
            raise DecisionRefused("The compensating effect has not succeeded.")
        effect_id = by.intent.effect_id
        if any(other.compensated_by == effect_id for other in self._effects.values()):
            raise DecisionRefused(
                "The compensating effect compensates another effect already."
            )

    def _owned(self, tenant_id: UUID, effect_id: UUID) -> MemoryEffect | None:
        effect = self._effects.get(effect_id)
        owned = effect is not None and effect.intent.tenant_id == tenant_id
        return effect if owned else None

    def _record(self, step: Step) -> StepResult:
        effect = self._owned(step.tenant_id, step.effect_id)
        if effect is None:
            return StepResult(step.effect_id, StepStatus.FENCED, 0)
        if self._applied_before(effect, step):
            return StepResult(step.effect_id, StepStatus.APPLIED, step.version + 1)
        if effect.work is None or effect.token != step.token:
            return self._fenced(effect, step)
        if effect.version != step.version:
            return self._undone(effect, step, StepStatus.STALE)
        if effect.live.proof_committed and step.transition.new in _BARRED_BY_PROOF:
            return self._undone(effect, step, StepStatus.PROOF_STANDS)
        self._apply(effect, step)
        return StepResult(step.effect_id, StepStatus.APPLIED, effect.version)

    def _applied_before(self, effect: MemoryEffect, step: Step) -> bool:
        """Recognise the repeat of a step by the event that it made."""
        if effect.version <= step.version:
            return False
        made, arrow = effect.events[step.version], step.transition
        return (
            made.type is arrow.event
            and made.new_status is arrow.new
            and made.actor == step.actor
            and made.metadata == {**arrow.metadata, "reason": prose(arrow.reason)}
        )

    def _undone(self, effect: MemoryEffect, step: Step, status: StepStatus) -> StepResult:
        return StepResult(
            step.effect_id,
            status,
            effect.version,
            work=effect.live,
            now=effect.clock(self._now()),
        )

    def _apply(self, effect: MemoryEffect, step: Step) -> None:
        arrow, work, now = step.transition, effect.live, effect.clock(self._now())
        effect.append(
            arrow.event,
            arrow.new,
            actor=step.actor,
            at=now,
            metadata={**arrow.metadata, "reason": prose(arrow.reason)},
        )
        if step.attempt is not None and arrow.ending is not None:
            _end(effect, step.attempt.ordinal, arrow.ending, now, late=False)
        if arrow.new in TERMINAL:
            effect.receipt = self._receipt(effect, arrow, now)
            effect.work = effect.token = None
            return
        if arrow.key_generation > work.key_generation:
            assert arrow.downstream_key is not None
            effect.generations[arrow.key_generation] = arrow.downstream_key
        effect.token = None
        if arrow.event is _E.RESOLVED_NOT_COMMITTED:
            effect.scope_digest = None
        _defer(effect, arrow, work, now)

    def _receipt(self, effect: MemoryEffect, arrow: Transition, now: datetime) -> Receipt:
        if arrow.receipt is None:
            raise ValueError(f"A transition to {arrow.new} needs a receipt.")
        draft = replace(arrow.receipt, reason=prose(arrow.receipt.reason))
        unsigned = Receipt(
            receipt_id=self._new_id(),
            effect_id=effect.intent.effect_id,
            tenant_id=effect.intent.tenant_id,
            draft=draft,
            contract_name=effect.intent.contract_name,
            contract_version=effect.intent.contract_version,
            downstream_key_digest=sha256(effect.downstream_key.encode()).digest(),
            digest=b"",
            created_at=now,
        )
        digest = receipt_digest(unsigned, effect.intent.contract_id)
        return replace(unsigned, digest=digest)

    def _fenced(self, effect: MemoryEffect, step: Step) -> StepResult:
        """Keep a lost claim's ending as late evidence, and say what it changed."""
        fenced = StepResult(step.effect_id, StepStatus.FENCED, effect.version)
        ending = step.transition.ending
        attempt = None if step.attempt is None else _attempt(effect, step.attempt)
        if ending is None or attempt is None:
            return fenced
        if attempt.ending is not None:
            repeated = attempt.late and attempt.ending.kind is ending.kind
            return replace(fenced, late_recorded=repeated)
        now = max(self._now(), attempt.started_at)
        _end(effect, attempt.ordinal, ending, now, late=True)
        contradicted = effect.work is None and _contradicts(effect, ending)
        if effect.work is not None or contradicted:
            event = _E.CONTRADICTION_RECORDED if contradicted else _E.EVIDENCE_RECORDED
            effect.append(
                event,
                effect.status,
                actor=step.actor,
                at=effect.clock(self._now()),
                metadata={"kind": ending.kind.value, "ordinal": attempt.ordinal},
            )
        effect.contradicted = effect.contradicted or contradicted
        if effect.work is not None:
            self._take_evidence(effect, attempt, ending, step.speaks_for_all)
        return replace(
            fenced,
            version=effect.version,
            late_recorded=True,
            contradicted=contradicted,
        )

    def _take_evidence(
        self,
        effect: MemoryEffect,
        attempt: Attempt,
        ending: AttemptEnding,
        speaks_for_all: bool,
    ) -> None:
        """Write late evidence into a live effect.

        Proof of non-commit is counted once, for one attempt or for all under the key. The
        open attempt of a dispatching effect stays unproven: its own answer is to come.
        """
        work, now = effect.live, effect.updated_at
        open_attempts = 1 if work.status is _S.DISPATCHING else 0
        committed = ending.kind is EndingKind.COMMITTED
        absent = (
            ending.kind in _ABSENT
            and attempt.ordinal > work.proven_through
            and work.unproven > open_attempts
        )
        unproven, proven_through = work.unproven, work.proven_through
        if absent:
            same_key = attempt.key_generation == work.key_generation
            unproven = open_attempts if speaks_for_all and same_key else unproven - 1
            if unproven == open_attempts:
                proven_through = work.attempts - open_attempts
        proven = committed or work.proof_committed
        contract = self._registry.contract(effect.intent.contract_id)
        moves = proven or (
            work.status is _S.OUTCOME_UNKNOWN
            and (unproven == 0 or contract.safety is not SafetyClass.UNSAFE)
        )
        due_at = work.due_at
        if moves and effect.token is None:
            due_at = now if due_at is None else min(due_at, now)
        effect.move(
            unproven=unproven,
            proven_through=proven_through,
            proof_committed=proven,
            due_at=due_at,
        )


def _defer(
    effect: MemoryEffect, arrow: Transition, work: WorkState, now: datetime
) -> None:
    due_at = None if arrow.delay is None else now + arrow.delay
    if due_at is None and work.proof_committed:
        due_at = now
    unknown = arrow.unknown or arrow.new is _S.OUTCOME_UNKNOWN
    submit_until = work.submit_until
    if arrow.fresh_deadline is not None:
        submit_until = now + arrow.fresh_deadline
    effect.move(
        status=arrow.new,
        due_at=due_at,
        unproven=arrow.unproven,
        proven_through=arrow.proven_through,
        rejections=arrow.rejections,
        retries=arrow.retries,
        redispatches=arrow.redispatches,
        probes=arrow.probes,
        key_generation=arrow.key_generation,
        unknown_since=(work.unknown_since or now) if unknown else None,
        negative_at=(work.negative_at or now) if arrow.negative else None,
        horizon_at=None if arrow.fresh_horizon else work.horizon_at,
        submit_until=submit_until,
    )


def _end(
    effect: MemoryEffect,
    ordinal: int,
    ending: AttemptEnding,
    now: datetime,
    *,
    late: bool,
) -> None:
    attempt = effect.attempts[ordinal - 1]
    if attempt.ending is not None:
        raise ValueError(f"Attempt {ordinal} has ended already.")
    kept = replace(ending, reason=prose(ending.reason))
    effect.attempts[ordinal - 1] = replace(attempt, ending=kept, ended_at=now, late=late)


def _attempt(effect: MemoryEffect, wanted: Attempt) -> Attempt | None:
    for attempt in effect.attempts:
        if (attempt.ordinal, attempt.attempt_id) == (wanted.ordinal, wanted.attempt_id):
            return attempt
    return None


def _contradicts(effect: MemoryEffect, ending: AttemptEnding) -> bool:
    """Say whether late proof of commit speaks against the terminal row."""
    assert effect.receipt is not None
    if ending.kind is not EndingKind.COMMITTED:
        return False
    receipt = effect.receipt.draft
    if receipt.kind is ReceiptKind.FAILED_FINAL:
        return True
    named = receipt.external_id is not None and ending.external_id is not None
    return named and receipt.external_id != ending.external_id
