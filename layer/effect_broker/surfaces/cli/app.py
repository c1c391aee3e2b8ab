"""The command line's root: a broker on a plain machine, and what an operator does."""

from __future__ import annotations

import typer

from effect_broker.surfaces.cli import (
    audit,
    contracts,
    demo,
    dispatching,
    doctor,
    effects,
    ledger,
    mcp,
    processes,
    tenants,
)

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
app.add_typer(effects.app, name="effects")
app.add_typer(contracts.app, name="contracts")
app.add_typer(tenants.app, name="tenants")
app.add_typer(tenants.keys, name="keys")
app.add_typer(dispatching.app, name="dispatch")
app.add_typer(ledger.app, name="ledger")
app.add_typer(demo.app, name="demo")
app.command("audit")(audit.audit)
app.command("mcp")(mcp.mcp)
app.command("doctor")(doctor.doctor)
processes.add_to(app)


def main() -> None:
    """Run the command line."""
    app(prog_name="effect-broker")


@app.callback()
def _root() -> None:
    """Send a mutating call at most as often as its target can prove."""
