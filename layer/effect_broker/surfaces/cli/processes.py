"""Commands that run a part of the broker as a plain process."""

from __future__ import annotations

import asyncio

import typer

from effect_broker.settings import Settings
from effect_broker.surfaces.cli.ground import print_json, refusals


def add_to(app: typer.Typer) -> None:
    """Add the commands to the root."""
    app.command()(serve)
    app.command()(migrate)


def serve(host: str = "127.0.0.1", port: int = 8080) -> None:
    """Serve the HTTP API until a signal ends the process."""
    from effect_broker.surfaces import http_process

    with refusals():
        asyncio.run(
            http_process.serve(
                Settings.from_environment(), host, port, announce=_print_address
            )
        )


def migrate() -> None:
    """Bring the ledger's schema to this release."""
    from effect_broker.wiring.sources import migrate as upgrade

    with refusals():
        print_json({"revision": upgrade(Settings.from_environment())})


def _print_address(address: str) -> None:
    print(address, flush=True)
