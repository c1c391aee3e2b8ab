"""What a sandbox target was seen to do; facts only, in words that a report can keep."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Repeat(StrEnum):
    """What a second request under the same key did."""

    SAME_OBJECT = "same_object"
    ANOTHER_OBJECT = "another_object"
    IN_PROGRESS = "in_progress"
    REFUSED_AS_CONFLICT = "refused_as_conflict"
    REFUSED = "refused"
    UNCLEAR = "unclear"


class AfterRefusal(StrEnum):
    """What good arguments did under a key whose first request was refused."""

    KEY_WAS_FREE = "key_was_free"
    KEY_WAS_TAKEN = "key_was_taken"
    NOT_REFUSED = "not_refused"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Lookup:
    """What the lookup said: `seconds` until it found a fresh object, None if never.

    `stranger` says whether it claims to know a key that was never sent.
    """

    seconds: float | None
    looked_for: float
    other_id: bool
    stranger: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """Whether a key from an earlier request still stood `age_seconds` later."""

    age_seconds: float
    repeat: Repeat


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that was seen; None where a trial was not possible, `why` says why."""

    repeat: Repeat | None = None
    at_once: Repeat | None = None
    drift: Repeat | None = None
    after_refusal: AfterRefusal | None = None
    lookup: Lookup | None = None
    kept: tuple[Kept, ...] = ()
