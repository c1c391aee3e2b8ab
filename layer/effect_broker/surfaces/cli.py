"""The command line: a broker on a plain machine, and what an operator sets up.

Exit status: 0 done, 1 refused, 2 misused, 3 the ledger cannot be reached.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from effect_broker.domain.errors import EffectBrokerError, LedgerUnavailable
from effect_broker.settings import Settings
from effect_broker.telemetry import NullMeter
from effect_broker.wiring.core import Core

REFUSED: Final = 1
AWAY: Final = 3

_T = TypeVar("_T")

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
contracts = typer.Typer(no_args_is_help=True, help="Check and publish contracts.")
tenants = typer.Typer(no_args_is_help=True, help="Set up tenants.")
keys = typer.Typer(no_args_is_help=True, help="Set up API keys.")
app.add_typer(contracts, name="contracts")
app.add_typer(tenants, name="tenants")
app.add_typer(keys, name="keys")

ContractPath = Annotated[Path, typer.Argument(help="A contract file, or a folder.")]


def main() -> None:
    """Run the command line."""
    app()


@app.callback()
def _root() -> None:
    """Send a mutating call at most as often as its target can prove."""


@app.command()
def serve(host: str = "127.0.0.1", port: int = 8080) -> None:
    """Serve the HTTP API until a signal ends the process."""
    from effect_broker.surfaces import http_process

    with _refusals():
        asyncio.run(
            http_process.serve(
                Settings.from_environment(), host, port, announce=_print_address
            )
        )


@app.command()
def migrate() -> None:
    """Bring the ledger's schema to this release."""
    from effect_broker.wiring.sources import migrate as upgrade

    with _refusals():
        _print({"revision": upgrade(Settings.from_environment())})


@contracts.command()
def validate(path: ContractPath) -> None:
    """Check contracts without a ledger."""
    from effect_broker.contracts import load_contracts

    with _refusals():
        for contract in load_contracts(path):
            _print({"tool": contract.tool, "guarantee": contract.guarantee})


@contracts.command()
def publish(path: ContractPath) -> None:
    """Publish contracts; new effects of their tools pin them from now on."""
    from effect_broker.surfaces.admin import Administration

    async def run(core: Core) -> Any:
        return await Administration(core.registry, ()).publish(path)

    for item, created in _on_the_ledger(run):
        contract = item.contract
        _print(
            {
                "tool": contract.tool,
                "name": contract.name,
                "version": contract.version,
                "created": created,
            }
        )


@tenants.command("create")
def create_tenant(
    slug: str, name: str | None = None, hmac_key_id: str | None = None
) -> None:
    """Create a tenant, or show the one that has the slug."""
    from effect_broker.surfaces.admin import Administration

    async def run(core: Core) -> Any:
        administration = Administration(core.registry, core.keyring.hmac_keys)
        return await administration.create_tenant(slug, name or slug, hmac_key_id)

    tenant, created = _on_the_ledger(run)
    _print({"tenant_id": str(tenant.tenant_id), "slug": slug, "created": created})


@keys.command("create")
def create_key(
    tenant: str,
    scope: Annotated[list[str], typer.Option(help="submit, read or operate.")],
) -> None:
    """Make an API key; it is shown this once."""
    from effect_broker.surfaces.admin import Administration

    async def run(core: Core) -> Any:
        return await Administration(core.registry, ()).create_key(tenant, scope)

    made = _on_the_ledger(run)
    _print({"key_id": made.key_id, "key": made.key})


def _on_the_ledger(use: Callable[[Core], Awaitable[_T]]) -> _T:
    """Run one use of the ledger in a process that ends with it."""

    async def run() -> _T:
        core = Core(Settings.from_environment(), NullMeter())
        try:
            return await use(core)
        finally:
            await core.connections.close()

    with _refusals():
        return asyncio.run(run())


@contextmanager
def _refusals() -> Iterator[None]:
    """End the process with a line and a status, where the broker refuses."""
    try:
        yield
    except LedgerUnavailable as error:
        sys.stderr.write(f"effect-broker: {error.message}\n")
        raise typer.Exit(AWAY) from None
    except EffectBrokerError as error:
        sys.stderr.write(f"effect-broker: {error.message}\n")
        raise typer.Exit(REFUSED) from None


def _print(line: dict[str, Any]) -> None:
    print(json.dumps(line))


def _print_address(address: str) -> None:
    print(address, flush=True)
