"""Tenants as submit needs them: enabled, with the id of their key; read from the
registry, kept briefly.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from effect_broker.domain.errors import Forbidden
from effect_broker.ports import Clock, Registry, Tenant

REFRESH_SECONDS: Final = 5.0
"""How long a disabled tenant may still submit from a warm process."""


class Tenants:
    """Answers with a tenant that may submit."""

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        *,
        refresh_seconds: float = REFRESH_SECONDS,
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._refresh_seconds = refresh_seconds
        self._known: dict[UUID, tuple[float, Tenant]] = {}

    async def enabled(self, tenant_id: UUID) -> Tenant:
        """Return the tenant.

        Raises:
            Forbidden: there is no such tenant, or it is disabled.
        """
        now = self._clock.monotonic()
        read_at, tenant = self._known.get(tenant_id, (None, None))
        if read_at is None or now - read_at >= self._refresh_seconds:
            tenant = await self._registry.tenant(tenant_id=tenant_id)
            if tenant is not None:
                self._known[tenant_id] = (now, tenant)
        if tenant is None or tenant.disabled:
            raise Forbidden("This tenant may not submit.", scope="submit")
        return tenant
