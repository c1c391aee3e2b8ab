"""Commands that check and publish contracts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from effect_broker.surfaces.cli.ground import (
    REFUSED,
    AsJson,
    on_the_ledger,
    print_json,
    print_rows,
    refusals,
    status_line,
)

if TYPE_CHECKING:
    from effect_broker.verification.report import Report
    from effect_broker.wiring.core import Core

app = typer.Typer(no_args_is_help=True, help="Check and publish contracts.")

ContractPath = Annotated[Path, typer.Argument(help="A contract file, or a folder.")]


@app.command()
def validate(path: ContractPath, as_json: AsJson = False) -> None:
    """Check contracts without a ledger."""
    from effect_broker.contracts import load_contracts

    with refusals():
        rows = [
            {
                "tool": contract.tool,
                "name": contract.name,
                "version": contract.version,
                "safety": contract.safety,
                "guarantee": contract.guarantee,
            }
            for contract in load_contracts(path)
        ]
    columns = ("tool", "version", "safety", "guarantee")
    print_rows(rows, columns, as_json=as_json, empty="No contract there.")


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


@app.command()
def verify(
    path: ContractPath,
    against_sandbox: Annotated[
        bool,
        typer.Option("--against-sandbox", help="Yes, send requests to the sandbox."),
    ] = False,
    tool: Annotated[str | None, typer.Option(help="Only this tool's contract.")] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="An earlier report: are its keys still kept?"),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Where to write the report, for a later run.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try contracts out against their sandboxes, and say what each target proved.

    Sends real requests, under throw-away keys, to the place that [contracts.sandbox]
    names; no ledger takes part. Ends with 1 where a contract claims more than was seen.
    The proposed class is a proposal: nothing is written into the contract.
    """
    if not against_sandbox:
        raise typer.BadParameter(
            "This makes objects at the sandbox target; say --against-sandbox."
        )
    if resume is not None and not resume.is_file():
        raise typer.BadParameter(f"there is no {resume}.", param_hint="--resume")
    with refusals():
        earlier = None if resume is None else resume.read_text()
        reports = asyncio.run(_verified(path, tool, earlier))
    if report is not None:
        import json

        report.write_text("".join(json.dumps(it.document()) + "\n" for it in reports))
    for found in reports:
        _tell(found, as_json=as_json)
    if any(found.claims_too_much for found in reports):
        raise typer.Exit(REFUSED)


async def _verified(path: Path, tool: str | None, resumed: str | None) -> list[Report]:
    from effect_broker.contracts import load_contracts
    from effect_broker.domain.errors import UnknownTool
    from effect_broker.settings import Settings
    from effect_broker.surfaces import verifying
    from effect_broker.verification.report import earlier_keys

    settings = Settings.from_environment(ledger=False)
    earlier = {} if resumed is None else earlier_keys(resumed)
    chosen = [
        it
        for it in load_contracts(path)
        if (it.sandbox is not None if tool is None else it.tool == tool)
    ]
    if not chosen:
        raise UnknownTool(
            "No contract there has a sandbox."
            if tool is None
            else f"No contract: {tool}."
        )
    reports = []
    for contract in chosen:
        with status_line(contract.tool) as tell:
            reports.append(
                await verifying.verify(contract, settings, tell=tell, earlier=earlier)
            )
    return reports


def _tell(found: Report, *, as_json: bool) -> None:
    document = found.document()
    if as_json:
        print_json(document)
        return
    print(f"{found.contract.tool} ({found.contract.name} {found.contract.version})")
    rows = [
        {**row, "verdict": str(row["verdict"]).replace("_", " ")}
        for row in document["rows"]
    ]
    columns = ("about", "seen", "claimed", "verdict")
    print_rows(rows, columns, as_json=False, empty="")
    print(f"claims {found.contract.safety}; what was seen carries {found.proposed}\n")
