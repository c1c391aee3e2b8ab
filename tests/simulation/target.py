"""The target: its own table is the judge. Requests travel, may be late, and are answered
to whoever still listens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from tests.simulation.dice import Dice
from tests.simulation.loop import SimulatedLoop

WIRE_SECONDS_MAX = 4.5
WORK_SECONDS_MAX = 3.0
LAG_SECONDS_MAX = 2.4
"""Together they lie inside the settlement bound that the contracts claim."""


class Keeps(StrEnum):
    """What the target keeps under a key."""

    NOTHING = "nothing"
    ALL_ANSWERS = "all_answers"
    COMMITS = "commits"
    SUCCESSES = "successes"


class Answer(StrEnum):
    """What a request was told."""

    CREATED = "created"
    DECLINED = "declined"
    DECLINED_FINAL = "declined_final"
    LIMITED = "limited"
    BROKEN = "broken"
    IN_PROGRESS = "in_progress"
    CONFLICT = "conflict"


@dataclass(frozen=True)
class Request:
    """One request as it leaves a worker."""

    operation_key: str
    account: str
    key: str | None
    payload: str
    keeps: Keeps
    retention: float


@dataclass(frozen=True)
class Row:
    """One object in the target's table."""

    row_id: str
    operation_key: str
    account: str
    key: str | None
    made_at: float
    visible_at: float


@dataclass
class _Kept:
    payload: str
    answer: tuple[Answer, str | None]
    until: float


@dataclass
class Target:
    """Every world of targets in one: what it keeps comes with the request."""

    loop: SimulatedLoop
    dice: Dice
    tell: Callable[[str], None]
    on_commit: Callable[[Row], None]
    rows: list[Row] = field(default_factory=list)
    on_their_way: dict[str, int] = field(default_factory=dict)
    _kept: dict[tuple[str, str], _Kept] = field(default_factory=dict)
    _busy: dict[tuple[str, str], int] = field(default_factory=dict)

    def send(self, request: Request) -> asyncio.Future[tuple[Answer, str | None]]:
        """Put a request on the wire; the future is the answer, if one comes."""
        answer = self.loop.create_future()
        name = request.operation_key
        self.on_their_way[name] = self.on_their_way.get(name, 0) + 1
        self.loop.spawn("world", self._carry(request, answer))
        return answer

    def commit_locally(self, operation_key: str) -> Row:
        """Make an object inside somebody else's transaction."""
        return self._commit(Request(operation_key, "ledger", None, "", Keeps.NOTHING, 0))

    def found(self, account: str, key: str) -> Row | None:
        """Look an object up as the target's own lookup does."""
        now = self.loop.now
        for row in self.rows:
            if (row.account, row.key) == (account, key) and row.visible_at <= now:
                return row
        return None

    async def _carry(
        self,
        request: Request,
        waiting: asyncio.Future[tuple[Answer, str | None]],
    ) -> None:
        dice, name = self.dice, request.operation_key
        slow = dice.fault("slow wire", 0.15)
        await asyncio.sleep(dice.between(2, WIRE_SECONDS_MAX) if slow else 0.02)
        if dice.fault("request lost", 0.06):
            self.on_their_way[name] -= 1
            self.tell(f"the target never sees a request for {name}")
            return
        answer = await self._served(request)
        self.on_their_way[name] -= 1
        self.tell(f"the target answers {answer[0]} for {name}")
        if dice.fault("answer lost", 0.2):
            self.tell(f"an answer for {name} is lost")
            return
        if dice.fault("slow answer", 0.15):
            await asyncio.sleep(dice.between(1, 12))
        if not waiting.done():
            waiting.set_result(answer)

    async def _served(self, request: Request) -> tuple[Answer, str | None]:
        dice = self.dice
        if dice.fault("limited", 0.05):
            return Answer.LIMITED, None
        place = (request.account, request.key or "")
        if request.key is not None and request.keeps is not Keeps.NOTHING:
            kept = self._kept.get(place)
            if kept is not None and kept.until > self.loop.now:
                same = kept.payload == request.payload
                return kept.answer if same else (Answer.CONFLICT, None)
            if self._busy.get(place):
                return Answer.IN_PROGRESS, None
        self._busy[place] = self._busy.get(place, 0) + 1
        slow = dice.fault("slow target", 0.1)
        await asyncio.sleep(dice.between(1, WORK_SECONDS_MAX) if slow else 0.01)
        self._busy[place] -= 1
        return self._acted(request, place)

    def _acted(
        self, request: Request, place: tuple[str, str]
    ) -> tuple[Answer, str | None]:
        dice = self.dice
        answer: tuple[Answer, str | None]
        if dice.fault("declined", 0.1):
            final = dice.chance(0.5)
            answer = Answer.DECLINED_FINAL if final else Answer.DECLINED, None
            self._keep(request, place, answer, committed=None)
            return answer
        if dice.fault("broken before commit", 0.04):
            answer = Answer.BROKEN, None
            self._keep(request, place, answer, committed=None)
            return answer
        row = self._commit(request)
        created = Answer.CREATED, row.row_id
        if dice.fault("broken after commit", 0.05):
            answer = Answer.BROKEN, None
            self._keep(request, place, answer, committed=created)
            return answer
        self._keep(request, place, created, committed=created)
        return created

    def _keep(
        self,
        request: Request,
        place: tuple[str, str],
        answer: tuple[Answer, str | None],
        *,
        committed: tuple[Answer, str | None] | None,
    ) -> None:
        match request.keeps:
            case Keeps.ALL_ANSWERS:
                kept: tuple[Answer, str | None] | None = answer
            case Keeps.COMMITS:
                kept = committed
            case Keeps.SUCCESSES:
                kept = answer if answer[0] is Answer.CREATED else None
            case _:
                kept = None
        if kept is not None:
            until = self.loop.now + request.retention
            self._kept[place] = _Kept(request.payload, kept, until)

    def _commit(self, request: Request) -> Row:
        now = self.loop.now
        lags = self.dice.fault("lagging lookup", 0.3)
        row = Row(
            row_id=f"row-{len(self.rows) + 1}",
            operation_key=request.operation_key,
            account=request.account,
            key=request.key,
            made_at=now,
            visible_at=now + (self.dice.between(0.5, LAG_SECONDS_MAX) if lags else 0.0),
        )
        self.rows.append(row)
        self.tell(f"the target commits {row.row_id} for {request.operation_key}")
        self.on_commit(row)
        return row
