"""Turns result rows into values, and steps into the rows that functions take."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from effect_broker.domain.attempt import Attempt, AttemptEnding, EndingKind
from effect_broker.domain.canonical import canonical
from effect_broker.domain.errors import InvalidJson
from effect_broker.domain.event import EffectEvent
from effect_broker.domain.intent import Intent
from effect_broker.domain.outcome import Evidence
from effect_broker.domain.receipt import Receipt, ReceiptDraft, ReceiptKind, ReceiptSource
from effect_broker.domain.resolution import SendRefusal
from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.domain.work import WorkState
from effect_broker.ledger.composite import row, text_array
from effect_broker.ledger.connection import Row
from effect_broker.ports import Claim, Refused, Reserved, Resolution, Snapshot, Step

REASON_LENGTH_MAX: Final = 1000
"""Reasons come from targets too; what is cut is prose, never an identity."""

_MILLISECOND: Final = timedelta(milliseconds=1)


def milliseconds(duration: timedelta) -> int:
    """Return a duration as functions take it; a part of a millisecond counts whole."""
    return -(-duration // _MILLISECOND)


def intent(found: Row) -> Intent:
    """Read the intent columns that claims and views share."""
    return Intent(
        effect_id=found.effect_id,
        tenant_id=found.tenant_id,
        operation_key=found.operation_key,
        tool=found.tool,
        request_hash=found.request_hash,
        contract_id=found.contract_id,
        contract_name=found.contract_name,
        contract_version=found.contract_version,
        safety=found.safety,
        downstream_key=found.downstream_key,
        hmac_key_id=found.hmac_key_id,
        arguments_ciphertext=found.arguments_ciphertext,
        data_key_id=found.data_key_id,
        preview=found.preview,
        requested_by=found.requested_by,
        trace_id=found.trace_id,
        created_at=found.intent_created_at,
    )


def work(found: Row) -> WorkState:
    """Read the work columns that claims and views share."""
    return WorkState(
        effect_id=found.effect_id,
        tenant_id=found.tenant_id,
        status=EffectStatus(found.status),
        version=found.version,
        attempts=found.attempts,
        unproven=found.unproven,
        proven_through=found.proven_through,
        rejections=found.rejections,
        retries=found.retries,
        redispatches=found.redispatches,
        probes=found.probes,
        key_generation=found.key_generation,
        proof_committed=found.proof_committed,
        due_at=found.due_at,
        settlement_at=found.settlement_at,
        horizon_at=found.horizon_at,
        submit_until=found.submit_until,
        negative_at=found.negative_at,
        unknown_since=found.unknown_since,
        created_at=found.created_at,
    )


def claim(found: Row, token: UUID) -> Claim:
    """Read a claim; one without a token of its own is settled by its version alone."""
    attempt = None
    if found.attempt_id is not None:
        attempt = Attempt(
            effect_id=found.effect_id,
            ordinal=found.attempts,
            attempt_id=found.attempt_id,
            worker=found.worker,
            version=found.version,
            started_at=found.started_at,
            send_deadline=found.send_deadline,
            key_generation=found.key_generation,
            scope_digest=found.scope_digest,
        )
    return Claim(
        token=token,
        intent=intent(found),
        work=work(found),
        now=found.ledger_now,
        lease_until=found.due_at or found.ledger_now,
        attempt=attempt,
        downstream_key=found.current_key,
    )


def refused(found: Row, refusal: SendRefusal) -> Refused:
    """Read a due effect that may not be sent."""
    return Refused(intent(found), work(found), found.ledger_now, refusal)


def reserved(found: Row, *, created: bool) -> Reserved:
    """Read what stands under a key."""
    return Reserved(
        intent=intent(found),
        created=created,
        status=EffectStatus(found.shown_status),
        version=found.shown_version,
        updated_at=found.updated_at,
    )


def snapshot(found: Row) -> Snapshot:
    """Read an effect as its readers see it."""
    return Snapshot(
        intent=intent(found),
        status=EffectStatus(found.shown_status),
        version=found.shown_version,
        updated_at=found.updated_at,
        work=work(found) if found.live else None,
        reason=json.loads(found.last_metadata).get("reason", ""),
        now=found.ledger_now,
    )


def attempt(found: Row) -> Attempt:
    """Read an attempt with its ending."""
    ending = None
    if found.kind is not None:
        ending = AttemptEnding(
            kind=EndingKind(found.kind),
            reason=found.reason,
            final=found.final,
            from_key_record=found.from_key_record,
            bytes_may_have_left=found.bytes_may_have_left,
            external_id=found.external_id,
            result_ciphertext=found.result_ciphertext,
            data_key_id=found.data_key_id,
            evidence=None if found.evidence is None else json.loads(found.evidence),
            request_digest=found.request_digest,
            response_digest=found.response_digest,
        )
    return Attempt(
        effect_id=found.effect_id,
        ordinal=found.ordinal,
        attempt_id=found.attempt_id,
        worker=found.worker,
        version=found.version,
        started_at=found.started_at,
        send_deadline=found.send_deadline,
        key_generation=found.key_generation,
        scope_digest=found.scope_digest,
        ended_at=found.ended_at,
        late=found.late,
        ending=ending,
    )


def event(found: Row) -> EffectEvent:
    """Read one line of history."""
    return EffectEvent(
        effect_id=found.effect_id,
        sequence=found.sequence,
        type=EventType(found.type),
        old_status=None if found.old_status is None else EffectStatus(found.old_status),
        new_status=EffectStatus(found.new_status),
        actor=found.actor,
        at=found.at,
        metadata=json.loads(found.metadata),
        previous_digest=found.previous_digest,
        digest=found.digest,
    )


def receipt(found: Row) -> Receipt:
    """Read a terminal row."""
    return Receipt(
        receipt_id=found.receipt_id,
        effect_id=found.effect_id,
        tenant_id=found.tenant_id,
        draft=ReceiptDraft(
            kind=ReceiptKind(found.kind),
            source=ReceiptSource(found.source),
            reason=found.reason,
            external_id=found.external_id,
            result_ciphertext=found.result_ciphertext,
            data_key_id=found.data_key_id,
            evidence_digest=found.evidence_digest,
            target_time=found.target_time,
            flags=tuple(found.flags),
        ),
        contract_name=found.contract_name,
        contract_version=found.contract_version,
        downstream_key_digest=found.downstream_key_digest,
        digest=found.digest,
        created_at=found.created_at,
    )


def new_intent(wanted: Intent) -> str:
    """Write an intent as `effect_broker.new_intent`."""
    return row(
        wanted.effect_id,
        wanted.tenant_id,
        wanted.operation_key,
        wanted.request_hash,
        wanted.contract_id,
        wanted.downstream_key,
        wanted.hmac_key_id,
        wanted.data_key_id,
        wanted.requested_by,
        wanted.trace_id,
        wanted.preview,
        wanted.arguments_ciphertext,
    )


def finishing(step: Step, receipt_id: UUID) -> str:
    """Write a terminal step as `effect_broker.finishing`.

    Raises:
        ValueError: the transition carries no receipt.
    """
    draft = step.transition.receipt
    if draft is None:
        raise ValueError(f"A transition to {step.transition.new} needs a receipt.")
    return row(
        *_fence(step),
        receipt_id,
        draft.source,
        prose(draft.reason),
        draft.external_id,
        draft.data_key_id,
        text_array(draft.flags),
        draft.evidence_digest,
        draft.target_time,
        draft.result_ciphertext,
        _ending(step),
    )


def deferral(step: Step) -> str:
    """Write a step of an effect that stays live as `effect_broker.deferral`."""
    arrow = step.transition
    return row(
        *_fence(step),
        None if arrow.delay is None else milliseconds(arrow.delay),
        arrow.unproven,
        arrow.proven_through,
        arrow.rejections,
        arrow.retries,
        arrow.redispatches,
        arrow.probes,
        arrow.key_generation,
        arrow.unknown,
        arrow.negative,
        arrow.fresh_horizon,
        None if arrow.fresh_deadline is None else milliseconds(arrow.fresh_deadline),
        arrow.downstream_key,
        _ending(step),
    )


def decision(taken: Resolution) -> str:
    """Write an operator's decision as `effect_broker.decision`."""
    return row(
        taken.decision_id,
        taken.decision,
        taken.actor,
        taken.observed_at,
        taken.sealed,
        taken.data_key_id,
    )


