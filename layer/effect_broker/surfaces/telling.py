"""What every surface says about an effect: one set of words, one way to fill the shapes.

A running or unknown effect is an answer like any other, told in words that claim neither
success nor its opposite (design rule 4).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from effect_broker.broker.forking import SimulatedFork
from effect_broker.broker.inspecting import EffectView, next_actions
from effect_broker.domain.attempt import Attempt
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.event import EffectEvent
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.replay import Difference, Folded
from effect_broker.domain.status import TERMINAL, EffectStatus
from effect_broker.ports import PublishedContract
from effect_broker.surfaces.answers import (
    AttemptAnswer,
    ContractAnswer,
    Deadlines,
    EffectAnswer,
    EffectDetail,
    EventAnswer,
    ForkAnswer,
    HistoryAnswer,
    Links,
    NextAction,
    ReceiptAnswer,
    ResolvedAnswer,
    StateAnswer,
    SubmitAnswer,
    ToolAnswer,
)

_S = EffectStatus

_OUTCOMES: Final[Mapping[EffectStatus, str]] = {
    _S.PREPARED: "Recorded and not sent yet; the broker will send it.",
    _S.DISPATCHING: "An attempt is under way; its outcome is not known yet.",
    _S.RETRYABLE: "Proven not done so far; the broker will send it again by itself.",
    _S.OUTCOME_UNKNOWN: (
        "The target may have acted and its answer is missing. Ask about this effect"
        " again; do not submit it under a new key."
    ),
    _S.RECONCILING: (
        "The target may have acted and is being asked. Ask about this effect again; do"
        " not submit it under a new key."
    ),
    _S.SUCCEEDED: "Done; the receipt proves it.",
    _S.FAILED_FINAL: "Not done, and it will not be tried again; the receipt says why.",
    _S.MANUAL_REVIEW: "The broker may not go on by itself; a person decides.",
    _S.COMPENSATED: "Done, and undone later by another effect; the receipt stays.",
}

_OUTCOMES_UNPROVED: Final[Mapping[EffectStatus, str]] = {
    _S.PREPARED: (
        "An earlier attempt may have acted; the broker sends again under the same key, so"
        " that the target takes both for one."
    ),
    _S.DISPATCHING: (
        "An attempt is under way, and an earlier one may have acted; the outcome is not"
        " known yet."
    ),
    _S.RETRYABLE: (
        "An earlier attempt may have acted; the broker goes on under the same key."
    ),
    _S.MANUAL_REVIEW: (
        "The target may have acted and the broker cannot find out by itself; a person"
        " looks at the target and decides. Do not submit it under a new key."
    ),
}

_ACTIONS: Final[Mapping[str, tuple[str, str, str]]] = {
    "wait": ("GET", "", "read"),
    "get_receipt": ("GET", "/receipt", "read"),
    "request_reconciliation": ("POST", "/reconcile", "submit"),
    "resolve": ("POST", "/resolve", "operate"),
}


def outcome_sentence(status: EffectStatus, *, unknown: bool) -> str:
    """Say where an effect stands, in words that fit what is proved."""
    if unknown and status in _OUTCOMES_UNPROVED:
        return _OUTCOMES_UNPROVED[status]
    return _OUTCOMES[status]


def effect_answer(view: EffectView) -> EffectAnswer:
    """Tell an effect."""
    return EffectAnswer(**_effect_members(view))


def effect_detail(
    view: EffectView, events: Sequence[EffectEvent], attempts: Sequence[Attempt]
) -> EffectDetail:
    """Tell an effect with what happened to it up to the version that was read."""
    version = view.snapshot.version
    return EffectDetail(
        **_effect_members(view),
        arguments_preview=_preview(view.snapshot.intent.preview),
        history=[event_answer(event) for event in events if event.sequence <= version],
        attempts=[attempt_answer(item) for item in attempts if item.version <= version],
    )


def replay_answer(view: EffectView, receipt: Mapping[str, Any] | None) -> SubmitAnswer:
    """Tell what an operation key already stood for."""
    return _submit_answer(view, receipt, replayed=True)


def waited_answer(view: EffectView, receipt: Mapping[str, Any] | None) -> SubmitAnswer:
    """Tell what became of a new effect while the answer was held back."""
    return _submit_answer(view, receipt, replayed=False)


def created_answer(effect: EffectRecord) -> SubmitAnswer:
    """Tell an effect that was recorded a moment ago, without reading it again."""
    return SubmitAnswer(
        effect_id=str(effect.effect_id),
        operation_key=effect.request.operation_key,
        tool=effect.request.tool,
        status=effect.status,
        outcome=outcome_sentence(effect.status, unknown=False),
        unknown=False,
        unknown_since=None,
        terminal=effect.status in TERMINAL,
        version=effect.version,
        reason=None,
        created_at=effect.created_at,
        updated_at=effect.updated_at,
        requested_by=effect.request.requested_by,
        trace_id=effect.request.trace_id,
        contract=contract_answer(effect.contract),
        request_hash=effect.request_hash.hex(),
        deadlines=Deadlines(
            submit_until=effect.created_at + effect.contract.submit_deadline,
            next_step_at=effect.created_at,
        ),
        next=next_of(str(effect.effect_id), next_actions(effect.status, effect.contract)),
        links=links_of(str(effect.effect_id)),
        replayed=False,
        first_recorded_at=effect.created_at,
        receipt=None,
    )


def resolved_answer(view: EffectView, decision_id: str, version: int) -> ResolvedAnswer:
    """Tell an effect after an operator's finding."""
    return ResolvedAnswer(
        **_effect_members(view), decision_id=decision_id, decision_version=version
    )


