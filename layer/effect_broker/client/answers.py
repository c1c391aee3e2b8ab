"""What the broker said, typed; a field that a newer broker adds is kept in `document`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from effect_broker.domain.status import EffectStatus

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Receipt:
    """The immutable proof of a terminal effect; `kind` is succeeded or failed_final."""

    receipt_id: UUID
    effect_id: UUID
    kind: EffectStatus
    source: str
    reason: str
    external_id: str | None
    output: Any
    flags: tuple[str, ...]
    created_at: datetime
    document: Document

    @classmethod
    def of(cls, document: Document) -> Self:
        """Read a receipt."""
        return cls(
            receipt_id=UUID(document["receipt_id"]),
            effect_id=UUID(document["effect_id"]),
            kind=EffectStatus(document["kind"]),
            source=document["source"],
            reason=document["reason"],
            external_id=document["external_id"],
            output=document["output"],
            flags=tuple(document["flags"]),
            created_at=datetime.fromisoformat(document["created_at"]),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class Effect:
    """Where an effect stands. `outcome` says it in words that fit what is proved.

    `unknown`: the target may have acted and nobody has proved it, whatever the status is
    meanwhile. `next_actions` names what may be done; a new key never is.
    """

    effect_id: UUID
    operation_key: str
    tool: str
    status: EffectStatus
    outcome: str
    unknown: bool
    unknown_since: datetime | None
    terminal: bool
    version: int
    reason: str | None
    created_at: datetime
    updated_at: datetime
    safety: str
    guarantee: str
    next_actions: tuple[str, ...]
    document: Document

    @classmethod
    def of(cls, document: Document) -> Self:
        """Read an effect."""
        return cls(**cls._members(document))

    @classmethod
    def _members(cls, document: Document) -> dict[str, Any]:
        contract = document["contract"]
        return {
            "effect_id": UUID(document["effect_id"]),
            "operation_key": document["operation_key"],
            "tool": document["tool"],
            "status": EffectStatus(document["status"]),
            "outcome": document["outcome"],
            "unknown": document["unknown"],
            "unknown_since": _instant(document.get("unknown_since")),
            "terminal": document["terminal"],
            "version": document["version"],
            "reason": document["reason"],
            "created_at": datetime.fromisoformat(document["created_at"]),
            "updated_at": datetime.fromisoformat(document["updated_at"]),
            "safety": contract["safety"],
            "guarantee": contract["guarantee"],
            "next_actions": tuple(step["action"] for step in document["next"]),
            "document": document,
        }


@dataclass(frozen=True, slots=True)
class Submission(Effect):
    """What a submission stands for; `receipt` is there once the effect is terminal."""

    replayed: bool
    first_recorded_at: datetime
    receipt: Receipt | None

    @classmethod
    def _members(cls, document: Document) -> dict[str, Any]:
        receipt = document["receipt"]
        # slots make a class anew, which the short form of super() does not know
        return {
            **super(Submission, cls)._members(document),
            "replayed": document["replayed"],
            "first_recorded_at": datetime.fromisoformat(document["first_recorded_at"]),
            "receipt": Receipt.of(receipt) if receipt is not None else None,
        }


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a history."""

    sequence: int
    type: str
    old_status: EffectStatus | None
    new_status: EffectStatus
    actor: str
    at: datetime
    metadata: Document

    @classmethod
    def of(cls, document: Document) -> Self:
        """Read an event."""
        old = document["old_status"]
        return cls(
            sequence=document["sequence"],
            type=document["type"],
            old_status=EffectStatus(old) if old is not None else None,
            new_status=EffectStatus(document["new_status"]),
            actor=document["actor"],
            at=datetime.fromisoformat(document["at"]),
            metadata=document["metadata"],
        )


@dataclass(frozen=True, slots=True)
class InspectedEffect(Effect):
    """An effect with its history and attempts; arguments as the contract shows them."""

    arguments_preview: Any
    history: Sequence[Event]
    attempts: Sequence[Document]
    resolvable_after: datetime | None

    @classmethod
    def _members(cls, document: Document) -> dict[str, Any]:
        return {
            **super(InspectedEffect, cls)._members(document),
            "arguments_preview": document["arguments_preview"],
            "history": [Event.of(it) for it in document["history"]],
            "attempts": document["attempts"],
            "resolvable_after": _instant(document["deadlines"]["resolvable_after"]),
        }


@dataclass(frozen=True, slots=True)
class History:
    """A history up to a point, and what differs from another point."""

    effect_id: UUID
    events: Sequence[Event]
    status: EffectStatus
    difference: Mapping[str, tuple[Any, Any]] | None
    document: Document

    @classmethod
    def of(cls, document: Document) -> Self:
        """Read a history."""
        differs = document["difference"]
        return cls(
            effect_id=UUID(document["effect_id"]),
            events=[Event.of(it) for it in document["events"]],
            status=EffectStatus(document["state"]["status"]),
            difference=differs and {name: tuple(it) for name, it in differs.items()},
            document=document,
        )


@dataclass(frozen=True, slots=True)
class ForkedHistory:
    """Where the recorded answers lead to from a point; nothing was sent or written."""

    effect_id: UUID
    recorded: Sequence[Event]
    status: EffectStatus
    receipt: Receipt | None
    document: Document

    @classmethod
    def of(cls, document: Document) -> Self:
        """Read a simulated fork."""
        receipt = document["receipt"]
        return cls(
            effect_id=UUID(document["effect_id"]),
            recorded=[Event.of(it) for it in document["recorded"]],
            status=EffectStatus(document["end"]["status"]),
            receipt=Receipt.of(receipt) if receipt is not None else None,
            document=document,
        )


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that may be named, and what its contract promises."""

    tool: str
    description: str
    safety: str
    guarantee: str
    arguments: Document
    output: Document | None

    @classmethod
    def of(cls, document: Document) -> Self:
        """Read a tool."""
        return cls(
            tool=document["tool"],
            description=document["description"],
            safety=document["contract"]["safety"],
            guarantee=document["contract"]["guarantee"],
            arguments=document["arguments"],
            output=document["output"],
        )


@dataclass(frozen=True, slots=True)
class Page:
    """Effects, newest first; without a cursor it is the last page."""

    effects: Sequence[Effect]
    next_cursor: str | None

    @classmethod
    def of(cls, document: Document) -> Self:
        """Read a page."""
        effects = [Effect.of(it) for it in document["effects"]]
        return cls(effects, document["next_cursor"])


def tools_of(document: Document) -> Sequence[Tool]:
    """Read the list of tools."""
    return [Tool.of(it) for it in document["tools"]]


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
