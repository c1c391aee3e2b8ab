"""Commands that set up tenants and their API keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from effect_broker.surfaces.cli.ground import on_the_ledger, print_json

if TYPE_CHECKING:
    from effect_broker.wiring.core import Core

app = typer.Typer(no_args_is_help=True, help="Set up tenants.")
keys = typer.Typer(no_args_is_help=True, help="Set up API keys.")


@app.command("create")
def create_tenant(
    slug: str, name: str | None = None, hmac_key_id: str | None = None
) -> None:
    """Create a tenant, or show the one that has the slug."""
    from effect_broker.surfaces.admin import Administration

    async def run(core: Core) -> Any:
        administration = Administration(core.registry, core.keyring.hmac_keys)
        return await administration.create_tenant(slug, name or slug, hmac_key_id)

    tenant, created = on_the_ledger(run)
    print_json({"tenant_id": str(tenant.tenant_id), "slug": slug, "created": created})


@keys.command("create")
def create_key(
    tenant: str,
    scope: Annotated[list[str], typer.Option(help="submit, read or operate.")],
) -> None:
    """Make an API key; it is shown this once."""
    from effect_broker.surfaces.admin import Administration

    async def run(core: Core) -> Any:
        return await Administration(core.registry, ()).create_key(tenant, scope)

    made = on_the_ledger(run)
    print_json({"key_id": made.key_id, "key": made.key})
