"""Tenants, API keys and contracts in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import ContractConflict, NotFound
from effect_broker.domain.timing import NO_WAIT
from effect_broker.ledger.connection import Call, Connections, Row
from effect_broker.ledger.queries import statements
from effect_broker.ledger.rows import milliseconds
from effect_broker.ports import ApiKey, Credential, KeyState, PublishedContract, Tenant

_SQL: Final = statements("registry")


class PostgresRegistry:
    """`Registry` on PostgreSQL."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        # Documents are immutable and their digest is their identity.
        self._read: dict[bytes, EffectContract] = {}

    async def tenant(
        self, *, slug: str | None = None, tenant_id: UUID | None = None
    ) -> Tenant | None:
        """Return a tenant by slug or id."""
        found = await self._call("tenant", slug=slug, tenant_id=tenant_id)
        return _tenant(found[0]) if found else None

    async def create_tenant(
        self, slug: str, name: str, hmac_key_id: str
    ) -> tuple[Tenant, bool]:
        """Create a tenant, or return the one with this slug (False).

        Its id is random, not ordered by time: turns between tenants start anywhere.
        """
        found = await self._call(
            "create_tenant",
            tenant_id=uuid4(),
            slug=slug,
            name=name,
            hmac_key_id=hmac_key_id,
        )
        return _tenant(found[0]), found[0].created

    async def set_disabled(self, tenant_id: UUID, disabled: bool) -> None:
        """Disable or enable a tenant.

        Raises:
            NotFound: no such tenant.
        """
        found = await self._call("set_disabled", tenant_id=tenant_id, disabled=disabled)
        if not found[0].found:
            raise NotFound("There is no such tenant.")

    async def set_hmac_key(self, tenant_id: UUID, hmac_key_id: str) -> None:
        """Derive the downstream keys of new effects from another key; stored ones stay.

        Raises:
            NotFound: no such tenant.
        """
        found = await self._call(
            "set_hmac_key", tenant_id=tenant_id, hmac_key_id=hmac_key_id
        )
        if not found[0].found:
            raise NotFound("There is no such tenant.")

    async def tenants(self) -> Sequence[Tenant]:
        """List tenants by slug."""
        return [_tenant(found) for found in await self._call("tenants")]

    async def add_key(
        self,
        tenant_id: UUID,
        key_id: str,
        secret_hash: bytes,
        scopes: Sequence[str],
        lifetime: timedelta | None,
    ) -> None:
        """Store a hashed API key."""
        await self._connections.fetch(
            Call(
                _SQL["add_key"],
                {
                    "tenant_id": tenant_id,
                    "key_id": key_id,
                    "secret_hash": secret_hash,
                    "scopes": list(scopes),
                    "lifetime_ms": _optional_ms(lifetime),
                },
            )
        )

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
        found = await self._call(
            "rotate_key",
            key_id=key_id,
            new_key_id=new_key_id,
            secret_hash=secret_hash,
            lifetime_ms=_optional_ms(lifetime),
            overlap_ms=milliseconds(overlap),
        )
        ends_at: datetime | None = found[0].old_key_ends_at
        return ends_at

    async def keys(self, tenant_id: UUID | None = None) -> Sequence[ApiKey]:
        """List the keys of a tenant, or of all; dead ones too."""
        return [
            ApiKey(
                key_id=row.key_id,
                tenant_slug=row.slug,
                scopes=tuple(row.scopes),
                created_at=row.created_at,
                expires_at=row.expires_at,
                revoked_at=row.revoked_at,
                last_used_at=row.last_used_at,
                state=KeyState(row.state),
            )
            for row in await self._call("keys", tenant_id=tenant_id)
        ]

    async def key(self, key_id: str) -> tuple[Credential, bytes] | None:
        """Return a live key with its secret hash."""
        found = await self._call("key", key_id=key_id)
        if not found:
            return None
        row = found[0]
        credential = Credential(
            row.key_id, row.tenant_id, row.slug, frozenset(row.scopes)
        )
        return credential, row.secret_hash

    async def note_key_use(self, key_id: str) -> None:
        """Keep that a key opened now, unless that was kept within the hour."""
        await self._call("note_key_use", key_id=key_id)

    async def revoke_key(self, key_id: str) -> bool:
        """Revoke a key; False where there is none."""
        found = await self._call("revoke_key", key_id=key_id)
        return bool(found[0].found)

    async def publish(self, contract: EffectContract) -> tuple[PublishedContract, bool]:
        """Add a contract version (True), or return the equal one (False); makes it
        active.

        Raises:
            ContractConflict: the version exists with another document.
        """
        digest = contract.digest()
        found = await self._call(
            "publish",
            tool=contract.tool,
            name=contract.name,
            version=contract.version,
            document=contract.document(),
            digest=digest,
            safety=contract.safety.value,
            attempt_ms=milliseconds(contract.attempt_timeout),
            probe_ms=milliseconds(contract.probe_timeout),
            lease_ms=milliseconds(contract.lease),
            settlement_ms=milliseconds(contract.settlement_bound or NO_WAIT),
            retention_ms=(
                None
                if contract.key_retention is None
                else contract.key_retention // timedelta(milliseconds=1)
            ),
            submit_ms=milliseconds(contract.submit_deadline),
        )
        row = found[0]
        if row.digest != digest:
            raise ContractConflict(
                f"Contract {contract.name} {contract.version} is published with another"
                " document; a change needs a new version."
            )
        return PublishedContract(row.contract_id, contract, digest, True), row.created

    async def contracts(self) -> Sequence[PublishedContract]:
        """Return every published contract; a document that was read before is kept."""
        return [
            PublishedContract(
                row.contract_id,
                self._contract(row.digest, row.document),
                row.digest,
                row.active,
            )
            for row in await self._call("contracts")
        ]

    def _contract(self, digest: bytes, document: bytes) -> EffectContract:
        if digest not in self._read:
            self._read[digest] = EffectContract.from_document(document)
        return self._read[digest]

    async def _call(self, statement: str, /, **parameters: Any) -> list[Row]:
        return await self._connections.fetch_again(Call(_SQL[statement], parameters))


def _tenant(row: Row) -> Tenant:
    return Tenant(row.tenant_id, row.slug, row.name, row.hmac_key_id, row.disabled)


def _optional_ms(duration: timedelta | None) -> int | None:
    return None if duration is None else milliseconds(duration)
