"""Tenants, API keys and contracts in memory, for tests and simulations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import ContractConflict, NotFound
from effect_broker.ledger.memory_guard import refuse_in_production
from effect_broker.ports import ApiKey, Credential, KeyState, PublishedContract, Tenant


@dataclass(frozen=True, slots=True)
class _Key:
    credential: Credential
    secret_hash: bytes
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


class MemoryRegistry:
    """`Registry` without a database.

    Raises:
        RuntimeError: in production, where only a database is an authority.
    """

    def __init__(
        self,
        now: Callable[[], datetime],
        *,
        new_id: Callable[[], UUID] = uuid4,
    ) -> None:
        refuse_in_production()
        self._now = now
        self._new_id = new_id
        self._tenants: dict[UUID, Tenant] = {}
        self._keys: dict[str, _Key] = {}
        self._contracts: list[PublishedContract] = []
        self._routes: dict[str, int] = {}

    async def tenant(
        self, *, slug: str | None = None, tenant_id: UUID | None = None
    ) -> Tenant | None:
        """Return a tenant by slug or id."""
        for tenant in self._tenants.values():
            if slug == tenant.slug or tenant_id == tenant.tenant_id:
                return tenant
        return None

    async def create_tenant(
        self, slug: str, name: str, hmac_key_id: str
    ) -> tuple[Tenant, bool]:
        """Create a tenant, or return the one with this slug (False)."""
        existing = await self.tenant(slug=slug)
        if existing is not None:
            return existing, False
        tenant = Tenant(self._new_id(), slug, name, hmac_key_id, disabled=False)
        self._tenants[tenant.tenant_id] = tenant
        return tenant, True

    async def set_disabled(self, tenant_id: UUID, disabled: bool) -> None:
        """Disable or enable a tenant.

        Raises:
            NotFound: no such tenant.
        """
        if tenant_id not in self._tenants:
            raise NotFound("There is no such tenant.")
        self._tenants[tenant_id] = replace(self._tenants[tenant_id], disabled=disabled)

    async def set_hmac_key(self, tenant_id: UUID, hmac_key_id: str) -> None:
        """Derive the downstream keys of new effects from another key.

        Raises:
            NotFound: no such tenant.
        """
        if tenant_id not in self._tenants:
            raise NotFound("There is no such tenant.")
        self._tenants[tenant_id] = replace(
            self._tenants[tenant_id], hmac_key_id=hmac_key_id
        )

    async def tenants(self) -> Sequence[Tenant]:
        """List tenants by slug."""
        return sorted(self._tenants.values(), key=lambda tenant: tenant.slug)

    async def add_key(
        self,
        tenant_id: UUID,
        key_id: str,
        secret_hash: bytes,
        scopes: Sequence[str],
        lifetime: timedelta | None,
    ) -> None:
        """Store a hashed API key."""
        slug = self._tenants[tenant_id].slug
        credential = Credential(key_id, tenant_id, slug, frozenset(scopes))
        now = self._now()
        ends_at = None if lifetime is None else now + lifetime
        self._keys[key_id] = _Key(credential, secret_hash, tuple(scopes), now, ends_at)

    async def rotate_key(
        self,
        key_id: str,
        new_key_id: str,
        secret_hash: bytes,
        lifetime: timedelta | None,
        *,
        overlap: timedelta,
    ) -> datetime | None:
        """Add a key in a live one's place; return when that one ends, None if it is
        dead.
        """
        old = self._keys.get(key_id)
        if old is None or self._state(old) in (KeyState.REVOKED, KeyState.EXPIRED):
            return None
        ends_at = min(filter(None, (old.expires_at, self._now() + overlap)))
        self._keys[key_id] = replace(old, expires_at=ends_at)
        await self.add_key(
            old.credential.tenant_id, new_key_id, secret_hash, old.scopes, lifetime
        )
        return ends_at

    async def key(self, key_id: str) -> tuple[Credential, bytes] | None:
        """Return a live key with its secret hash."""
        found = self._keys.get(key_id)
        if found is None or self._state(found) is not KeyState.LIVE:
            return None
        return found.credential, found.secret_hash

    async def keys(self, tenant_id: UUID | None = None) -> Sequence[ApiKey]:
        """List the keys of a tenant, or of all; dead ones too."""
        listed = [
            ApiKey(
                key_id=key_id,
                tenant_slug=found.credential.tenant_slug,
                scopes=found.scopes,
                created_at=found.created_at,
                expires_at=found.expires_at,
                revoked_at=found.revoked_at,
                last_used_at=found.last_used_at,
                state=self._state(found),
            )
            for key_id, found in self._keys.items()
            if tenant_id in (None, found.credential.tenant_id)
        ]
        return sorted(listed, key=lambda it: (it.tenant_slug, it.created_at, it.key_id))

    async def note_key_use(self, key_id: str) -> None:
        """Keep that a key opened now, unless it did within the hour."""
        found, now = self._keys.get(key_id), self._now()
        if found is None:
            return
        if found.last_used_at is None or found.last_used_at < now - timedelta(hours=1):
            self._keys[key_id] = replace(found, last_used_at=now)

    async def revoke_key(self, key_id: str) -> bool:
        """Revoke a key; False where there is none."""
        found = self._keys.get(key_id)
        if found is None:
            return False
        self._keys[key_id] = replace(found, revoked_at=found.revoked_at or self._now())
        return True

    async def publish(self, contract: EffectContract) -> tuple[PublishedContract, bool]:
        """Add a contract version (True), or return the equal one (False).

        Raises:
            ContractConflict: the version exists with another document.
        """
        named = (contract.name, contract.version)
        for stored in self._contracts:
            if (stored.contract.name, stored.contract.version) != named:
                continue
            if stored.digest != contract.digest():
                raise ContractConflict(
                    f"Contract {contract.name} {contract.version} is published with"
                    " another document; a change needs a new version."
                )
            self._routes[contract.tool] = stored.contract_id
            return replace(stored, active=True), False
        number = len(self._contracts) + 1
        published = PublishedContract(number, contract, contract.digest(), active=True)
        self._contracts.append(published)
        self._routes[contract.tool] = number
        return published, True

    async def contracts(self) -> Sequence[PublishedContract]:
        """Return every published contract."""
        return [
            replace(
                stored,
                active=self._routes[stored.contract.tool] == stored.contract_id,
            )
            for stored in self._contracts
        ]

    def _state(self, found: _Key) -> KeyState:
        if found.revoked_at is not None:
            return KeyState.REVOKED
        if found.expires_at is not None and found.expires_at <= self._now():
            return KeyState.EXPIRED
        if self._tenants[found.credential.tenant_id].disabled:
            return KeyState.TENANT_DISABLED
        return KeyState.LIVE

    def accepts(self, tenant_id: UUID, contract_id: int) -> bool:
        """Say whether a reservation may name this tenant and this contract."""
        tenant = self._tenants.get(tenant_id)
        known = 1 <= contract_id <= len(self._contracts)
        return known and tenant is not None and not tenant.disabled

    def contract(self, contract_id: int) -> EffectContract:
        """Return a published contract by its number."""
        return self._contracts[contract_id - 1].contract