def contract_answer(contract: EffectContract) -> ContractAnswer:
    """Tell the promise of a contract."""
    return ContractAnswer(
        name=contract.name,
        version=contract.version,
        safety=contract.safety,
        guarantee=contract.guarantee,
    )


def tool_answer(published: PublishedContract) -> ToolAnswer:
    """Tell a tool."""
    contract = published.contract
    return ToolAnswer(
        tool=contract.tool,
        description=contract.description,
        contract=contract_answer(contract),
        arguments=dict(contract.arguments),
        output=dict(contract.output) if contract.output is not None else None,
    )


def event_answer(event: EffectEvent) -> EventAnswer:
    """Tell an event."""
    return EventAnswer(
        sequence=event.sequence,
        type=event.type,
        old_status=event.old_status,
        new_status=event.new_status,
        actor=event.actor,
        at=event.at,
        metadata=dict(event.metadata),
        digest=event.digest.hex(),
    )


def attempt_answer(attempt: Attempt) -> AttemptAnswer:
    """Tell an attempt; without an ending, bytes may have left."""
    ending = attempt.ending
    return AttemptAnswer(
        ordinal=attempt.ordinal,
        attempt_id=str(attempt.attempt_id),
        started_at=attempt.started_at,
        send_deadline=attempt.send_deadline,
        key_generation=attempt.key_generation,
        ended_at=attempt.ended_at,
        outcome=ending.kind if ending else None,
        reason=ending.reason if ending else None,
        bytes_may_have_left=ending.bytes_may_have_left if ending else True,
        late=attempt.late,
        evidence=dict(ending.evidence or {}) if ending else {},
    )


def history_answer(
    effect_id: UUID,
    events: Sequence[EffectEvent],
    state: Folded,
    compared: tuple[Folded, Difference] | None,
) -> HistoryAnswer:
    """Tell a history up to `state`, and how `state` differs from another point."""
    return HistoryAnswer(
        effect_id=str(effect_id),
        events=[event_answer(item) for item in events if item.sequence <= state.sequence],
        state=state_answer(state),
        compared_to=state_answer(compared[0]) if compared else None,
        difference=dict(compared[1]) if compared else None,
    )


def fork_answer(fork: SimulatedFork) -> ForkAnswer:
    """Tell a simulated fork."""
    return ForkAnswer(
        effect_id=str(fork.effect_id),
        start=state_answer(fork.start),
        recorded=[event_answer(event) for event in fork.recorded],
        end=state_answer(fork.end),
        receipt=None if fork.receipt is None else ReceiptAnswer(dict(fork.receipt)),
    )


def state_answer(folded: Folded) -> StateAnswer:
    """Tell how an effect stood at a point of its history."""
    return StateAnswer(
        sequence=folded.sequence,
        status=folded.status,
        attempts=folded.attempts,
        updated_at=folded.updated_at,
        last_event=folded.last_event,
        reason=folded.reason,
    )


def _submit_answer(
    view: EffectView, receipt: Mapping[str, Any] | None, *, replayed: bool
) -> SubmitAnswer:
    members = _effect_members(view)
    return SubmitAnswer(
        **members,
        replayed=replayed,
        first_recorded_at=members["created_at"],
        receipt=ReceiptAnswer(dict(receipt)) if receipt is not None else None,
    )


def _effect_members(view: EffectView) -> dict[str, Any]:
    snapshot, intent = view.snapshot, view.snapshot.intent
    effect_id = str(intent.effect_id)
    return {
        "effect_id": effect_id,
        "operation_key": intent.operation_key,
        "tool": intent.tool,
        "status": snapshot.status,
        "outcome": outcome_sentence(snapshot.status, unknown=view.unknown),
        "unknown": view.unknown,
        "unknown_since": view.unknown_since,
        "terminal": snapshot.status in TERMINAL,
        "version": snapshot.version,
        "reason": snapshot.reason or None,
        "created_at": intent.created_at,
        "updated_at": snapshot.updated_at,
        "requested_by": intent.requested_by,
        "trace_id": intent.trace_id,
        "contract": contract_answer(view.contract),
        "request_hash": intent.request_hash.hex(),
        "deadlines": _deadlines(view),
        "next": next_of(effect_id, view.next_actions),
        "links": links_of(effect_id),
    }


def _deadlines(view: EffectView) -> Deadlines:
    work = view.snapshot.work
    if work is None:
        return Deadlines()
    return Deadlines(
        submit_until=work.submit_until,
        next_step_at=work.due_at,
        settled_at=work.settlement_at,
        key_forgotten_at=work.horizon_at,
        resolvable_after=view.resolvable_after,
    )


def next_of(effect_id: str, actions: Sequence[str]) -> list[NextAction]:
    """Tell how each action is taken over HTTP."""
    return [
        NextAction(
            action=action,
            method=_ACTIONS[action][0],
            href=f"/v1/effects/{effect_id}{_ACTIONS[action][1]}",
            scope=_ACTIONS[action][2],
        )
        for action in actions
    ]


def links_of(effect_id: str) -> Links:
    """Tell where the rest of an effect stands."""
    here = f"/v1/effects/{effect_id}"
    return Links(effect=here, history=f"{here}/history", receipt=f"{here}/receipt")


def _preview(preview: str) -> Any:
    return json.loads(preview) if preview else None
