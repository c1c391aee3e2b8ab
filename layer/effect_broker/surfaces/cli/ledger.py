"""Commands about the ledger's tables: months, old payloads, and keys that rotate.

They need the rights of the ledger's owner, which the application does not have.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from effect_broker.surfaces.cli.ground import (
    AsJson,
    on_the_ledger,
    print_json,
    print_rows,
    progress,
    span,
)

if TYPE_CHECKING:
    from effect_broker.ledger.retention import PostgresRetention
    from effect_broker.wiring.core import Core

app = typer.Typer(no_args_is_help=True, help="Keep the ledger's tables in order.")

Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]


def month(text: str | date) -> date:
    """Read a month, such as 2026-03."""
    if isinstance(text, date):
        return text
    try:
        return date.fromisoformat(f"{text}-01")
    except ValueError:
        raise typer.BadParameter("A month is written like 2026-03.") from None


Month = Annotated[date | None, typer.Option(parser=month, metavar="YYYY-MM")]


@app.command("partitions")
def partitions(
    make: Annotated[
        bool, typer.Option("--make", help="Make the next months', if any is missing.")
    ] = False,
    archive: Month = None,
    drop: Month = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """List the months that have partitions; make, archive or drop some.

    Archiving leaves a tombstone of each effect, which still answers replays and
    conflicts, and detaches the month: copy it away then. Only an archived month can be
    dropped. A month with a live effect, or one that is not over, is refused.
    """
    if drop is not None and not yes:
        typer.confirm(f"Drop the archived month {drop:%Y-%m} for ever?", abort=True)

    async def run(core: Core) -> list[dict[str, Any]]:
        retention = _retention(core)
        if make:
            await retention.make_partitions()
        if archive is not None:
            await retention.archive_month(archive)
        if drop is not None:
            await retention.drop_archived_month(drop)
        return [
            {"month": f"{it.month:%Y-%m}", "state": "archived" if it.archived else "live"}
            for it in await retention.months()
        ]

    print_rows(
        on_the_ledger(run), ("month", "state"), as_json=as_json, empty="No partitions."
    )


@app.command("prune")
def prune(
    older_than: Annotated[
        timedelta,
        typer.Option(parser=span, metavar="SPAN", help="Since the effect ended: 90d."),
    ],
    yes: Yes = False,
) -> None:
    """Forget the payloads of effects that ended long ago; their identity stays.

    Replays and conflicts are answered as before. Arguments, results and evidence are gone
    for ever.
    """
    if not yes:
        question = f"Forget all payloads of effects that ended over {older_than} ago?"
        typer.confirm(question, abort=True)

    async def run(core: Core) -> int:
        pruned = 0
        with progress("pruned") as tell:
            async for count in _retention(core).prune(older_than):
                pruned += count
                tell(pruned)
        return pruned

    print_json({"pruned": on_the_ledger(run)})


@app.command("reencrypt")
def reencrypt() -> None:
    """Seal everything anew that stands under another data key than the active one.

    Runs beside all work, and may be interrupted and run again. Says which keys something
    still stands under: what an archived month holds is not reached.
    """

    async def run(core: Core) -> dict[str, Any]:
        from effect_broker.surfaces import rotation

        retention, done = _retention(core), rotation.Resealed()
        active = core.keyring.active_data_key
        with progress("resealed") as tell:
            async for done in rotation.reencrypt(retention, core.cipher, active):
                tell(done.resealed)
        data, _ = await retention.keys_in_use()
        return {
            "active_data_key": active,
            "resealed": done.resealed,
            "changed_meanwhile": done.passed,
            "data_keys_in_use": sorted(data),
        }

    print_json(on_the_ledger(run))


def _retention(core: Core) -> PostgresRetention:
    from effect_broker.ledger.retention import PostgresRetention

    return PostgresRetention(core.connections)
