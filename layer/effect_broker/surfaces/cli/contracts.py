"""Commands that check and publish contracts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from effect_broker.surfaces.cli.ground import on_the_ledger, print_json, refusals

if TYPE_CHECKING:
    from effect_broker.wiring.core import Core

app = typer.Typer(no_args_is_help=True, help="Check and publish contracts.")

ContractPath = Annotated[Path, typer.Argument(help="A contract file, or a folder.")]


@app.command()
def validate(path: ContractPath) -> None:
    """Check contracts without a ledger."""
    from effect_broker.contracts import load_contracts

    with refusals():
        for contract in load_contracts(path):
            print_json({"tool": contract.tool, "guarantee": contract.guarantee})


@app.command()
def publish(path: ContractPath) -> None:
    """Publish contracts; new effects of their tools pin them from now on."""
    from effect_broker.surfaces.admin import Administration

    async def run(core: Core) -> Any:
        return await Administration(core.registry, ()).publish(path)

    for item, created in on_the_ledger(run):
        contract = item.contract
        print_json(
            {
                "tool": contract.tool,
                "name": contract.name,
                "version": contract.version,
                "created": created,
            }
        )
