"""Whose effects a command reaches: an operator at the database sees every tenant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from effect_broker.domain.errors import EffectNotFound, InvalidRequest, NotFound

if TYPE_CHECKING:
    from uuid import UUID

    from effect_broker.broker.inspecting import EffectView
    from effect_broker.ports import EffectQuery, Tenant
    from effect_broker.wiring.core import Core

PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Found:
    """An effect with its tenant's short name."""

    tenant: str
    view: EffectView


async def tenants(core: Core, slug: str | None) -> Sequence[Tenant]:
    """Return the named tenant, or all.

    Raises:
        NotFound: no tenant has this slug.
    """
    if slug is None:
        return await core.registry.tenants()
    found = await core.registry.tenant(slug=slug)
    if found is None:
        raise NotFound(f"There is no tenant {slug!r}.")
    return [found]


async def one_tenant(core: Core, slug: str | None) -> Tenant:
    """Return the named tenant, or the only one.

    Raises:
        NotFound: no tenant has this slug.
        InvalidRequest: none is named, and there is not exactly one.
    """
    found = await tenants(core, slug)
    if len(found) != 1:
        raise InvalidRequest("Which tenant? Name it with --tenant.")
    return found[0]


async def find_effect(core: Core, slug: str | None, text: str) -> tuple[Tenant, UUID]:
    """Return whose effect has this id; one look-up a tenant that may own it.

    Raises:
        EffectNotFound: nobody's has, or not the named tenant's.
    """
    from effect_broker.surfaces.requests import effect_id as parsed

    effect_id = parsed(text)
    for tenant in await tenants(core, slug):
        if await core.ledger.get(tenant.tenant_id, effect_id) is not None:
            return tenant, effect_id
    raise EffectNotFound("No effect has this id.")


async def newest_effects(
    core: Core, owners: Sequence[Tenant], query: EffectQuery, limit: int
) -> tuple[Sequence[Found], bool]:
    """Return the newest effects over all these tenants, and whether there are more."""
    found: list[Found] = []
    for owner in owners:
        views = await _pages(core, owner, query, limit + 1)
        found += [Found(owner.slug, view) for view in views]
    found.sort(key=lambda it: it.view.snapshot.intent.effect_id, reverse=True)
    return found[:limit], len(found) > limit


async def _pages(
    core: Core, owner: Tenant, query: EffectQuery, limit: int
) -> list[EffectView]:
    from effect_broker.broker.inspecting import Inspector
    from effect_broker.domain.contract import CLOCK_MARGIN

    inspector = Inspector(
        core.ledger, core.catalog, core.cipher, clock_margin=CLOCK_MARGIN
    )
    views: list[EffectView] = []
    after: UUID | None = None
    while len(views) < limit:
        wanted = min(PAGE, limit - len(views))
        page = await inspector.page(
            owner.tenant_id, replace(query, limit=wanted, after=after)
        )
        views += page
        if len(page) < wanted:
            break
        after = page[-1].snapshot.intent.effect_id
    return views
