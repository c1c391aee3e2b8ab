"""One process of the broker, as a cell needs it: submitter, dispatcher, worker or nudged.

Its settings are those of any process, read from its environment; so are its failpoints.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from effect_broker.domain.errors import DispatchHeld, LedgerUnavailable
from effect_broker.domain.intent import EffectRequest
from effect_broker.settings import Settings
from effect_broker.telemetry import NullMeter
from effect_broker.wiring.core import Core
from effect_broker.wiring.workers import Workers
from examples.crash_matrix.matrix.times import GRACE_SECONDS

TENANT = "matrix"
CONNECTIONS = 4
PASS_SECONDS = 0.2
"""Between two passes of a worker: its sweep."""

Pass = Callable[[], Awaitable[Any]]
_log = logging.getLogger("matrix")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one role and return the exit status."""
    parser = argparse.ArgumentParser(prog="process", description=__doc__)
    roles = parser.add_subparsers(dest="role", required=True)
    for role in ("worker", "dispatcher"):
        working = roles.add_parser(role, help="make passes until killed")
        working.add_argument("--passes", type=Path, required=True)
    nudged = roles.add_parser("nudged", help="take one nudge several times, at once")
    nudged.add_argument("--effect", type=UUID, required=True)
    nudged.add_argument("--times", type=int, required=True)
    submitting = roles.add_parser("submitter", help="submit one order, several times")
    submitting.add_argument("--request", type=json.loads, required=True)
    submitting.add_argument("--times", type=int, default=1)
    submitting.add_argument("--answers", type=Path, required=True)
    given = parser.parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(process)d %(name)s %(message)s"
    )
    logging.getLogger("httpcore2").setLevel(logging.WARNING)
    try:
        asyncio.run(_run(given))
    except Exception:  # noqa: BLE001 - the outermost line of a process
        traceback.print_exc()
        return 1
    return 0


async def _run(given: argparse.Namespace) -> None:
    core = Core(Settings.from_environment(), NullMeter(), CONNECTIONS)
    match given.role:
        case "submitter":
            await _submit(core, given)
        case "nudged":
            await _take_nudges(Workers(core, "nudged"), given.effect, given.times)
        case "dispatcher":
            workers = Workers(core, "dispatcher")
            await _work([workers.dispatcher.run_once], given.passes)
        case _:
            workers = Workers(core, "worker")
            steps: Sequence[Pass] = [
                workers.sweep,
                workers.reconciler.run_once,
                workers.dispatcher.run_once,
            ]
            await _work(steps, given.passes)


async def _work(steps: Sequence[Pass], passes: Path) -> None:
    """Make passes until SIGTERM, and say how many.

    From then on nothing is begun; what is under way may end within the grace, and is
    cancelled then.
    """
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    working = asyncio.create_task(_passes(steps, passes, ending))
    told = asyncio.create_task(ending.wait())
    await asyncio.wait([working, told], return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    await asyncio.wait([working], timeout=GRACE_SECONDS)
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working


async def _passes(steps: Sequence[Pass], passes: Path, ending: asyncio.Event) -> None:
    count = 0
    while not ending.is_set():
        for step in steps:
            if ending.is_set():
                return
            await _step(step)
        count += 1
        passes.write_text(str(count))  # noqa: ASYNC240 - a few bytes
        with suppress(TimeoutError):
            async with asyncio.timeout(PASS_SECONDS):
                await ending.wait()


async def _step(step: Pass) -> None:
    try:
        _log.debug("%s", await step())
    except (LedgerUnavailable, DispatchHeld) as error:
        _log.warning("%s: %s", error.code, error.message)


async def _take_nudges(workers: Workers, effect_id: UUID, times: int) -> None:
    async def take() -> None:
        await _step(lambda: workers.dispatcher.run_once(effect_ids=[effect_id]))
        await _step(lambda: workers.reconciler.run_once(effect_ids=[effect_id]))

    await asyncio.gather(*(take() for _ in range(times)))


async def _submit(core: Core, given: argparse.Namespace) -> None:
    tenant = await core.registry.tenant(slug=TENANT)
    assert tenant is not None
    request = EffectRequest(**given.request)

    async def submit() -> dict[str, Any]:
        try:
            reserved = await core.broker.submit(tenant.tenant_id, request)
        except LedgerUnavailable as error:
            return {"unavailable": error.message}
        return {
            "effect_id": str(reserved.effect.effect_id),
            "created": reserved.created,
            "replayed": reserved.replayed,
            "status": str(reserved.effect.status),
        }

    answers = await asyncio.gather(*(submit() for _ in range(given.times)))
    given.answers.write_text(json.dumps(answers))


if __name__ == "__main__":
    sys.exit(main())
