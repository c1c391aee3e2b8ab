"""The audit command: the target's own books beside the ledger's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from effect_broker.surfaces.cli.ground import (
    REFUSED,
    AsJson,
    on_the_ledger,
    print_json,
    print_rows,
    status_line,
)

if TYPE_CHECKING:
    from effect_broker.broker.auditing import Audit, Finding
    from effect_broker.wiring.core import Core


def moment(text: str | datetime) -> datetime:
    """Read an instant: RFC 3339 with an offset, or a day of UTC."""
    if isinstance(text, datetime):
        return text
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter("Write 2026-03-01T12:00:00Z, or 2026-03-01.") from None
    if found.tzinfo is not None:
        return found
    if len(text) > len("2026-03-01"):
        raise typer.BadParameter("An instant needs its offset: 2026-03-01T12:00:00Z.")
    return found.replace(tzinfo=UTC)


def audit(
    tool: Annotated[str, typer.Argument(help="The tool whose contract has a listing.")],
    created_after: Annotated[
        datetime,
        typer.Option("--from", parser=moment, metavar="INSTANT", help="The beginning."),
    ],
    created_before: Annotated[
        datetime | None,
        typer.Option("--to", parser=moment, metavar="INSTANT", help="Now, unless given."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare what the target lists for a window with what the ledger holds.

    Finds effects without an object, objects without an effect, two objects for one key,
    and effects that the ledger calls failed or unknown though their object is there. It
    changes nothing. Ends with 1 where anything differs.
    """

    async def run(core: Core) -> Audit:
        from effect_broker.adapters.http_listing import HttpLister
        from effect_broker.broker.auditing import Auditor
        from effect_broker.domain.errors import UnknownTool
        from effect_broker.ledger.auditing import PostgresAuditReads
        from effect_broker.secrets import CachedSecrets
        from effect_broker.wiring.sources import secret_source

        published = await core.catalog.active(tool)
        if published is None:
            raise UnknownTool(f"No contract names the tool {tool!r}.")
        secrets = CachedSecrets(secret_source(core.settings), core.clock)
        lister = HttpLister(secrets, core.clock)
        try:
            with status_line(f"reading what {tool} lists"):
                return await Auditor(PostgresAuditReads(core.connections), lister).audit(
                    published.contract,
                    created_after=created_after,
                    created_before=created_before
                    or datetime.fromtimestamp(core.clock.wall(), UTC)
                    + timedelta(hours=1),
                )
        finally:
            await lister.aclose()

    found = on_the_ledger(run)
    _tell(found, as_json=as_json)
    if found.findings:
        raise typer.Exit(REFUSED)


def _tell(found: Audit, *, as_json: bool) -> None:
    rows = _rows(found.findings)
    summary = {
        "contract": found.contract.name,
        "from": found.created_after.isoformat(),
        "to": found.created_before.isoformat(),
        "effects": found.effects,
        "objects": found.objects,
        "undecided": found.undecided,
        "differences": len(rows),
    }
    if as_json:
        print_json({**summary, "findings": rows})
        return
    columns = ("found", "effect_id", "tenant", "operation_key", "status", "external_ids")
    shown = [{**row, "external_ids": ", ".join(row["external_ids"])} for row in rows]
    print_rows(shown, columns, as_json=False, empty="Nothing differs.")
    print(
        f"{found.effects} effects and {found.objects} objects read; {found.undecided} at"
        " the edge of the window are left undecided."
    )


def _rows(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    rows = []
    for finding in findings:
        effect = finding.effect
        rows.append(
            {
                "found": str(finding.discrepancy).replace("_", " "),
                "effect_id": None if effect is None else str(effect.effect_id),
                "tenant": None if effect is None else effect.tenant,
                "operation_key": None if effect is None else effect.operation_key,
                "status": None if effect is None else str(effect.status),
                "external_ids": list(finding.external_ids),
            }
        )
    return rows
