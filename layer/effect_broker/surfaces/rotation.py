"""Rotation: what is sealed under an old data key is sealed anew under the active one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from effect_broker.domain.errors import CipherError
from effect_broker.ledger.key_use import KeyKind, PostgresKeyUse
from effect_broker.ledger.retention import PostgresRetention, SealedValue
from effect_broker.ports import Cipher

UNREADABLE_SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A value that could not be opened, and so stays as it is."""

    place: str
    effect_id: UUID
    data_key_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Resealed:
    """How far a rotation is: values sealed anew, those that others changed meanwhile, and
    those that cannot be opened, of which the first few are named.
    """

    resealed: int = 0
    passed: int = 0
    unreadable: int = 0
    named: tuple[Unreadable, ...] = ()


@dataclass(frozen=True, slots=True)
class KeysLeft:
    """What stands under each data key, by place, and the keys that nothing stands under
    any more: the keyring may drop them.
    """

    sealed: Mapping[str, Mapping[str, int]]
    hmac: frozenset[str]
    retired: Sequence[str]


@dataclass(frozen=True, slots=True)
class Rotation:
    """Moves a ledger to the active data key, and retires the keys that it has left."""

    retention: PostgresRetention
    key_use: PostgresKeyUse
    cipher: Cipher
    active_data_key: str

    async def reencrypt(self) -> AsyncIterator[Resealed]:
        """Seal anew what stands under another key than the active one; yield progress.

        May be interrupted and run again, and beside all work. A value that was pruned or
        sealed by another rotation meanwhile is passed over; one that cannot be opened
        stays, and keeps its key in use.

        Raises:
            Forbidden: the connection's role is not the owner's.
            LedgerUnavailable: run it again.
        """
        await self.key_use.declare(KeyKind.DATA, self.active_data_key)
        done = Resealed()
        async for values in self.retention.sealed_under_other_keys(self.active_data_key):
            done = await self._resealed(values, done)
            yield done

    async def left(self) -> KeysLeft:
        """Count what stands under each key, and change nothing."""
        sealed = await self.retention.sealed_by_key()
        _, hmac = await self.retention.keys_in_use()
        return KeysLeft(sealed, hmac, ())

    async def retire(self) -> KeysLeft:
        """Look at everything, and retire the keys that nothing stands under.

        A process that has not been restarted since the active key changed may still seal
        under an old one, which comes back into use with its next start.

        Raises:
            Forbidden: the connection's role is not the owner's.
        """
        left = await self.left()
        kept = {*left.sealed, self.active_data_key}
        retired = [
            *await self.key_use.retire(KeyKind.DATA, kept),
            *await self.key_use.retire(KeyKind.HMAC, left.hmac),
        ]
        return KeysLeft(left.sealed, left.hmac, retired)

    async def _resealed(self, values: Sequence[SealedValue], done: Resealed) -> Resealed:
        opened: list[SealedValue] = []
        ciphertexts: list[bytes] = []
        unreadable: list[Unreadable] = []
        for value in values:
            try:
                ciphertexts.append(self._anew(value))
                opened.append(value)
            except CipherError as error:
                unreadable.append(
                    Unreadable(
                        value.place, value.effect_id, value.data_key_id, error.message
                    )
                )
        changed = await self.retention.reseal(opened, ciphertexts, self.active_data_key)
        return Resealed(
            resealed=done.resealed + changed,
            passed=done.passed + len(opened) - changed,
            unreadable=done.unreadable + len(unreadable),
            named=(*done.named, *unreadable)[:UNREADABLE_SHOWN_MAX],
        )

    def _anew(self, value: SealedValue) -> bytes:
        place = {
            "tenant_id": value.tenant_id,
            "effect_id": value.effect_id,
        }
        plaintext = self.cipher.open(
            value.ciphertext, key_id=value.data_key_id, column=value.column, **place
        )
        return self.cipher.seal(plaintext, column=value.column, **place).ciphertext
