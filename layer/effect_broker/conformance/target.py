"""What the kit asks of a target under test: a fresh start, faults on request, the truth.

The truth is what stood on the wire and what the target holds. What an adapter says of
itself is only ever compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from effect_broker.domain.contract import EffectContract
from effect_broker.ports import AdapterSource, Clock


class Fault(StrEnum):
    """What becomes of one request between the adapter and its target.

    In all but `LOSE_REQUEST` and `IN_PROGRESS` the target takes the request and acts.
    """

    NONE = "none"
    LOSE_REQUEST = "lose_request"  # it never reaches the target; the connection ends
    LOSE_ANSWER = "lose_answer"  # the connection ends without an answer
    SILENCE = "silence"  # no answer comes, and the connection stays
    RESET = "reset"  # the connection is reset instead of an answer
    CUT_BODY = "cut_body"  # status and headers, then half of the body
    HIDE_COMMIT = "hide_commit"  # a server error in the answer's place
    IN_PROGRESS = "in_progress"  # the target says that the first request still runs


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """One request as it stood on the wire; `complete` is false where it broke off."""

    connection: int
    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(repr=False)
    complete: bool = True

    def header(self, name: str) -> str | None:
        """Return a header's exact text; of a repeated one, all, joined by a comma."""
        found = [value for key, value in self.headers if key.lower() == name.lower()]
        return ", ".join(found) if found else None

    def __str__(self) -> str:
        ending = "" if self.complete else " (broken off)"
        size = len(self.body)
        return (
            f"{self.method} {self.target} on connection {self.connection},"
            f" {size} bytes of body{ending}"
        )


class TargetUnderTest(Protocol):
    """A target, an adapter for it, and the place between the two.

    `HttpTargetUnderTest` is one for everything that speaks HTTP/1.1; write another only
    for a target that does not.
    """

    @property
    def contract(self) -> EffectContract:
        """The contract under test, as it stands while the target runs."""

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Arguments that the target accepts."""

    @property
    def other_arguments(self) -> Mapping[str, Any]:
        """Other arguments that it would accept under another key."""

    @property
    def faults(self) -> frozenset[Fault]:
        """Faults that `plan` can make; checks of others are not applicable."""

    @property
    def lookup_faults(self) -> frozenset[Fault]:
        """Faults that `plan_lookups` can make."""

    @property
    def forgets_keys(self) -> bool:
        """Whether `forget_keys` does anything."""

    async def start(self, clock: Clock) -> AdapterSource:
        """Start afresh (no effect, no key, no request) and return a new source of
        adapters on `clock`.
        """

    async def stop(self) -> None:
        """End what `start` began, whatever happened in between."""

    def plan(self, *faults: Fault) -> None:
        """Say what becomes of the next mutating requests, in turn; of later ones,
        nothing.
        """

    def plan_lookups(self, *faults: Fault) -> None:
        """Say what becomes of the next lookups, in turn."""

    def requests(self) -> Sequence[SeenRequest]:
        """Return every mutating request since the start, in order, as the wire saw it."""

    def key_of(self, request: SeenRequest) -> str | None:
        """Return the key that a request carries, byte for byte, or None."""

    async def effects(self) -> int:
        """Count the effects that the target holds: its own books, not the adapter's."""

    async def forget_keys(self) -> None:
        """Make the target forget its keys, as it does when their retention is over."""
