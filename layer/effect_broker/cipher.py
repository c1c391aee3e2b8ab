"""AES-256-GCM for what is stored, HMAC-SHA-256 for downstream keys; keys stay in here."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Self
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from effect_broker.domain.errors import CipherError
from effect_broker.ports import Sealed

DATA_KEY_BYTES: Final = 32
HMAC_KEY_BYTES_MIN: Final = 32
"""Shorter than its own output, an HMAC key is the weakest part."""
NONCE_BYTES: Final = 12
AEADS_KEPT: Final = 256
"""An attempt opens and seals under one key; more than a batch of effects is not kept."""
FORMAT: Final = b"\x01"
"""First byte of each ciphertext, so that another construction can be told apart."""

_KEY_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FIELDS: Final = frozenset({"data_keys", "active_data_key", "hmac_keys"})


@dataclass(frozen=True, slots=True)
class Keyring:
    """Named keys: several may be live, one of them seals. Its text form shows no key."""

    data_keys: Mapping[str, bytes] = field(repr=False)
    active_data_key: str
    hmac_keys: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read `data_keys` and `hmac_keys` (id to base64) and `active_data_key` (an id).

        Data keys have 32 bytes, HMAC keys at least 32. A refusal never shows a key.

        Raises:
            CipherError: saying which part is off.
        """
        try:
            fields = json.loads(text)
        except ValueError:
            raise CipherError("The keyring is not JSON.") from None
        if not isinstance(fields, dict) or set(fields) != _FIELDS:
            raise CipherError(f"The keyring must have {', '.join(sorted(_FIELDS))}.")
        ring = cls(
            data_keys=_keys(fields["data_keys"], "data_keys"),
            active_data_key=fields["active_data_key"],
            hmac_keys=_keys(fields["hmac_keys"], "hmac_keys"),
        )
        for key_id, key in ring.data_keys.items():
            if len(key) != DATA_KEY_BYTES:
                raise CipherError(
                    f"Data key {key_id!r} must have {DATA_KEY_BYTES} bytes."
                )
        for key_id, key in ring.hmac_keys.items():
            if len(key) < HMAC_KEY_BYTES_MIN:
                raise CipherError(
                    f"HMAC key {key_id!r} must have at least {HMAC_KEY_BYTES_MIN} bytes."
                )
        if str(ring.active_data_key) not in ring.data_keys:
            raise CipherError("active_data_key names none of data_keys.")
        return ring

    def missing(
        self, *, data_key_ids: Collection[str] = (), hmac_key_ids: Collection[str] = ()
    ) -> frozenset[str]:
        """Return ids that stored rows refer to and this keyring has lost."""
        return frozenset(data_key_ids) - self.data_keys.keys() | (
            frozenset(hmac_key_ids) - self.hmac_keys.keys()
        )


class AesGcmCipher:
    """Implements `ports.Cipher` and `ports.KeyDeriver` over a keyring.

    Each effect has an encryption key of its own, derived from the data key: random 96-bit
    nonces under one key for everything would run into their birthday bound within days at
    full load. A ciphertext opens only for its tenant, effect, column and key id.
    """

    def __init__(self, keyring: Keyring) -> None:
        self._ring = keyring
        self._aead = lru_cache(AEADS_KEPT)(self._derived)

    def seal(
        self, plaintext: bytes, *, tenant_id: UUID, effect_id: UUID, column: str
    ) -> Sealed:
        """Encrypt under the active key."""
        key_id = self._ring.active_data_key
        bound = _bound(tenant_id, effect_id, column, key_id)
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._aead(key_id, tenant_id, effect_id).encrypt(nonce, plaintext, bound)
        return Sealed(ciphertext=FORMAT + nonce + sealed, key_id=key_id)

    def open(
        self,
        ciphertext: bytes,
        *,
        key_id: str,
        tenant_id: UUID,
        effect_id: UUID,
        column: str,
    ) -> bytes:
        """Decrypt what `seal` wrote for the same place.

        Raises:
            CipherError: the key is gone, or the ciphertext was changed or moved.
        """
        head = len(FORMAT) + NONCE_BYTES
        if ciphertext[: len(FORMAT)] != FORMAT or len(ciphertext) < head:
            raise CipherError("The ciphertext has an unknown format.")
        nonce, sealed = ciphertext[len(FORMAT) : head], ciphertext[head:]
        bound = _bound(tenant_id, effect_id, column, key_id)
        try:
            return self._aead(key_id, tenant_id, effect_id).decrypt(nonce, sealed, bound)
        except InvalidTag:
            raise CipherError(
                "The ciphertext was changed, or does not belong to this row and column."
            ) from None

    def mac(self, hmac_key_id: str, message: bytes) -> bytes:
        """Return HMAC-SHA-256 under the named key.

        Raises:
            CipherError: no such key.
        """
        key = self._ring.hmac_keys.get(hmac_key_id)
        if key is None:
            raise CipherError(f"The keyring has no HMAC key {hmac_key_id!r}.")
        return hmac.digest(key, message, "sha256")

    def _derived(self, key_id: str, tenant_id: UUID, effect_id: UUID) -> AESGCM:
        key = self._ring.data_keys.get(key_id)
        if key is None:
            raise CipherError(f"The keyring has no data key {key_id!r}.")
        context = b"effect-broker/seal/1" + tenant_id.bytes + effect_id.bytes
        return AESGCM(hmac.digest(key, context, "sha256"))


def _bound(tenant_id: UUID, effect_id: UUID, column: str, key_id: str) -> bytes:
    """Join what a ciphertext is bound to; lengths keep neighbours apart."""
    fields = (FORMAT, tenant_id.bytes, effect_id.bytes, column.encode(), key_id.encode())
    return b"".join(len(part).to_bytes(2, "big") + part for part in fields)


def _keys(found: Any, name: str) -> dict[str, bytes]:
    if not isinstance(found, dict) or not found:
        raise CipherError(f"{name} must map ids to keys in base64, and hold one.")
    keys: dict[str, bytes] = {}
    for key_id, text in found.items():
        if not _KEY_ID.fullmatch(key_id):
            raise CipherError(f"{name} has an id outside letters, digits, '.', '_', '-'.")
        try:
            keys[key_id] = base64.b64decode(text, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise CipherError(f"Key {key_id!r} in {name} is not base64.") from None
    return keys
