"""What an operator sets up: tenants, keys, contracts; by IAM or a shell, not by a key."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from effect_broker.contracts import load_contracts
from effect_broker.domain.errors import InvalidRequest, NotFound
from effect_broker.ports import PublishedContract, Registry, Tenant
from effect_broker.surfaces.auth import NewApiKey, check_scopes, new_api_key

_SLUG: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")

OVERLAP: Final = timedelta(hours=24)
"""How long a key opens beside the one that takes its place, unless told: a deployment of
every caller fits into a day."""


@dataclass(frozen=True, slots=True)
class Administration:
    """Writes to the registry on an operator's word.

    `hmac_key_ids` are the keys that downstream keys may be derived from.
    """

    registry: Registry
    hmac_key_ids: Collection[str]

    async def create_tenant(
        self, slug: str, name: str, hmac_key_id: str | None = None
    ) -> tuple[Tenant, bool]:
        """Create a tenant, or return the one with this slug unchanged (False).

        Raises:
            InvalidRequest: no slug, or which HMAC key is meant is open.
        """
        if not _SLUG.fullmatch(slug):
            raise InvalidRequest(
                "slug must be 1 to 40 lower-case letters, digits and inner dashes."
            )
        existing = await self.registry.tenant(slug=slug)
        if existing is not None:
            return existing, False
        return await self.registry.create_tenant(slug, name, self._hmac_key(hmac_key_id))

    async def tenant(self, slug: str) -> Tenant:
        """Return a tenant.

        Raises:
            NotFound: no tenant has this slug.
        """
        tenant = await self.registry.tenant(slug=slug)
        if tenant is None:
            raise NotFound(f"There is no tenant {slug!r}.")
        return tenant

    async def set_disabled(self, slug: str, disabled: bool) -> Tenant:
        """Stop a tenant's new reservations and keys, or let them go on.

        What is recorded already goes on to its end.

        Raises:
            NotFound: no tenant has this slug.
        """
        tenant = await self.tenant(slug)
        await self.registry.set_disabled(tenant.tenant_id, disabled)
        return replace(tenant, disabled=disabled)

    async def rekey(self, slug: str, hmac_key_id: str) -> Tenant:
        """Derive a tenant's downstream keys from another HMAC key from now on.

        What is reserved keeps its key, which no rotation changes.

        Raises:
            NotFound: no tenant has this slug.
            InvalidRequest: the keyring has no such key.
        """
        tenant, key_id = await self.tenant(slug), self._hmac_key(hmac_key_id)
        await self.registry.set_hmac_key(tenant.tenant_id, key_id)
        return replace(tenant, hmac_key_id=key_id)

    async def create_key(
        self, slug: str, scopes: Collection[str], lifetime: timedelta | None = None
    ) -> NewApiKey:
        """Make an API key for a tenant; its secret is returned once and kept nowhere.

        Raises:
            NotFound: no tenant has this slug.
            InvalidRequest: the scopes are none, or unknown.
        """
        allowed = check_scopes(scopes)
        tenant = await self.tenant(slug)
        made = new_api_key()
        await self.registry.add_key(
            tenant.tenant_id, made.key_id, made.secret_hash, allowed, lifetime
        )
        return made

    async def rotate_key(
        self, key_id: str, *, overlap: timedelta, lifetime: timedelta | None = None
    ) -> tuple[NewApiKey, datetime]:
        """Make a key in a live one's place; both open until the instant that is returned.

        The new key has the old one's tenant and scopes.

        Raises:
            NotFound: no live key has this id.
        """
        made = new_api_key()
        ends_at = await self.registry.rotate_key(
            key_id, made.key_id, made.secret_hash, lifetime, overlap=overlap
        )
        if ends_at is None:
            raise NotFound("There is no live key with this id.")
        return made, ends_at

    async def revoke_key(self, key_id: str) -> None:
        """End a key; the first revocation stands.

        Raises:
            NotFound: no key has this id.
        """
        if not await self.registry.revoke_key(key_id):
            raise NotFound("There is no key with this id.")

    async def publish(self, path: Path) -> Sequence[tuple[PublishedContract, bool]]:
        """Publish every contract of a file or folder; True marks the new ones.

        All files are read before any contract is published.

        Raises:
            ContractInvalid: a contract that cannot be loaded.
            ContractConflict: a version that exists with another document.
        """
        return [await self.registry.publish(item) for item in load_contracts(path)]

    def _hmac_key(self, asked: str | None) -> str:
        known = sorted(self.hmac_key_ids)
        if asked is None and len(known) == 1:
            return known[0]
        if asked not in known:
            raise InvalidRequest(f"hmac_key_id must be one of {', '.join(known)}.")
        return asked
