"""Old events in today's words: stored metadata is lifted a version at a time, on reading.

What is stored never changes, nor does its digest; a reader sees every event as if today's
release had written it. Metadata without a version is of version 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from effect_broker.domain.event import EffectEvent
from effect_broker.domain.status import EventType

Metadata = Mapping[str, Any]
Upcaster = Callable[[Metadata], Metadata]

VERSION_FIELD: Final = "schema"
VERSION: Final = 1
"""The version that this release writes; it stays unsaid while it is the first."""

UPCASTERS: Final[Mapping[tuple[EventType, int], Upcaster]] = {}
"""(type, n) lifts that type's metadata from version n to n + 1; a type that a version
left alone has no entry."""


class UnknownEventVersion(ValueError):
    """The event was written by a later release than this one."""


def upcast(
    event: EffectEvent,
    *,
    upcasters: Mapping[tuple[EventType, int], Upcaster] = UPCASTERS,
    version: int = VERSION,
) -> EffectEvent:
    """Return the event with metadata of `version`.

    Raises:
        UnknownEventVersion: the metadata is newer, or says no version that exists.
    """
    found = event.metadata.get(VERSION_FIELD, 1)
    if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found <= version:
        raise UnknownEventVersion(
            f"Event {event.sequence} has metadata of version {found!r}; this release"
            f" reads versions 1 to {version}."
        )
    metadata = event.metadata
    for step in range(found, version):
        lift = upcasters.get((event.type, step))
        metadata = lift(metadata) if lift is not None else metadata
    bare = {name: value for name, value in metadata.items() if name != VERSION_FIELD}
    return replace(event, metadata=bare)
