"""Commands that show the broker at work, out of the source checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from effect_broker.surfaces.cli.ground import REFUSED

MATRIX = Path("examples/crash_matrix/__main__.py")

app = typer.Typer(no_args_is_help=True, help="Show the broker at work.")


@app.command("crash-matrix")
def crash_matrix(
    quick: Annotated[
        bool, typer.Option("--quick", help="The cells that stand for the others.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Repeats the order and the delays of a run.")
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="TEXT", help="Cells whose name holds this text.")
    ] = "",
    deployed: Annotated[
        bool, typer.Option("--deployed", help="On the local AWS, against its functions.")
    ] = False,
) -> None:
    """Kill at every point of every safety class, and count the charges.

    Ends with 1 where a promise was broken, with 2 where a cell could not be played.
    """
    checkout = checkout_of(Path(__file__))
    if checkout is None:
        sys.stderr.write(
            "effect-broker: the crash matrix kills processes around a target of its own;"
            " both are in the source checkout and not in this package. Clone the"
            " repository, and run make crash-matrix there.\n"
        )
        raise typer.Exit(REFUSED)
    chosen = [
        "deployed" if deployed else "matrix",
        *(["--quick"] if quick else []),
        *(["--seed", str(seed)] if seed is not None else []),
        *(["--only", only] if only else []),
    ]
    # In a process of its own: what the package ships does not know the examples.
    done = subprocess.run(
        [sys.executable, "-m", "examples.crash_matrix", *chosen],
        cwd=checkout,
        check=False,
    )
    raise typer.Exit(done.returncode)


def checkout_of(module: Path) -> Path | None:
    """Return the checkout whose `layer/` holds this module, or None where the package is
    installed.
    """
    checkout = module.resolve().parents[4]
    return checkout if (checkout / MATRIX).is_file() else None
