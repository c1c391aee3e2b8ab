"""The audit command: the target's own books beside the ledger's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

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
    from effect_broker.broker.auditing import Audit
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
        from effect_broker.surfaces import auditing

        with status_line(f"reading what {tool} lists"):
            return await auditing.audit(core, tool, created_after, created_before)

    found = on_the_ledger(run)
    _tell(found, as_json=as_json)
    if found.findings:
        raise typer.Exit(REFUSED)


def _tell(found: Audit, *, as_json: bool) -> None:
    from effect_broker.surfaces.auditing import rows, summary

    findings = rows(found.findings)
    if as_json:
        print_json({**summary(found), "findings": findings})
        return
    columns = ("found", "effect_id", "tenant", "operation_key", "status", "external_ids")
    shown = [{**row, "external_ids": ", ".join(row["external_ids"])} for row in findings]
    print_rows(shown, columns, as_json=False, empty="Nothing differs.")
    print(
        f"{found.effects} effects and {found.objects} objects read; {found.undecided} at"
        " the edge of the window are left undecided."
    )
