"""Tenants, API keys and published contracts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from effect_broker.domain.contract import EffectContract


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant and the id of its HMAC key."""

    tenant_id: UUID
    slug: str
    name: str
    hmac_key_id: str
    disabled: bool


@dataclass(frozen=True, slots=True)
class Credential:
    """A verified API key: whose it is and what it may do."""

    key_id: str
    tenant_id: UUID
    tenant_slug: str
    scopes: frozenset[str]


class KeyState(StrEnum):
    """Whether a key opens, and what keeps it from it."""

    LIVE = "live"
    REVOKED = "revoked"
    EXPIRED = "expired"
    TENANT_DISABLED = "tenant_disabled"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What operators see of a key: no secret, and its last use to the hour."""

    key_id: str
    tenant_slug: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    state: KeyState


@dataclass(frozen=True, slots=True)
class PublishedContract:
    """A registry row; `active` marks the version that new effects of its tool pin."""

    contract_id: int
    contract: EffectContract
    digest: bytes
    active: bool


class Registry(Protocol):
    """Tenants, keys and contracts: read often, written by operators."""

    async def tenant(
        self, *, slug: str | None = None, tenant_id: UUID | None = None
    ) -> Tenant | None:
        """Return a tenant by slug or id."""

    async def create_tenant(
        self, slug: str, name: str, hmac_key_id: str
    ) -> tuple[Tenant, bool]:
        """Create a tenant, or return the one with this slug (False)."""

    async def set_disabled(self, tenant_id: UUID, disabled: bool) -> None:
        """Disable or enable a tenant."""

    async def set_hmac_key(self, tenant_id: UUID, hmac_key_id: str) -> None:
        """Derive new effects' downstream keys from another key; stored ones stay."""

    async def tenants(self) -> Sequence[Tenant]:
        """List tenants."""

    async def add_key(
        self,
        tenant_id: UUID,
        key_id: str,
        secret_hash: bytes,
        scopes: Sequence[str],
        lifetime: timedelta | None,
    ) -> None:
        """Store a hashed API key; without a lifetime it opens until it is revoked."""

    async def rotate_key(
        self,
        key_id: str,
        new_key_id: str,
        secret_hash: bytes,
        lifetime: timedelta | None,
        *,
        overlap: timedelta,
    ) -> datetime | None:
        """Add a key with the tenant and scopes of a live one, which ends after the
        overlap.

        Returns when the old one ends, or None where it is not alive and nothing was done.
        """

    async def keys(self, tenant_id: UUID | None = None) -> Sequence[ApiKey]:
        """List the keys of a tenant, or of all; dead ones too."""

    async def key(self, key_id: str) -> tuple[Credential, bytes] | None:
        """Return a live key (neither revoked nor expired, tenant enabled) with its secret
        hash.
        """

    async def note_key_use(self, key_id: str) -> None:
        """Keep that a key opened now, unless that was kept within the hour."""

    async def revoke_key(self, key_id: str) -> bool:
        """Revoke a key; False where there is none."""

    async def publish(self, contract: EffectContract) -> tuple[PublishedContract, bool]:
        """Add a contract version (True), or return the equal one (False); makes it
        active.

        Raises:
            ContractConflict: the version exists with another document.
        """

    async def contracts(self) -> Sequence[PublishedContract]:
        """Return every published contract."""
