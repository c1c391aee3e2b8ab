"""Commands that hold all dispatch, say so, and release it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from effect_broker.surfaces.cli.given import whoami
from effect_broker.surfaces.cli.ground import AsJson, on_the_ledger, print_json

if TYPE_CHECKING:
    from effect_broker.ports import DispatchHold
    from effect_broker.wiring.core import Core

app = typer.Typer(no_args_is_help=True, help="Hold all dispatch, and release it.")


@app.command("status")
def status(as_json: AsJson = False) -> None:
    """Say whether dispatch is held, why, and since when."""

    async def run(core: Core) -> DispatchHold | None:
        return await core.ledger.dispatch_hold()

    held = on_the_ledger(run)
    if as_json:
        since = None if held is None else held.since.isoformat()
        reason = None if held is None else held.reason
        print_json({"held": held is not None, "reason": reason, "since": since})
    elif held is None:
        print("Dispatch goes on.")
    else:
        print(f"Held since {held.since:%Y-%m-%d %H:%M:%S} UTC: {held.reason}")


@app.command("hold")
def hold(
    reason: Annotated[str, typer.Option(help="Why; whoever looks is told.")],
) -> None:
    """Send nothing until dispatch is released; submissions go on."""

    async def run(core: Core) -> None:
        await core.ledger.hold_dispatch(f"{reason} ({whoami()})")

    on_the_ledger(run)
    print_json({"held": True})


@app.command("release")
def release() -> None:
    """Let dispatch go on.

    After a failover that may have lost commits, first compare what targets did in the
    last minutes with the ledger: `effect-broker audit`.
    """

    async def run(core: Core) -> Any:
        return await core.ledger.release_dispatch(whoami())

    print_json({"held": False, "was_held": on_the_ledger(run)})
