"""What the owner of the database does with old effects, and with keys that rotate.

These calls need the owner's rights, or a migrator's; the application has none of them but
the making of partitions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final
from uuid import UUID

import psycopg

from effect_broker.domain.errors import Conflict, Forbidden, NotFound
from effect_broker.ledger.composite import row, rows
from effect_broker.ledger.connection import Call, Connections, Row
from effect_broker.ledger.migrate import MONTHS_AHEAD
from effect_broker.ledger.queries import statements
from effect_broker.ledger.rows import milliseconds

_SQL: Final = statements("retention")
_DOCTOR: Final = statements("doctor")
_ABSENT, _REFUSED = "EB007", "EB008"

BATCH: Final = 500
"""How many effects one commit prunes: a lock is never held for long."""

RESEAL_BATCH: Final = 100
"""How many values one commit seals anew: they lie in memory, each with its payload."""

LIVE_SHOWN_MAX: Final = 1000
"""A month with this many live effects has a thousand or more."""

SEALED_COLUMNS: Final = {
    "arguments": "arguments",
    "receipt": "result",
    "ending": "result",
    "resolution": "resolution",
    "compensation": "resolution",
    "callback": "task_token",
}
"""Under which column name each place's ciphertext is bound."""


@dataclass(frozen=True, slots=True)
class Month:
    """A month that has partitions; `archived` ones wait to be copied away and dropped.

    `effects` is what the server's statistics say, None before there are any; `live` stops
    at `LIVE_SHOWN_MAX`. Only a month that is `over` and has none can be archived.
    """

    month: date
    archived: bool
    effects: int | None
    bytes: int
    live: int
    over: bool


@dataclass(frozen=True, slots=True)
class Prunable:
    """What a pruning would forget: of so many effects, so many bytes."""

    effects: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class SealedValue:
    """A ciphertext where it stands; `column` is the name that it is bound to."""

    place: str
    effect_id: UUID
    detail: str | None
    tenant_id: UUID
    ciphertext: bytes
    data_key_id: str

    @property
    def column(self) -> str:
        """The column name of its associated data."""
        return SEALED_COLUMNS[self.place]


