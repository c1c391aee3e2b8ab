"""What MCP tools answer: structured, and never an error where an outcome is open."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pydantic import Field

from effect_broker.domain.status import EffectStatus
from effect_broker.surfaces.answers import Answer, EffectAnswer, SubmitAnswer

RUNNING: Final = (
    "Not finished. Do not call the tool again under another operation_key: that would be"
    " a second effect. Ask get_effect for this effect_id; calling again under the same"
    " operation_key is safe and returns this same effect."
)
UNKNOWN: Final = (
    "Nobody has proved whether it happened: it is neither done nor failed. Do not repeat"
    " it under another operation_key. Ask get_effect for this effect_id later, or"
    " request_reconciliation."
)
DONE: Final = "Done, and proved by the receipt. Do not call again for the same intent."
FAILED: Final = "It failed for good, and nothing was executed."


class EffectResult(Answer):
    """One effect as a model is told of it; `advice` says what to do, and what not."""

    effect_id: str
    operation_key: str
    tool: str
    status: EffectStatus
    outcome: str
    unknown: bool
    terminal: bool
    replayed: bool = Field(description="The operation_key stood for this effect already.")
    version: int
    reason: str | None
    created_at: datetime
    updated_at: datetime
    receipt: dict[str, Any] | None = Field(description="The proof, once terminal.")
    advice: str


class EffectsResult(Answer):
    """Effects with an unproved attempt, the newest first."""

    effects: list[EffectResult]
    more: bool


class ReceiptResult(Answer):
    """The immutable receipt of a terminal effect."""

    receipt: dict[str, Any]


def effect_result(
    answer: EffectAnswer, *, replayed: bool = False, receipt: dict[str, Any] | None = None
) -> EffectResult:
    """Word an effect for a model."""
    if isinstance(answer, SubmitAnswer):
        replayed = answer.replayed
        receipt = None if answer.receipt is None else answer.receipt.root
    return EffectResult(
        effect_id=answer.effect_id,
        operation_key=answer.operation_key,
        tool=answer.tool,
        status=answer.status,
        outcome=answer.outcome,
        unknown=answer.unknown,
        terminal=answer.terminal,
        replayed=replayed,
        version=answer.version,
        reason=answer.reason,
        created_at=answer.created_at,
        updated_at=answer.updated_at,
        receipt=receipt,
        advice=_advice(answer),
    )


def _advice(answer: EffectAnswer) -> str:
    if answer.status is EffectStatus.FAILED_FINAL:
        return FAILED
    if answer.terminal:
        return DONE
    return UNKNOWN if answer.unknown else RUNNING
