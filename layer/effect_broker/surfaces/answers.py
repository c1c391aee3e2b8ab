"""The shapes of what every surface answers; a field that says nothing is null."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, RootModel

from effect_broker.domain.attempt import EndingKind
from effect_broker.domain.contract import SafetyClass
from effect_broker.domain.status import EffectStatus, EventType


class Answer(BaseModel):
    """An answer's part; what is absent is null, so that the shape never changes."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def render(answer: BaseModel) -> bytes:
    """Write an answer as ASCII JSON.

    A target may have answered with text that UTF-8 cannot hold, or with a number that
    JSON cannot: neither may keep a stored receipt from being read.
    """
    plain = answer.model_dump(mode="json")
    return json.dumps(plain, separators=(",", ":")).encode("ascii")


class ContractAnswer(Answer):
    """The promise that the effect is bound to."""

    name: str
    version: str
    safety: SafetyClass
    guarantee: str


class Deadlines(Answer):
    """Instants of the ledger's clock; null where there is none (yet, or any more)."""

    submit_until: datetime | None = Field(
        None, description="After it no further attempt is started."
    )
    next_step_at: datetime | None = Field(
        None, description="When the broker looks next; null: it waits for a person."
    )
    settled_at: datetime | None = Field(
        None, description="After it no attempt can still be on its way."
    )
    key_forgotten_at: datetime | None = Field(
        None, description="Until then the target knows the downstream key."
    )
    resolvable_after: datetime | None = Field(
        None, description="Earliest observed_at of a finding of absence."
    )


class NextAction(Answer):
    """Something that may be done about the effect now."""

    action: str
    method: str
    href: str
    scope: str


class Links(Answer):
    """Where the rest stands."""

    effect: str
    history: str
    receipt: str


class EffectAnswer(Answer):
    """One effect; `version` is also its ETag, `outcome` says in words where it stands."""

    effect_id: str
    operation_key: str
    tool: str
    status: EffectStatus
    outcome: str
    unknown: bool = Field(
        description="Some attempt may have acted and nobody has proved it, whatever the"
        " status is meanwhile."
    )
    unknown_since: datetime | None
    terminal: bool
    version: int
    reason: str | None
    created_at: datetime
    updated_at: datetime
    requested_by: str | None
    trace_id: str | None
    contract: ContractAnswer
    request_hash: str
    deadlines: Deadlines
    next: list[NextAction]
    links: Links


class ReceiptAnswer(RootModel[dict[str, Any]]):
    """The immutable proof of a terminal effect, the target's answer in the clear."""


class SubmitAnswer(EffectAnswer):
    """What a submission stands for now; a replay names when it was first recorded."""

    replayed: bool
    first_recorded_at: datetime
    receipt: ReceiptAnswer | None


class EventAnswer(Answer):
    """One line of an effect's history."""

    sequence: int
    type: EventType
    old_status: EffectStatus | None
    new_status: EffectStatus
    actor: str
    at: datetime
    metadata: dict[str, Any]
    digest: str


class AttemptAnswer(Answer):
    """One permitted transmission; `outcome` is null while nothing is recorded of it."""

    ordinal: int
    attempt_id: str
    started_at: datetime
    send_deadline: datetime
    key_generation: int
    ended_at: datetime | None
    outcome: EndingKind | None
    reason: str | None
    bytes_may_have_left: bool
    late: bool
    evidence: dict[str, Any]


class EffectDetail(EffectAnswer):
    """One effect with its history and attempts; arguments as the contract shows them."""

    arguments_preview: Any
    history: list[EventAnswer]
    attempts: list[AttemptAnswer]


class ResolvedAnswer(EffectAnswer):
    """The effect after a finding; a repeated decision_id tells the same version."""

    decision_id: str
    decision_version: int


class StateAnswer(Answer):
    """An effect as it stood after one event."""

    sequence: int
    status: EffectStatus
    attempts: int
    updated_at: datetime
    last_event: EventType
    reason: str


class HistoryAnswer(Answer):
    """A history up to a point, the state that it makes, and what differs from another."""

    effect_id: str
    events: list[EventAnswer]
    state: StateAnswer
    compared_to: StateAnswer | None
    difference: dict[str, tuple[Any, Any]] | None = Field(
        description="Field name to its values at `state` and at `compared_to`."
    )


class ForkAnswer(Answer):
    """A history gone on from `start` with the answers on record; nothing was sent."""

    effect_id: str
    start: StateAnswer
    recorded: list[EventAnswer]
    end: StateAnswer
    receipt: ReceiptAnswer | None


class PageAnswer(Answer):
    """A page, newest first; `next_cursor` is null on the last."""

    effects: list[EffectAnswer]
    next_cursor: str | None


class ToolAnswer(Answer):
    """A tool that may be named, and what its contract promises."""

    tool: str
    description: str
    contract: ContractAnswer
    arguments: dict[str, Any]
    output: dict[str, Any] | None


class ProcessAnswer(Answer):
    """The state of the process that answers."""

    status: str


class ToolsAnswer(Answer):
    """Every tool with an active contract."""

    tools: list[ToolAnswer]
