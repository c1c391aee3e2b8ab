"""Commands about the ledger itself: months, old payloads, and keys that rotate.

Most need the rights of the ledger's owner, which the application does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from effect_broker.surfaces.cli.ground import (
    REFUSED,
    AsJson,
    on_the_ledger,
    print_json,
    print_rows,
    progress,
    span,
    status_line,
)

if TYPE_CHECKING:
    from effect_broker.ledger.retention import Month as PartitionedMonth
    from effect_broker.ledger.retention import PostgresRetention
    from effect_broker.surfaces.rotation import KeysLeft, Rotation
    from effect_broker.wiring.core import Core

MONTHS_AHEAD: Final = 3

app = typer.Typer(no_args_is_help=True, help="Keep the ledger itself in order.")

Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
]


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
        bool, typer.Option("--make", help="Make this month's and the next, if missing.")
    ] = False,
    months_ahead: Annotated[
        int, typer.Option(min=0, max=24, help="How many next months --make makes.")
    ] = MONTHS_AHEAD,
    archive: Month = None,
    drop: Month = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """List the months that have partitions; make, archive or drop some.

    Archiving leaves a tombstone of each effect, which still answers replays and
    conflicts, and detaches the month: copy it away then. Only an archived month can be
    dropped. A month with a live effect, or one that is not over, is refused.
    """
    if (make, archive is not None, drop is not None).count(True) > 1:
        raise typer.BadParameter("Only one of --make, --archive and --drop.")
    for asked, chosen in (("Archive {}?", archive), ("Drop {}, for ever?", drop)):
        if chosen is not None and not yes and not dry_run:
            question = asked.format(_told(_planned(chosen)))
            typer.confirm(question, abort=True, err=True)

    async def run(core: Core) -> Sequence[PartitionedMonth]:
        retention = _retention(core)
        for chosen in (archive, drop):
            if chosen is not None and dry_run:
                return [await retention.month(chosen)]
        with status_line("changing partitions"):
            if make and not dry_run:
                await retention.make_partitions(months_ahead)
            if archive is not None:
                await retention.archive_month(archive)
            if drop is not None:
                await retention.drop_archived_month(drop)
        return await retention.months()

    rows = [_row(found) for found in on_the_ledger(run)]
    columns = ("month", "state", "effects", "live", "size")
    print_rows(rows, columns, as_json=as_json, empty="No partitions.")


@app.command("prune")
def prune(
    older_than: Annotated[
        timedelta,
        typer.Option(parser=span, metavar="SPAN", help="Since the effect ended: 90d."),
    ],
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Forget the payloads of effects that ended long ago; their identity stays.

    Replays and conflicts are answered as before. Arguments, previews and results are gone
    for ever. It runs beside all work, and may be interrupted and run again.
    """
    if dry_run or not yes:
        effects, size = _prunable(older_than)
        said = f"the payloads of {effects:,} effects, {_size(size)} sealed"
        if dry_run:
            _tell({"prunable": effects, "bytes": size}, f"Would forget {said}.", as_json)
            return
        typer.confirm(f"Forget {said}, for ever?", abort=True, err=True)

    async def run(core: Core) -> int:
        pruned = 0
        with progress("pruned") as tell:
            async for count in _retention(core).prune(older_than):
                pruned += count
                tell(pruned)
        return pruned

    pruned = on_the_ledger(run)
    _tell({"pruned": pruned}, f"Forgot the payloads of {pruned:,} effects.", as_json)


@app.command("reencrypt")
def reencrypt(dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Seal everything anew that stands under another data key than the active one.

    Runs beside all work, and may be interrupted and run again. Says what is left under
    each key, and which keys nothing stands under any more: those may leave the keyring.
    What an archived month holds is not reached. Ends with 1 where a value cannot be
    opened.
    """

    async def run(core: Core) -> tuple[Any, KeysLeft]:
        from effect_broker.surfaces.rotation import Resealed

        rotation, done = _rotation(core), Resealed()
        if dry_run:
            return done, await rotation.left()
        with progress("sealed anew") as tell:
            async for done in rotation.reencrypt():
                tell(done.resealed)
        with status_line("counting what is left under each key"):
            return done, await rotation.retire()

    done, left = on_the_ledger(run)
    _tell_rotation(done, left, as_json=as_json)
    if done.unreadable:
        raise typer.Exit(REFUSED)


def _planned(chosen: date) -> PartitionedMonth:
    return on_the_ledger(lambda core: _retention(core).month(chosen))


def _prunable(older_than: timedelta) -> tuple[int, int]:
    async def run(core: Core) -> tuple[int, int]:
        effects = size = 0
        with progress("looked at") as tell:
            async for found in _retention(core).prunable(older_than):
                effects, size = found.effects, found.bytes
                tell(effects)
        return effects, size

    return on_the_ledger(run)


def _tell(document: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        print(text)


def _tell_rotation(done: Any, left: KeysLeft, *, as_json: bool) -> None:
    rows = [
        {"data_key": key, "place": place, "values": count}
        for key, places in left.sealed.items()
        for place, count in places.items()
    ]
    if as_json:
        print_json(
            {
                "resealed": done.resealed,
                "changed_meanwhile": done.passed,
                "unreadable": done.unreadable,
                "named": [asdict(it) for it in done.named],
                "left": left.sealed,
                "data_keys_in_use": sorted(left.sealed),
                "hmac_keys_in_use": sorted(left.hmac),
                "retired": list(left.retired),
            }
        )
        return
    print(f"Sealed {done.resealed:,} values anew.")
    print_rows(rows, ("data_key", "place", "values"), as_json=False, empty="No value.")
    print(f"HMAC keys in use: {', '.join(sorted(left.hmac)) or 'none'}.")
    if left.retired:
        print(f"May leave the keyring: {', '.join(left.retired)}.")
    for it in done.named:
        print(f"Not opened: {it.place} of {it.effect_id}: {it.reason}")


def _row(found: PartitionedMonth) -> dict[str, Any]:
    state = "archived" if found.archived else "over" if found.over else "live"
    return {
        "month": f"{found.month:%Y-%m}",
        "state": state,
        "effects": found.effects,
        "live": found.live,
        "bytes": found.bytes,
        "size": _size(found.bytes),
    }


def _told(found: PartitionedMonth) -> str:
    many = "an unknown number of" if found.effects is None else f"about {found.effects:,}"
    return f"{found.month:%Y-%m} ({many} effects, {_size(found.bytes)})"


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _retention(core: Core) -> PostgresRetention:
    from effect_broker.ledger.retention import PostgresRetention

    return PostgresRetention(core.connections)


def _rotation(core: Core) -> Rotation:
    from effect_broker.ledger.key_use import PostgresKeyUse
    from effect_broker.surfaces.rotation import Rotation

    return Rotation(
        _retention(core),
        PostgresKeyUse(core.connections.fetch_again),
        core.cipher,
        core.keyring.active_data_key,
    )
