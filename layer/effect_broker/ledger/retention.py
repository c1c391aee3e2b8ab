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
from effect_broker.ledger.composite import row
from effect_broker.ledger.connection import Call, Connections, Row
from effect_broker.ledger.migrate import MONTHS_AHEAD
from effect_broker.ledger.queries import statements
from effect_broker.ledger.rows import milliseconds

_SQL: Final = statements("retention")
_DOCTOR: Final = statements("doctor")
_ABSENT, _REFUSED = "EB007", "EB008"

BATCH: Final = 500
"""How many effects one commit prunes: a lock is never held for long."""

SEALED_COLUMNS: Final = {
    "arguments": "arguments",
    "receipt": "result",
    "ending": "result",
    "resolution": "resolution",
    "compensation": "resolution",
}
"""Under which column name each place's ciphertext is bound."""


@dataclass(frozen=True, slots=True)
class Month:
    """A month that has partitions; `archived` ones wait to be copied away and dropped."""

    month: date
    archived: bool


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
        return [row.partition for row in made]

    async def months(self) -> Sequence[Month]:
        """List the months that have partitions."""
        return [Month(row.month, row.archived) for row in await self._call("months")]

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

    async def forget_fences(self) -> int:
        """Remove settled claims' fences that are a day old."""
        found = await self._call("forget_fences", limit=BATCH)
        return int(found[0].forgotten)

    async def sealed_under_other_keys(
        self, data_key_id: str
    ) -> AsyncIterator[SealedValue]:
        """Yield every sealed value that stands under another key than this one.

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
                    limit=BATCH,
                )
                for after in map(_sealed_value, found):
                    yield after
                if len(found) < BATCH:
                    break

    async def reseal(self, old: SealedValue, ciphertext: bytes, data_key_id: str) -> bool:
        """Replace a sealed value; False where it was changed or pruned meanwhile."""
        found = await self._call(
            "reseal", old=_written(old), ciphertext=ciphertext, data_key_id=data_key_id
        )
        return bool(found[0].resealed)

    async def keys_in_use(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the data keys and the HMAC keys that something stands under."""
        found = await self._call("keys_in_use")
        data = frozenset(row.key_id for row in found if row.kind == "data")
        hmac = frozenset(row.key_id for row in found if row.kind == "hmac")
        return data, hmac

    async def check(self) -> dict[str, Sequence[UUID]]:
        """Verify every reference and chain; return the first offenders of each check.

        Reads whole tables: for a quiet hour, or a copy of the database.
        """
        broken: dict[str, Sequence[UUID]] = {}
        for name, statement in _DOCTOR.items():
            found = await self._connections.fetch_again(Call(statement, {}))
            if found:
                broken[name] = [row.effect_id for row in found]
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
