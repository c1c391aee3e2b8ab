"""Old events are read in today's words, and never changed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from effect_broker.domain.event import EffectEvent
from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.domain.upcasting import UnknownEventVersion, upcast

STARTED = EventType.ATTEMPT_STARTED


def event(metadata: Mapping[str, Any]) -> EffectEvent:
    return EffectEvent(
        effect_id=UUID(int=1),
        sequence=2,
        type=STARTED,
        old_status=EffectStatus.PREPARED,
        new_status=EffectStatus.DISPATCHING,
        actor="worker",
        at=datetime(2026, 1, 1, tzinfo=UTC),
        metadata=metadata,
        previous_digest=b"p",
        digest=b"d",
    )


def renamed(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"ordinal": metadata["attempt"]}


def counted_from_one(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"ordinal": metadata["ordinal"] + 1}


def test_metadata_of_this_version_is_read_as_it_stands() -> None:
    stored = event({"ordinal": 1})
    assert upcast(stored) == stored


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        ({"attempt": 0}, {"ordinal": 1}),
        ({"schema": 2, "ordinal": 0}, {"ordinal": 1}),
        ({"schema": 3, "ordinal": 1}, {"ordinal": 1}),
    ],
)
def test_older_metadata_is_lifted_a_version_at_a_time(
    stored: dict[str, Any], read: dict[str, Any]
) -> None:
    old = event(stored)
    lifts = {(STARTED, 1): renamed, (STARTED, 2): counted_from_one}
    lifted = upcast(old, upcasters=lifts, version=3)
    assert lifted.metadata == read
    assert (lifted.digest, old.metadata) == (old.digest, stored)


def test_type_that_a_version_left_alone_needs_no_upcaster() -> None:
    other = {(EventType.OUTCOME_LOST, 1): renamed}
    assert upcast(event({"ordinal": 1}), upcasters=other, version=2).metadata == {
        "ordinal": 1
    }


@pytest.mark.parametrize("version", [0, 2, -1, True, "1", None, 1.5])
def test_event_of_a_later_release_is_refused(version: Any) -> None:
    with pytest.raises(UnknownEventVersion, match="Event 2"):
        upcast(event({"schema": version}))
