"""Plain processes: a worker, a reconciler, and how any of them starts and ends.

Without metrics this needs neither a web framework nor a metrics library.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, Literal

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.settings import Settings
from effect_broker.surfaces.looping import DRAIN_SECONDS, Loop
from effect_broker.telemetry import NullMeter
from effect_broker.telemetry.logs import configure_logging
from effect_broker.wiring.core import PROCESS_CONNECTIONS, Core
from effect_broker.wiring.workers import Workers

Kind = Literal["worker", "reconciler"]

_log: Final = logging.getLogger(__name__)


async def work(
    settings: Settings,
    kind: Kind,
    *,
    drain_seconds: float = DRAIN_SECONDS,
    metrics: tuple[str, int] | None = None,
) -> None:
    """Send what is due, or reconcile and sweep, until a signal ends the process.

    The first SIGTERM or SIGINT stops claiming and lets what is under way end within
    `drain_seconds`; a second one cuts it short. What was cut is recorded as unknown. Any
    number of such processes may run on one ledger. `metrics` is the host and the port at
    which Prometheus may read.

    Raises:
        CipherError: the keyring lacks keys on which stored work relies.
        OSError: the address of the metrics is not to be had.
    """
    configure_logging(settings.log_level)
    async with _core(settings, metrics) as core:
        await check_keys(core)
        workers = Workers(core, kind)
        stop = asyncio.Event()
        loop = loop_of(workers, kind, stop, drain_seconds=drain_seconds)
        try:
            running = asyncio.create_task(loop.run())
            with signals(stop, running):
                _log.info("%s works", workers.name)
                await running
        except asyncio.CancelledError:
            _log.warning("a second signal cut the last pass short")


@asynccontextmanager
async def _core(
    settings: Settings, metrics: tuple[str, int] | None
) -> AsyncIterator[Core]:
    """Yield what the process stands on, and serve its metrics where they are wanted."""
    if metrics is None:
        core = Core(settings, NullMeter(), PROCESS_CONNECTIONS)
        try:
            yield core
        finally:
            await core.connections.close()
        return
    from effect_broker.surfaces.metrics_server import serving_metrics
    from effect_broker.telemetry.prometheus import PrometheusMeter

    meter = PrometheusMeter()
    core = Core(settings, meter, PROCESS_CONNECTIONS)
    try:
        async with serving_metrics(core, meter, metrics):
            yield core
    finally:
        await core.connections.close()


async def check_keys(core: Core) -> None:
    """Refuse to start without the keys that stored work needs; a ledger that is away is
    waited for, or answered for with refusals, until it is back.

    Raises:
        CipherError: the keyring lacks keys.
    """
    try:
        await core.check_keys()
    except LedgerUnavailable:
        _log.warning("the keyring was not checked: the ledger is away")


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
