"""The arrows of the state table, each with a history that takes it and one in which it
is refused.

Histories register here by the arrows that they are about. `tests/integration/broker/
test_arrows.py` plays every one on both stores, reads from the ledger whether its arrows
were taken, and fails where an arrow of the table has no history of either kind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from effect_broker.domain.event import EffectEvent
from effect_broker.domain.status import TRANSITIONS, EffectStatus, EventType

NEW: Final = "(new)"


@dataclass(frozen=True, slots=True, order=True)
class Arrow:
    """One arrow in the table's words: `prepared AttemptStarted dispatching`."""

    old: str
    event: str
    new: str

    @classmethod
    def of(cls, text: str) -> Arrow:
        """Read an arrow; a word that the table does not know is refused."""
        old, event, new = text.split()
        return cls(
            old if old == NEW else EffectStatus(old).value,
            EventType(event).value,
            EffectStatus(new).value,
        )

    @classmethod
    def taken_by(cls, event: EffectEvent) -> Arrow:
        """Return the arrow that stands in a history."""
        old = NEW if event.old_status is None else event.old_status.value
        return cls(old, event.type.value, event.new_status.value)

    def __str__(self) -> str:
        return f"{self.old} {self.event} {self.new}"


DRAWN: Final[Sequence[Arrow]] = sorted(
    Arrow(NEW if old is None else old.value, event.value, new.value)
    for old, row in TRANSITIONS.items()
    for event, targets in row.items()
    for new in targets
)
"""Every arrow of the code's table."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a history is judged by: its effect, and from which event on."""

    effect_id: UUID
    after: int = 0


History = Callable[[Any], Awaitable[Told]]


class Histories:
    """Histories by the arrow they are about; one history may be about several."""

    def __init__(self) -> None:
        self._of: dict[Arrow, list[History]] = {}

    def about(self, *arrows: str) -> Callable[[History], History]:
        """Register a history."""

        def register(history: History) -> History:
            for arrow in arrows:
                self._of.setdefault(Arrow.of(arrow), []).append(history)
            return history

        return register

    @property
    def of(self) -> Mapping[Arrow, Sequence[History]]:
        """Every arrow that has a history."""
        return self._of

    @property
    def cases(self) -> Sequence[tuple[Arrow, History]]:
        """Every pair of arrow and history, in a stable order."""
        return [(arrow, it) for arrow in sorted(self._of) for it in self._of[arrow]]


TAKEN: Final = Histories()
REFUSED: Final = Histories()
taken = TAKEN.about
refused = REFUSED.about
