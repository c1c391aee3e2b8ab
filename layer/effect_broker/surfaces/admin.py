"""What an operator sets up: tenants, keys, contracts; by IAM or a shell, not by a key."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from effect_broker.contracts import load_contracts
from effect_broker.domain.errors import InvalidRequest, NotFound
from effect_broker.ports import PublishedContract, Registry, Tenant
from effect_broker.surfaces.auth import NewApiKey, check_scopes, new_api_key

_SLUG: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")


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

    async def create_key(self, slug: str, scopes: Collection[str]) -> NewApiKey:
        """Make an API key for a tenant; its secret is returned once and kept nowhere.

        Raises:
            NotFound: no tenant has this slug.
            InvalidRequest: the scopes are none, or unknown.
        """
        allowed = check_scopes(scopes)
        tenant = await self.registry.tenant(slug=slug)
        if tenant is None:
            raise NotFound(f"There is no tenant {slug!r}.")
        made = new_api_key()
        await self.registry.add_key(
            tenant.tenant_id, made.key_id, made.secret_hash, allowed, None
        )
        return made

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
