"""Whose turn it is: every tenant with due work is served, however much another one has.

The list of tenants is read now and then; each claim starts further on in it. Between
those reads a claim looks only at what became due since the oldest work seen, so that a
million dead index entries under somebody's old snapshot cost it nothing.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from effect_broker.ledger.connection import Call, Connections, Row
from effect_broker.ledger.queries import statements

TENANTS_MAX: Final = 1000
"""How many tenants one read looks at; the next read goes on behind them."""

TENANTS_AT_ONCE: Final = 16
"""How many tenants one claim asks, each for one index look."""

READ_AGAIN_SECONDS: Final = 2.0
LOOK_BACK: Final = timedelta(minutes=1)
"""How far behind the oldest work seen a commit may still surface."""

LOOK_BACK_EFFECTS: Final = 1000
"""No further back than this many claimed effects: under somebody's old snapshot each of
them is still looked at."""

FULL_LOOK_SECONDS: Final = 10.0
"""Work that was left behind (locked, or not for this process then) is found this late."""


class Turn(NamedTuple):
    """What one claim is told; `due_from` None looks at everything."""

    tenants: list[UUID] | None
    due_from: datetime | None


class Turns:
    """The turns of one lane in one process."""

    def __init__(
        self,
        connections: Connections,
        lane: int,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connections = connections
        self._lane = lane
        self._monotonic = monotonic
        self._tenants: list[UUID] = []
        self._after = UUID(int=random.getrandbits(128))
        self._start = 0
        self._read_at = float("-inf")
        self._full_look_at = float("-inf")
        self._seen: deque[tuple[datetime, int]] = deque()
        self._seen_effects = 0

    async def next(self, *, named: bool) -> Turn:
        """Return the next turn; a claim of named effects needs none."""
        if named:
            return Turn(None, None)
        now = self._monotonic()
        due_from = None
        if self._seen and now - self._full_look_at < FULL_LOOK_SECONDS:
            due_from = self._watermark()
        else:
            self._full_look_at = now
        if now - self._read_at >= READ_AGAIN_SECONDS:
            self._read_at = now
            await self._read(due_from)
        return Turn(self._in_turn(), due_from)

    def took(self, turn: Turn, found: Sequence[Row]) -> None:
        """Learn from a claim's answer: the next one starts behind the tenants served."""
        if turn.tenants is None:
            return
        if not found and turn.due_from is not None:
            # Nothing new: the next look has the time to go through what was left behind.
            self._full_look_at = float("-inf")
        elif found and found[0].oldest_due_at is not None:
            self._start += len({row.tenant_id for row in found})
            self._remember(found[0].oldest_due_at, len(found))

    def _remember(self, oldest_due_at: datetime, effects: int) -> None:
        self._seen.append((oldest_due_at, effects))
        self._seen_effects += effects
        while self._seen_effects - self._seen[0][1] >= LOOK_BACK_EFFECTS:
            self._seen_effects -= self._seen.popleft()[1]

    def _watermark(self) -> datetime:
        latest = self._seen[-1][0] - LOOK_BACK
        if self._seen_effects < LOOK_BACK_EFFECTS:
            return latest
        return max(latest, self._seen[0][0])

    def _in_turn(self) -> list[UUID]:
        if not self._tenants:
            return []
        start = self._start % len(self._tenants)
        return (self._tenants[start:] + self._tenants[:start])[:TENANTS_AT_ONCE]

    async def _read(self, due_from: datetime | None) -> None:
        found = await self._connections.fetch_again(
            Call(
                statements("effect_work")["due_tenants"],
                {
                    "lane": self._lane,
                    "due_from": due_from,
                    "after": self._after,
                    "limit": TENANTS_MAX,
                },
            )
        )
        self._tenants = [row.due_tenants for row in found]
        self._start = 0
        if self._tenants:
            self._after = self._tenants[-1]