class PostgresRetention:
    """Partitions, pruning and re-encryption; identity is out of its reach."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def make_partitions(self, months_ahead: int = MONTHS_AHEAD) -> Sequence[str]:
        """Make what is missing of this month's partitions and the next ones."""
        made = await self._call("make_partitions", months_ahead=months_ahead)
        return [it.partition for it in made]

    async def months(self) -> Sequence[Month]:
        """List the months that have partitions."""
        return [
            Month(it.month, it.archived, it.effects, it.bytes, it.live, it.over)
            for it in await self._call("months", live_max=LIVE_SHOWN_MAX)
        ]

    async def month(self, month: date) -> Month:
        """Return one month that has partitions.

        Raises:
            NotFound: it has none.
        """
        first = month.replace(day=1)
        for found in await self.months():
            if found.month == first:
                return found
        raise NotFound(f"The month {first:%Y-%m} has no partitions.")

    async def strays(self) -> int:
        """Count effects outside any month, up to `LIVE_SHOWN_MAX`."""
        return int((await self._call("strays", limit=LIVE_SHOWN_MAX))[0].strays)

    async def archive_month(self, month: date) -> int:
        """Leave a tombstone of every effect of a month, and detach its partitions.

        Returns how many effects were archived.

        Raises:
            NotFound: the month has no partitions.
            Conflict: one of its effects is live, or the month is not over.
            Forbidden: the connection's role is not the owner's.
        """
        return int((await self._guarded("archive_month", month))[0].archived)

    async def drop_archived_month(self, month: date) -> None:
        """Drop the detached partitions of a month; the tombstones stay.

        Raises:
            NotFound: the month is not archived.
            Conflict: an effect of the month has no tombstone.
        """
        await self._guarded("drop_archived_month", month)

    async def prune(self, age: timedelta) -> AsyncIterator[int]:
        """Forget the payloads of effects that ended longer ago than `age`.

        Yields the count of each batch. Replays and conflicts are answered as before.
        """
        after: UUID | None = None
        while True:
            found = await self._call(
                "prune_payloads", age_ms=milliseconds(age), after=after, limit=BATCH
            )
            after = found[0].last_effect_id
            if after is None:
                return
            yield found[0].pruned

    async def prunable(self, age: timedelta) -> AsyncIterator[Prunable]:
        """Yield what `prune` would forget so far, and forget nothing."""
        after: UUID | None = None
        total = Prunable()
        while True:
            (found,) = await self._call(
                "prunable", age_ms=milliseconds(age), after=after, limit=BATCH
            )
            after = found.last_effect_id
            if after is None:
                return
            total = Prunable(total.effects + found.effects, total.bytes + found.bytes)
            yield total

    async def forget_fences(self) -> int:
        """Remove settled claims' fences that are a day old."""
        found = await self._call("forget_fences", limit=BATCH)
        return int(found[0].forgotten)

    async def sealed_under_other_keys(
        self, data_key_id: str
    ) -> AsyncIterator[Sequence[SealedValue]]:
        """Yield, some at a time, every value that is sealed under another key than this.

        Months that were archived are no longer reached; they are sealed as they were.
        """
        for place in SEALED_COLUMNS:
            after: SealedValue | None = None
            while True:
                found = await self._call(
                    "sealed_under_other_keys",
                    place=place,
                    data_key_id=data_key_id,
                    after=None if after is None else _written(after),
                    limit=RESEAL_BATCH,
                )
                values = [_sealed_value(it) for it in found]
                if values:
                    after = values[-1]
                    yield values
                if len(values) < RESEAL_BATCH:
                    break

    async def reseal(
        self,
        old: Sequence[SealedValue],
        ciphertexts: Sequence[bytes],
        data_key_id: str,
    ) -> int:
        """Replace sealed values and return how many.

        One that was changed or pruned meanwhile, or is gone, is passed over.
        """
        found = await self._call(
            "reseal",
            old=rows(_written(value) for value in old),
            ciphertexts=list(ciphertexts),
            data_key_id=data_key_id,
        )
        return int(found[0].resealed)

    async def sealed_by_key(self) -> dict[str, dict[str, int]]:
        """Count what is sealed under each data key, by place.

        Reads whole tables. Months that were archived are not reached.
        """
        counts: dict[str, dict[str, int]] = {}
        for it in await self._call("sealed_by_key"):
            counts.setdefault(it.key_id, {})[it.place] = it.sealed
        return counts

    async def keys_in_use(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the data keys and the HMAC keys that something stands under.

        Reads whole tables; `PostgresKeyUse` knows what something may stand under.
        """
        hmac = await self._call("hmac_keys_in_use")
        return frozenset(await self.sealed_by_key()), frozenset(it.key_id for it in hmac)

    async def check(self) -> dict[str, Sequence[UUID]]:
        """Verify every reference and chain; return the first offenders of each check.

        Reads whole tables: for a quiet hour, or a copy of the database.
        """
        broken: dict[str, Sequence[UUID]] = {}
        for name, statement in _DOCTOR.items():
            found = await self._connections.fetch_again(Call(statement, {}))
            if found:
                broken[name] = [it.effect_id for it in found]
        return broken

    async def _guarded(self, name: str, month: date) -> list[Row]:
        try:
            return await self._call(name, month=month.replace(day=1))
        except psycopg.Error as error:
            message = error.diag.message_primary or ""
            if error.sqlstate == _ABSENT:
                raise NotFound(message) from error
            if error.sqlstate == _REFUSED:
                raise Conflict(message) from error
            raise

    async def _call(self, statement: str, /, **parameters: Any) -> list[Row]:
        try:
            return await self._connections.fetch_again(Call(_SQL[statement], parameters))
        except psycopg.errors.InsufficientPrivilege as error:
            raise Forbidden(
                "This needs the rights of the ledger's owner: connect as the role that"
                " migrates, not as the application.",
                scope="owner",
            ) from error


def _sealed_value(found: Row) -> SealedValue:
    return SealedValue(
        place=found.place,
        effect_id=found.effect_id,
        detail=found.detail,
        tenant_id=found.tenant_id,
        ciphertext=found.ciphertext,
        data_key_id=found.data_key_id,
    )


def _written(value: SealedValue) -> str:
    return row(
        value.place,
        value.effect_id,
        value.detail,
        value.tenant_id,
        value.ciphertext,
        value.data_key_id,
    )
