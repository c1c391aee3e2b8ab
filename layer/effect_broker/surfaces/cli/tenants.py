"""Commands that set up tenants and their API keys."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from effect_broker.surfaces.cli.ground import (
    AsJson,
    on_the_ledger,
    print_json,
    print_rows,
    span,
)

if TYPE_CHECKING:
    from effect_broker.ports import ApiKey, Tenant
    from effect_broker.surfaces.admin import Administration
    from effect_broker.wiring.core import Core

app = typer.Typer(no_args_is_help=True, help="Set up tenants.")
keys = typer.Typer(no_args_is_help=True, help="Set up API keys.")

Slug = Annotated[str, typer.Argument(help="The tenant's short name.")]
KeyId = Annotated[str, typer.Argument(help="The part of the key after ebk_, public.")]
Lifetime = Annotated[
    timedelta | None,
    typer.Option(parser=span, metavar="SPAN", help="The key ends by itself after it."),
]


@app.command("create")
def create_tenant(
    slug: Slug, name: str | None = None, hmac_key_id: str | None = None
) -> None:
    """Create a tenant, or show the one that has the slug."""

    async def run(core: Core) -> Any:
        administration = _administration(core, core.keyring.hmac_keys)
        return await administration.create_tenant(slug, name or slug, hmac_key_id)

    tenant, created = on_the_ledger(run)
    print_json({"tenant_id": str(tenant.tenant_id), "slug": slug, "created": created})


@app.command("list")
def list_tenants(as_json: AsJson = False) -> None:
    """List tenants, disabled ones too."""

    async def run(core: Core) -> Any:
        return await core.registry.tenants()

    print_rows(
        [_tenant_row(tenant) for tenant in on_the_ledger(run)],
        ("slug", "name", "tenant_id", "hmac_key_id", "disabled"),
        as_json=as_json,
        empty="No tenant yet: effect-broker tenants create SLUG",
    )


@app.command("disable")
def disable_tenant(slug: Slug) -> None:
    """Stop a tenant's keys and new effects; what is recorded goes on to its end."""
    _set_disabled(slug, True)


@app.command("enable")
def enable_tenant(slug: Slug) -> None:
    """Let a disabled tenant submit again, with the keys that it has."""
    _set_disabled(slug, False)


@app.command("rekey")
def rekey_tenant(
    slug: Slug,
    hmac_key_id: Annotated[str, typer.Option(help="An HMAC key of the keyring.")],
) -> None:
    """Derive a tenant's new downstream keys from another HMAC key; stored ones stay."""

    async def run(core: Core) -> Any:
        administration = _administration(core, core.keyring.hmac_keys)
        return await administration.rekey(slug, hmac_key_id)

    print_json(_tenant_row(on_the_ledger(run)))


@keys.command("create")
def create_key(
    tenant: Slug,
    scope: Annotated[list[str], typer.Option(help="submit, read or operate.")],
    expires_in: Lifetime = None,
) -> None:
    """Make an API key; it is shown this once."""

    async def run(core: Core) -> Any:
        return await _administration(core).create_key(tenant, scope, expires_in)

    made = on_the_ledger(run)
    print_json({"key_id": made.key_id, "key": made.key})


@keys.command("list")
def list_keys(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    as_json: AsJson = False,
) -> None:
    """List API keys with what became of them; no secret is kept that could be shown."""

    async def run(core: Core) -> Any:
        if tenant is None:
            return await core.registry.keys()
        owner = await _administration(core).tenant(tenant)
        return await core.registry.keys(owner.tenant_id)

    print_rows(
        [_key_row(key) for key in on_the_ledger(run)],
        ("key_id", "tenant", "scopes", "state", "created_at", "last_used_at", "ends_at"),
        as_json=as_json,
        empty="No key yet: effect-broker keys create SLUG --scope submit",
    )


@keys.command("rotate")
def rotate_key(
    key_id: KeyId,
    overlap: Annotated[
        timedelta,
        typer.Option(
            parser=span,
            metavar="SPAN",
            show_default="24h",
            help="How long the old key opens on.",
        ),
    ] = timedelta(hours=24),
    expires_in: Lifetime = None,
) -> None:
    """Make a key in another's place; both open until the overlap has passed."""

    async def run(core: Core) -> Any:
        return await _administration(core).rotate_key(
            key_id, overlap=overlap, lifetime=expires_in
        )

    made, ends_at = on_the_ledger(run)
    print_json({"key_id": made.key_id, "key": made.key, "old_key_ends_at": ends_at})


@keys.command("revoke")
def revoke_key(key_id: KeyId) -> None:
    """End a key now; a warm process believes it for five seconds more."""

    async def run(core: Core) -> Any:
        return await _administration(core).revoke_key(key_id)

    on_the_ledger(run)
    print_json({"key_id": key_id, "revoked": True})


def _set_disabled(slug: str, disabled: bool) -> None:
    async def run(core: Core) -> Any:
        return await _administration(core).set_disabled(slug, disabled)

    print_json(_tenant_row(on_the_ledger(run)))


def _administration(core: Core, hmac_key_ids: Any = ()) -> Administration:
    from effect_broker.surfaces.admin import Administration

    return Administration(core.registry, hmac_key_ids)


def _tenant_row(tenant: Tenant) -> dict[str, Any]:
    return {**asdict(tenant), "tenant_id": str(tenant.tenant_id)}


def _key_row(key: ApiKey) -> dict[str, Any]:
    return {
        "key_id": key.key_id,
        "tenant": key.tenant_slug,
        "scopes": " ".join(key.scopes),
        "state": str(key.state),
        "created_at": key.created_at,
        "last_used_at": key.last_used_at,
        "ends_at": key.revoked_at or key.expires_at,
    }
