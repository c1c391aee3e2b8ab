"""Plain processes beside the HTTP API: a worker, a reconciler, and how they end."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Final, Literal

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.settings import Settings
from effect_broker.surfaces.http_process import check_keys
from effect_broker.surfaces.looping import DRAIN_SECONDS, Loop
from effect_broker.telemetry.logs import configure_logging
from effect_broker.telemetry.prometheus import PrometheusMeter
from effect_broker.wiring.core import PROCESS_CONNECTIONS, Core
from effect_broker.wiring.workers import Workers

Kind = Literal["worker", "reconciler"]

_log: Final = logging.getLogger(__name__)


async def work(
    settings: Settings,
    kind: Kind,
    *,
    drain_seconds: float = DRAIN_SECONDS,
    metrics_port: int | None = None,
) -> None:
    """Send what is due, or reconcile and sweep, until a signal ends the process.

    The first SIGTERM or SIGINT stops claiming and lets what is under way end within
    `drain_seconds`; a second one cuts it short. What was cut is recorded as unknown. Any
    number of such processes may run on one ledger.

    Raises:
        CipherError: the keyring lacks keys on which stored work relies.
    """
    configure_logging(settings.log_level)
    meter = PrometheusMeter()
    core = Core(settings, meter, PROCESS_CONNECTIONS)
    stop = asyncio.Event()
    try:
        await check_keys(core)
        workers = Workers(core, kind)
        loop = loop_of(workers, kind, stop, drain_seconds=drain_seconds)
        async with metrics_server(core, meter, metrics_port):
            running = asyncio.create_task(loop.run())
            with signals(stop, running):
                _log.info("%s works", workers.name)
                await running
    except asyncio.CancelledError:
        _log.warning("a second signal cut the last pass short")
    finally:
        await core.connections.close()


def loop_of(
    workers: Workers,
    kind: Kind,
    stop: asyncio.Event,
    *,
    wake: asyncio.Event | None = None,
    drain_seconds: float = DRAIN_SECONDS,
) -> Loop:
    """Return the loop of one kind of worker; the reconciler's sweeps too."""
    loop = Loop(
        kind,
        workers.dispatcher if kind == "worker" else workers.reconciler,
        stop,
        before=workers.sweep if kind == "reconciler" else None,
        drain_seconds=drain_seconds,
    )
    if wake is not None:
        loop.wake = wake
    return loop


@contextmanager
def signals(stop: asyncio.Event, running: asyncio.Task[None]) -> Iterator[None]:
    """Set `stop` at the first signal and cancel `running` at the next."""
    loop = asyncio.get_running_loop()

    def received() -> None:
        if stop.is_set():
            running.cancel()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


class Server(uvicorn.Server):
    """A server that leaves signals to the process that it is a part of."""

    def capture_signals(self) -> nullcontext[None]:  # type: ignore[override]
        """Take no signal."""
        return nullcontext()


@asynccontextmanager
async def metrics_server(
    core: Core, meter: PrometheusMeter, port: int | None
) -> AsyncIterator[None]:
    """Serve `/metrics` and `/healthz` on the loopback while the block runs."""
    if port is None:
        yield
        return

    async def metrics(_: Request) -> Response:
        try:
            await core.measure_unknown()
        except LedgerUnavailable:
            _log.warning("gauges of unproved effects are stale: the ledger is away")
        body, kind = meter.render()
        return Response(body, media_type=kind)

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("alive")

    app = Starlette(routes=[Route("/metrics", metrics), Route("/healthz", healthz)])
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=port,
        log_config=None,
        access_log=False,
        lifespan="off",
    )
    server = Server(config)
    serving = asyncio.create_task(server.serve())
    try:
        yield
    finally:
        server.should_exit = True
        await serving
