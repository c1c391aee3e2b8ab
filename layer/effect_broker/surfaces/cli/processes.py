"""Commands that run a part of the broker as a plain process."""

from __future__ import annotations

import asyncio
import errno
import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from effect_broker.settings import Settings
from effect_broker.surfaces.cli.ground import REFUSED, print_json, refusals

if TYPE_CHECKING:
    from effect_broker.surfaces.development import Ready

_NOT_TO_BE_HAD: Final = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)

Drain = Annotated[
    float, typer.Option(min=0.0, help="Seconds that work under way has after a signal.")
]
MetricsPort = Annotated[
    int | None, typer.Option(help="Serve Prometheus metrics on this port.")
]
MetricsHost = Annotated[str, typer.Option(help="The address of the metrics.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the root."""
    for command in (serve, worker, reconciler, dev, migrate):
        app.command()(command)


def serve(host: str = "127.0.0.1", port: int = 8080) -> None:
    """Serve the HTTP API until a signal ends the process."""
    with refusals(), _had("http"):
        from effect_broker.surfaces import http_process

        asyncio.run(
            http_process.serve(
                Settings.from_environment(), host, port, announce=_print_address
            )
        )


def worker(
    drain: Drain = 30.0,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
) -> None:
    """Send what is due, until a signal ends the process; run as many as you like."""
    _work("worker", drain, metrics_host, metrics_port)


def reconciler(
    drain: Drain = 30.0,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
) -> None:
    """Reconcile lost answers and sweep, until a signal ends the process."""
    _work("reconciler", drain, metrics_host, metrics_port)


def dev(
    contracts: Annotated[
        Path | None,
        typer.Argument(help="Contracts to publish and watch."),
    ] = None,
    folder: Annotated[
        Path, typer.Option(help="Where database, keyring and API key are kept.")
    ] = Path(".effect-broker"),
    host: str = "127.0.0.1",
    port: int = 8080,
) -> None:
    """Run API, worker, reconciler and a PostgreSQL of its own in one process.

    For development: no AWS, no Docker, nothing to set up. Without contracts there is one
    to try, whose target is simulated. Targets' credentials come from
    EFFECT_BROKER_SECRETS, as everywhere.
    """
    with refusals(), _had("dev"):
        from effect_broker.embedded import EmbeddedPostgresError
        from effect_broker.surfaces import development

        try:
            asyncio.run(
                development.develop(
                    folder, contracts, host, port, say=_say, ready=_print_ready
                )
            )
        except (EmbeddedPostgresError, development.AlreadyRunning) as error:
            sys.stderr.write(f"effect-broker: {error}\n")
            raise typer.Exit(REFUSED) from None


def migrate() -> None:
    """Bring the ledger's schema to this release."""
    from effect_broker.wiring.sources import migrate as upgrade

    with refusals():
        print_json({"revision": upgrade(Settings.from_environment())})


def _work(
    kind: Literal["worker", "reconciler"],
    drain: float,
    metrics_host: str,
    metrics_port: int | None,
) -> None:
    from effect_broker.surfaces import plain_process

    metrics = None if metrics_port is None else (metrics_host, metrics_port)
    with refusals(), _had("http"):
        asyncio.run(
            plain_process.work(
                Settings.from_environment(),
                kind,
                drain_seconds=drain,
                metrics=metrics,
            )
        )


@contextmanager
def _had(extras: str) -> Iterator[None]:
    """End with a line where this machine lacks a package or the address."""
    try:
        yield
    except ModuleNotFoundError as error:
        said = f"{error.name} is missing: pip install effect-broker[{extras}]"
    except OSError as error:
        if error.errno not in _NOT_TO_BE_HAD:
            raise
        said = f"the address cannot be had: {error.strerror}"
    else:
        return
    sys.stderr.write(f"effect-broker: {said}\n")
    raise typer.Exit(REFUSED)


def _print_address(address: str) -> None:
    print(address, flush=True)


def _say(doing: str) -> None:
    sys.stderr.write(f"{doing} …\n")


def _print_ready(ready: Ready) -> None:
    print(f"export EFFECT_BROKER_URL={ready.url}")
    print(f"export EFFECT_BROKER_API_KEY={ready.api_key}")
    print(f"# the command line, in another shell: . {ready.environment}")
    print(f"# tools: {', '.join(ready.tools) or 'none'}")
    for tool, why in ready.unsent.items():
        print(f"# nothing can be sent for {tool}: {why}")
    authorized = '-H "Authorization: Bearer $EFFECT_BROKER_API_KEY"'
    print(f"curl -sS $EFFECT_BROKER_URL/v1/tools {authorized}")
    if ready.request is not None:
        body = shlex.quote(json.dumps(ready.request))
        print(
            f"curl -sS $EFFECT_BROKER_URL/v1/effects {authorized}"
            f" -H 'Content-Type: application/json' -H 'Prefer: wait=10' -d {body}"
        )
    sys.stdout.flush()
