"""The last question before bytes leave: in time on every clock, and that very target?"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from effect_broker.domain.outcome import Ambiguous, Evidence, NotSent
from effect_broker.ports import Clock, Deadline

SEND_DEADLINE_PASSED: Final = "send_deadline_passed"
TARGET_SCOPE_CHANGED: Final = "target_scope_changed"


def _nothing() -> None:
    """Do nothing: the place of a failpoint, in every process that has none."""


class NothingSent(Exception):
    """The request ended before its first byte; `reason` is a stable word."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def unsent(reason: str, evidence: Evidence | None = None) -> NotSent | Ambiguous:
    """Return the outcome of an attempt of which not a byte left.

    A changed target is a violation: whatever was sent before went to another account.
    """
    facts = {"bytes_may_have_left": False, **(evidence or {})}
    if reason == TARGET_SCOPE_CHANGED:
        return Ambiguous(reason, evidence=facts, contract_violated=True)
    return NotSent(reason, evidence=facts)


class SendForbidden(NothingSent):
    """The gate is shut: too late, or another target than the attempt recorded."""


class SendGate:
    """Permits writes of one request, each of them, until the attempt's send deadline.

    Any clock past its reading forbids the write: a paused or frozen process may find one
    of them standing still (design rule 7). `opened` stays true once a write was
    permitted; while it is false, not a byte of the request has left. Without a deadline
    only the scope counts.
    """

    before_first_write: ClassVar[Callable[[], None]] = _nothing
    """Called before an attempt's first write is judged."""

    def __init__(
        self,
        clock: Clock,
        deadline: Deadline | None,
        *,
        scope: bytes,
        expected_scope: bytes,
    ) -> None:
        self._clock = clock
        self._deadline = deadline
        self._scope = scope
        self._expected_scope = expected_scope
        self._abort: Callable[[], None] | None = None
        self.opened = False
        self.aborted = False

    def permit(self) -> None:
        """Let the caller write now, and with nothing in between.

        Raises:
            SendForbidden: saying which of the two it is.
        """
        if self._deadline is not None and not self.opened:
            SendGate.before_first_write()
        reason = self.refusal()
        if reason is not None:
            raise SendForbidden(reason)
        self.opened = True

    def refusal(self) -> str | None:
        """Say why a write would be refused now; None permits. Opens nothing."""
        if self._scope != self._expected_scope:
            return TARGET_SCOPE_CHANGED
        if self.aborted or self.seconds_left() <= 0:
            return SEND_DEADLINE_PASSED
        return None

    def seconds_left(self) -> float:
        """Return the time to the deadline on the clock that is furthest on."""
        if self._deadline is None:
            return float("inf")
        return min(
            self._deadline.monotonic - self._clock.monotonic(),
            self._deadline.boottime - self._clock.boottime(),
            self._deadline.wall - self._clock.wall(),
        )

    def on_abort(self, abort: Callable[[], None]) -> None:
        """Say how the connection in use is torn down, from any thread."""
        self._abort = abort
        if self.aborted:
            abort()

    def abort(self) -> None:
        """Forbid further writes and tear the connection down; safe from any thread."""
        self.aborted = True
        if self._abort is not None:
            self._abort()
