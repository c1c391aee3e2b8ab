"""The life of an effect, drawn and listed from its one table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Final

from docs.rendering.markdown import code, table
from effect_broker.domain.status import (
    LEASED,
    RESOLVABLE,
    SENDABLE,
    TERMINAL,
    TRANSITIONS,
    EffectStatus,
    EventType,
)

_SENDING: Final = SENDABLE | {EffectStatus.DISPATCHING}
_RECOVERING: Final = RESOLVABLE | {EffectStatus.RECONCILING} | TERMINAL
"""Two drawings, since one with every arrow cannot be read; each status leaves in one."""

_BY_KIND: Final = (
    ("terminal", TERMINAL, "fill:#dafbe1,stroke:#1a7f37,color:#1f2328"),
    ("leased", LEASED, "fill:#ddf4ff,stroke:#0969da,color:#1f2328"),
    ("waiting", RESOLVABLE, "fill:#fff8c5,stroke:#9a6700,color:#1f2328"),
)


def sending() -> str:
    """Draw what leads to a send and away from it."""
    return _diagram(_SENDING, start=True)


def recovering() -> str:
    """Draw what follows a lost answer, a review and a receipt."""
    return _diagram(_RECOVERING, start=False)


def arrows() -> str:
    """List every arrow; what is not listed does not happen."""
    rows = [
        (_name(old), code(event), ", ".join(code(new) for new in _ordered(targets)))
        for old, row in TRANSITIONS.items()
        for event, targets in row.items()
    ]
    return table(("from", "event", "to"), rows)


def _diagram(sources: Collection[EffectStatus], *, start: bool) -> str:
    lines = ["```mermaid", "stateDiagram-v2", "  direction LR"]
    if start:
        lines.append(f"  [*] --> prepared: {EventType.EFFECT_RESERVED}")
    drawn: set[EffectStatus] = set(sources)
    for old, new, events in _moves(sources):
        drawn.add(new)
        lines.append(f"  {old} --> {new}: {'<br/>'.join(events)}")
    return "\n".join([*lines, *_colours(drawn), "```"])


def _moves(
    sources: Collection[EffectStatus],
) -> Iterator[tuple[EffectStatus, EffectStatus, list[EventType]]]:
    """Yield the arrows that leave a status for another, one for each pair."""
    for old in EffectStatus:
        if old not in sources:
            continue
        events: dict[EffectStatus, list[EventType]] = defaultdict(list)
        for event, targets in TRANSITIONS[old].items():
            for new in targets - {old}:
                events[new].append(event)
        for new in _ordered(events):
            yield old, new, events[new]


def _colours(drawn: Collection[EffectStatus]) -> Iterator[str]:
    for kind, statuses, style in _BY_KIND:
        if shown := _ordered(statuses & set(drawn)):
            yield f"  classDef {kind} {style}"
            yield f"  class {','.join(shown)} {kind}"


def _ordered(statuses: Collection[EffectStatus]) -> list[EffectStatus]:
    return [status for status in EffectStatus if status in statuses]


def _name(status: EffectStatus | None) -> str:
    return "(new)" if status is None else code(status)
