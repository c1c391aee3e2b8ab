"""The HTTP surface as a plain process, with metrics of its own."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from effect_broker.settings import Settings
from effect_broker.surfaces.auth import Authenticator
from effect_broker.surfaces.http_api import HttpParts, create_app
from effect_broker.surfaces.limiting import Rate, RateLimiter
from effect_broker.surfaces.metrics_server import rendered
from effect_broker.surfaces.plain_process import check_keys
from effect_broker.telemetry.logs import configure_logging
from effect_broker.telemetry.prometheus import PrometheusMeter
from effect_broker.wiring.core import PROCESS_CONNECTIONS, Core


async def serve(
    settings: Settings, host: str, port: int, *, announce: Callable[[str], None]
) -> None:
    """Serve until a signal ends the process; requests under way are answered first.

    Port 0 takes a free one. `announce` is told the address once it accepts connections.

    Raises:
        CipherError: the keyring lacks keys on which stored work relies.
        OSError: the address is taken, or is not this host's.
    """
    configure_logging(settings.log_level)
    meter = PrometheusMeter()
    core = Core(settings, meter, PROCESS_CONNECTIONS)
    try:
        await check_keys(core)
        config = server_config(create_app(http_parts(core, meter)))
        with socket.create_server((host, port), reuse_port=False) as listening:
            announce("http://{}:{}".format(*listening.getsockname()[:2]))
            await uvicorn.Server(config).serve(sockets=[listening])
    finally:
        await core.connections.close()


def http_parts(core: Core, meter: PrometheusMeter) -> HttpParts:
    """Return what the HTTP API of a plain process stands on."""

    return HttpParts(
        broker=core.broker,
        authenticator=Authenticator(core.registry),
        ready=core.check_ready,
        metrics=partial(rendered, core, meter),
        limiter=RateLimiter(Rate.of(core.settings.rate_limit)),
        cors_origins=core.settings.cors_origins,
    )


def server_config(app: ASGIApp) -> uvicorn.Config:
    """Configure the server; its own access log would hold query strings."""
    return uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, lifespan="off"
    )
