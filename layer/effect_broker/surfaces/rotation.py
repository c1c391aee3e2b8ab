"""Rotation: what is sealed under an old data key is sealed anew under the active one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from effect_broker.cipher import AesGcmCipher
from effect_broker.ledger.retention import PostgresRetention, SealedValue


@dataclass(frozen=True, slots=True)
class Resealed:
    """How far a rotation is: values sealed anew, and those that others changed."""

    resealed: int = 0
    passed: int = 0


async def reencrypt(
    retention: PostgresRetention, cipher: AesGcmCipher, active_data_key: str
) -> AsyncIterator[Resealed]:
    """Seal anew whatever stands under another key than the active one; yield progress.

    May be interrupted and run again, and beside all work. A value that was pruned or
    sealed by another rotation meanwhile is passed over.

    Raises:
        CipherError: a key that something stands under is missing from the keyring.
        Forbidden: the connection's role is not the owner's.
        LedgerUnavailable: run it again.
    """
    done = Resealed()
    async for value in retention.sealed_under_other_keys(active_data_key):
        if await _reseal(retention, cipher, value):
            done = Resealed(done.resealed + 1, done.passed)
        else:
            done = Resealed(done.resealed, done.passed + 1)
        yield done


async def _reseal(
    retention: PostgresRetention, cipher: AesGcmCipher, value: SealedValue
) -> bool:
    plaintext = cipher.open(
        value.ciphertext,
        key_id=value.data_key_id,
        tenant_id=value.tenant_id,
        effect_id=value.effect_id,
        column=value.column,
    )
    anew = cipher.seal(
        plaintext,
        tenant_id=value.tenant_id,
        effect_id=value.effect_id,
        column=value.column,
    )
    return await retention.reseal(value, anew.ciphertext, anew.key_id)
