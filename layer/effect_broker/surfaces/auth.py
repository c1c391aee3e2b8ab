"""API keys: `ebk_<id>_<secret>`, kept as a digest, compared in constant time.

A refused request writes nothing, whatever it presents. A key that opens is noted once an
hour.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass
from time import monotonic
from typing import Final

from effect_broker.domain.errors import Forbidden, InvalidRequest, Unauthenticated
from effect_broker.ports import Credential, Registry

SUBMIT: Final = "submit"
READ: Final = "read"
OPERATE: Final = "operate"
SCOPES: Final = (SUBMIT, READ, OPERATE)
"""What a key may be allowed; only `operate` resolves, and an agent's key never has it."""

VERIFIED_SECONDS: Final = 5.0
"""How long a verified key is believed without asking again: the most a revocation takes
to reach a warm process."""

VERIFIED_KEYS_MAX: Final = 4096
"""More live callers than this in one process cost a look-up each, not memory."""

NOTED_SECONDS: Final = 3600.0
"""How often one process notes that a key is used; nobody revokes a key by the minute."""

_KEY: Final = re.compile(r"ebk_([0-9a-f]{16})_([0-9a-f]{64})")
_NO_HASH: Final = hashlib.sha256(b"no key has this digest").digest()


@dataclass(frozen=True, slots=True)
class NewApiKey:
    """A key as it is shown once; only `key_id` and `secret_hash` are stored."""

    key_id: str
    key: str
    secret_hash: bytes


def new_api_key() -> NewApiKey:
    """Make a key with a random 256-bit secret.

    A secret of that length cannot be guessed from its digest, so that a plain SHA-256
    protects it as well as a slow hash would.
    """
    key_id, secret = secrets.token_hex(8), secrets.token_hex(32)
    return NewApiKey(key_id, f"ebk_{key_id}_{secret}", _digest(secret))


def check_scopes(scopes: Collection[str]) -> tuple[str, ...]:
    """Return the scopes of a new key in their fixed order.

    Raises:
        InvalidRequest: none, or one that does not exist.
    """
    if not scopes or not set(scopes) <= set(SCOPES):
        raise InvalidRequest(f"scopes must name at least one of {', '.join(SCOPES)}.")
    return tuple(scope for scope in SCOPES if scope in scopes)


def require(credential: Credential, *scopes: str) -> None:
    """Accept a credential that has one of the scopes; who may operate may read.

    Raises:
        Forbidden: it has none of them.
    """
    held = credential.scopes | ({READ} if OPERATE in credential.scopes else set())
    if held.isdisjoint(scopes):
        wanted = " or ".join(scopes)
        raise Forbidden(f"This needs a key with the scope {wanted}.", scope=scopes[0])


class Authenticator:
    """Verifies bearer keys against the registry.

    A well-formed key costs one read and one comparison, whether its id exists or not. A
    verified key is believed for `VERIFIED_SECONDS`; a refused one is asked for each time.
    """

    def __init__(
        self, registry: Registry, *, monotonic: Callable[[], float] = monotonic
    ) -> None:
        self._registry = registry
        self._monotonic = monotonic
        self._verified: dict[bytes, tuple[float, Credential]] = {}
        self._noted: dict[str, float] = {}

    async def authenticate(self, authorization: str | None) -> Credential:
        """Return whose key an `Authorization` header carries.

        Raises:
            Unauthenticated: no key, or one that is malformed, unknown, wrong, revoked,
                expired or of a disabled tenant; the answer is the same for all.
            LedgerUnavailable: the registry cannot be asked.
        """
        key_id, secret = _bearer(authorization)
        presented = hashlib.sha256(f"{key_id}_{secret}".encode("ascii")).digest()
        known = self._verified.get(presented)
        if known is not None and self._monotonic() < known[0]:
            return known[1]
        credential = await self._look_up(key_id, secret)
        await self._note(key_id)
        self._believe(presented, credential)
        return credential

    async def _look_up(self, key_id: str, secret: str) -> Credential:
        found = await self._registry.key(key_id)
        stored = found[1] if found is not None else _NO_HASH
        matches = hmac.compare_digest(_digest(secret), stored)
        if found is None or not matches:
            raise _refused()
        return found[0]

    async def _note(self, key_id: str) -> None:
        now = self._monotonic()
        if now < self._noted.get(key_id, now):
            return
        await self._registry.note_key_use(key_id)
        if len(self._noted) >= VERIFIED_KEYS_MAX:
            self._noted.clear()
        self._noted[key_id] = now + NOTED_SECONDS

    def _believe(self, presented: bytes, credential: Credential) -> None:
        if len(self._verified) >= VERIFIED_KEYS_MAX:
            self._verified.clear()
        self._verified[presented] = (self._monotonic() + VERIFIED_SECONDS, credential)


def _bearer(authorization: str | None) -> tuple[str, str]:
    scheme, _, key = (authorization or "").partition(" ")
    match = _KEY.fullmatch(key.strip())
    if scheme.lower() != "bearer" or match is None:
        raise _refused()
    return match[1], match[2]


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("ascii")).digest()


def _refused() -> Unauthenticated:
    return Unauthenticated(
        "Authorization: Bearer ebk_<id>_<secret> with a valid key is required."
    )
