"""How a check fails: what happened, where it was seen, what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

from effect_broker.conformance.target import SeenRequest


class ConformanceFailure(AssertionError):
    """The adapter, its contract or its target does not keep a promise.

    `check` names the promise, `what` says how it was broken, `where` what was seen, and
    `todo` what to change.
    """

    def __init__(self, check: str, what: str, *, where: str, todo: str) -> None:
        super().__init__(f"{check}: {what}\n  where: {where}\n  what to do: {todo}")
        self.check = check
        self.what = what
        self.where = where
        self.todo = todo


def listed(requests: Sequence[SeenRequest]) -> str:
    """Tell requests in the order in which they stood on the wire."""
    if not requests:
        return "nothing stood on the wire"
    return "; ".join(
        f"request {number}: {request}" for number, request in enumerate(requests, 1)
    )