def _fence(step: Step) -> tuple[Any, ...]:
    arrow = step.transition
    metadata = {**arrow.metadata, "reason": prose(arrow.reason)}
    return (
        step.effect_id,
        step.tenant_id,
        step.version,
        step.token,
        arrow.event,
        arrow.new,
        step.actor,
        canonical(metadata).decode(),
    )


def _ending(step: Step) -> str | None:
    ending, tried = step.transition.ending, step.attempt
    if ending is None or tried is None:
        return None
    return row(
        tried.ordinal,
        tried.attempt_id,
        ending.kind,
        ending.final,
        ending.from_key_record,
        ending.bytes_may_have_left,
        step.speaks_for_all,
        prose(ending.reason),
        ending.external_id,
        ending.data_key_id,
        _evidence(ending.evidence),
        ending.request_digest,
        ending.response_digest,
        ending.result_ciphertext,
    )


def _evidence(found: Evidence | None) -> str | None:
    """Write evidence; what is no JSON must not lose the outcome that it came with."""
    if found is None:
        return None
    try:
        return canonical(dict(found)).decode()
    except InvalidJson as error:
        return canonical({"unstorable_evidence": error.message}).decode()


def prose(text: str) -> str:
    """Return a reason as it is stored."""
    return text[:REASON_LENGTH_MAX]
