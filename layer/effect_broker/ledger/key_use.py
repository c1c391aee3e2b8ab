"""Under which keys something may stand: known without a look at the rows.

A key is declared before anything is sealed under it or derived from it, and is retired by
whoever has looked at every row and found none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from effect_broker.ledger.connection import Call, Row
from effect_broker.ledger.queries import statements

_SQL: Final = statements("keys")

Fetch = Callable[[Call], Awaitable[list[Row]]]
"""Runs a call: on any connection, or on one that is just being opened."""


class KeyKind(StrEnum):
    """What a key is for: sealing, or deriving downstream keys."""

    DATA = "data"
    HMAC = "hmac"


@dataclass(frozen=True, slots=True)
class DeclaredKeys:
    """Keys that something may stand under; `as_owner`: the role could undo history."""

    data: frozenset[str]
    hmac: frozenset[str]
    as_owner: bool


class PostgresKeyUse:
    """Reads and writes which keys the ledger relies on."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def declared(self) -> DeclaredKeys:
        """Return every key that something may stand under.

        Raises:
            SchemaMismatch: the ledger is not migrated.
        """
        found = await self._fetch(Call(_SQL["introduction"], {}))
        return DeclaredKeys(
            frozenset(row.key_id for row in found if row.kind == KeyKind.DATA),
            frozenset(row.key_id for row in found if row.kind == KeyKind.HMAC),
            found[0].owner,
        )

    async def declare(self, kind: KeyKind, key_id: str) -> None:
        """Say that something may stand under a key from now on; again changes nothing."""
        await self._fetch(Call(_SQL["declare"], {"kind": kind, "key_id": key_id}))

    async def retire(self, kind: KeyKind, keep: Collection[str]) -> Sequence[str]:
        """Forget every key of a kind but those to keep, and return the forgotten.

        For whoever has found nothing under them; needs the owner's rights.
        """
        call = Call(_SQL["retire"], {"kind": kind, "keep": sorted(keep)})
        return sorted(row.key_id for row in await self._fetch(call))
