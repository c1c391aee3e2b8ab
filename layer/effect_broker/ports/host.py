"""What a process gets from its host: clocks, keys, secrets, nudges, a meter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from effect_broker.ports.targets import Deadline


class Nudger(Protocol):
    """Sends hints with an effect id only; losing or doubling one is harmless.

    Neither call raises: a hint that cannot be sent is counted, and the sweep finds the
    work.
    """

    async def dispatch(
        self, effect_ids: Sequence[UUID], *, delay: timedelta = timedelta(0)
    ) -> None:
        """Hint that effects may be dispatched after `delay`."""

    async def reconcile(
        self, effect_ids: Sequence[UUID], *, delay: timedelta = timedelta(0)
    ) -> None:
        """Hint that effects may be reconciled after `delay`."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """A ciphertext with the id of the key that opens it."""

    ciphertext: bytes
    key_id: str


class Cipher(Protocol):
    """Seals what must not stand in the clear; bound to tenant, effect and column."""

    def seal(
        self, plaintext: bytes, *, tenant_id: UUID, effect_id: UUID, column: str
    ) -> Sealed:
        """Encrypt under the active key."""

    def open(
        self,
        ciphertext: bytes,
        *,
        key_id: str,
        tenant_id: UUID,
        effect_id: UUID,
        column: str,
    ) -> bytes:
        """Decrypt.

        Raises:
            CipherError: the key is gone, or the ciphertext was written elsewhere.
        """


class KeyDeriver(Protocol):
    """Derives downstream keys from tenant keys that never leave it."""

    def mac(self, hmac_key_id: str, message: bytes) -> bytes:
        """Return HMAC-SHA-256 under the named key.

        Raises:
            CipherError: no such key.
        """


NewId = Callable[[], UUID]
"""Makes a fresh identifier; randomness and clocks stay outside the use cases."""


class SecretSource(Protocol):
    """Resolves secret references, in dispatching and reconciling processes only."""

    async def secret(self, name: str) -> str:
        """Return a secret's value.

        Raises:
            SecretNotFound: no such secret.
        """


class Clock(Protocol):
    """The host's clocks, passed so that tests can hold them."""

    def monotonic(self) -> float:
        """Seconds that stand still only while the host is off."""

    def boottime(self) -> float:
        """Seconds that go on while the host is suspended."""

    def wall(self) -> float:
        """Seconds since the epoch."""


class Watchdog(Protocol):
    """Ends what outlives its send deadline: aborts the connection, in the last resort the
    process.
    """

    def guard(self, deadline: Deadline) -> AbstractContextManager[None]:
        """Watch the block until it is left; past the deadline it must not go on."""


class Meter(Protocol):
    """Counts and times what happens; never sees a tenant, an argument or a result."""

    def count(self, name: str, value: float = 1, **labels: str) -> None:
        """Add to a counter named in `telemetry.NAMES`."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Record one observation (seconds) of a histogram."""

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
