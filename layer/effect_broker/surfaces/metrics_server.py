"""What Prometheus reads of a process that serves nothing else."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.telemetry.prometheus import PrometheusMeter
from effect_broker.wiring.core import Core

_log: Final = logging.getLogger(__name__)


class Server(uvicorn.Server):
    """A server that leaves signals to the process that it is a part of."""

    def capture_signals(self) -> nullcontext[None]:  # type: ignore[override]
        """Take no signal."""
        return nullcontext()


async def rendered(core: Core, meter: PrometheusMeter) -> tuple[bytes, str]:
    """Return the metrics of a process and their media type; what is unproved is counted
    anew.
    """
    try:
        await core.measure_unknown()
    except LedgerUnavailable:
        _log.warning("gauges of unproved effects are stale: the ledger is away")
    return meter.render()


@asynccontextmanager
async def serving_metrics(
    core: Core, meter: PrometheusMeter, address: tuple[str, int]
) -> AsyncIterator[None]:
    """Serve `/metrics` and `/healthz` while the block runs.

    Raises:
        OSError: the address is taken, or is not this host's.
    """

    async def metrics(_: Request) -> Response:
        body, kind = await rendered(core, meter)
        return Response(body, media_type=kind)

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("alive")

    app = Starlette(routes=[Route("/metrics", metrics), Route("/healthz", healthz)])
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, lifespan="off"
    )
    with socket.create_server(address, reuse_port=False) as listening:
        server = Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield
        finally:
            server.should_exit = True
            await serving
