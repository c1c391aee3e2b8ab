"""Commands that run a part of the broker as a plain process."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from effect_broker.settings import Settings
from effect_broker.surfaces.cli.ground import REFUSED, print_json, refusals

if TYPE_CHECKING:
    from effect_broker.surfaces.development import Ready

Drain = Annotated[
    float, typer.Option(min=0.0, help="Seconds that work under way has after a signal.")
]
MetricsPort = Annotated[
    int | None, typer.Option(help="Serve Prometheus metrics on this port of 127.0.0.1.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the root."""
    for command in (serve, worker, reconciler, dev, migrate):
        app.command()(command)


def serve(host: str = "127.0.0.1", port: int = 8080) -> None:
    """Serve the HTTP API until a signal ends the process."""
    from effect_broker.surfaces import http_process

    with refusals():
        asyncio.run(
            http_process.serve(
                Settings.from_environment(), host, port, announce=_print_address
            )
        )


def worker(drain: Drain = 30.0, metrics_port: MetricsPort = None) -> None:
    """Send what is due, until a signal ends the process; run as many as you like."""
    _work("worker", drain, metrics_port)


def reconciler(drain: Drain = 30.0, metrics_port: MetricsPort = None) -> None:
    """Reconcile lost answers and sweep, until a signal ends the process."""
    _work("reconciler", drain, metrics_port)


def dev(
    contracts: Annotated[
        Path | None, typer.Argument(help="Contracts to publish, and to watch.")
    ] = None,
    folder: Annotated[
        Path, typer.Option(help="Where database, keyring and API key are kept.")
    ] = Path(".effect-broker"),
    host: str = "127.0.0.1",
    port: int = 8080,
) -> None:
    """Run API, worker, reconciler and a PostgreSQL of its own in one process.

    For development: no AWS, no Docker, nothing to set up. Targets' credentials come from
    EFFECT_BROKER_SECRETS, as everywhere.
    """
    try:
        from effect_broker.embedded import EmbeddedPostgresError
        from effect_broker.surfaces import development
    except ModuleNotFoundError as error:
        sys.stderr.write(
            f"effect-broker: {error.name} is missing: pip install effect-broker[dev]\n"
        )
        raise typer.Exit(REFUSED) from None
    with refusals():
        try:
            asyncio.run(
                development.develop(
                    folder, contracts, host, port, say=_say, ready=_print_ready
                )
            )
        except (EmbeddedPostgresError, OSError) as error:
            sys.stderr.write(f"effect-broker: {error}\n")
            raise typer.Exit(REFUSED) from None


def migrate() -> None:
    """Bring the ledger's schema to this release."""
    from effect_broker.wiring.sources import migrate as upgrade

    with refusals():
        print_json({"revision": upgrade(Settings.from_environment())})


def _work(
    kind: Literal["worker", "reconciler"], drain: float, metrics_port: int | None
) -> None:
    from effect_broker.surfaces import plain_process

    with refusals():
        asyncio.run(
            plain_process.work(
                Settings.from_environment(),
                kind,
                drain_seconds=drain,
                metrics_port=metrics_port,
            )
        )


def _print_address(address: str) -> None:
    print(address, flush=True)


def _say(doing: str) -> None:
    sys.stderr.write(f"{doing} …\n")


def _print_ready(ready: Ready) -> None:
    tools = ", ".join(ready.tools) or "none yet: give a file or a folder of contracts"
    print(
        f"export EFFECT_BROKER_URL={ready.url}\n"
        f"export EFFECT_BROKER_API_KEY={ready.api_key}\n"
        f"# tools: {tools}\n"
        "curl -sS $EFFECT_BROKER_URL/v1/tools"
        ' -H "Authorization: Bearer $EFFECT_BROKER_API_KEY"',
        flush=True,
    )
