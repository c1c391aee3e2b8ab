"""One process of the broker, as a cell needs it: submitter, dispatcher, worker or nudged.

Its settings are those of any process, read from its environment; so are its failpoints.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from effect_broker.broker.dispatch import DispatchReport
from effect_broker.domain.errors import DispatchHeld, LedgerUnavailable
from effect_broker.domain.intent import EffectRequest
from effect_broker.settings import Settings
from effect_broker.surfaces.looping import Loop
from effect_broker.surfaces.plain_process import signals
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
    """Make passes until a signal ends the process, and say how many.

    Loop and drain are those of `effect-broker worker`; only the passes are the matrix's.
    """
    stop = asyncio.Event()
    rounds = _Rounds(steps, passes, stop)
    loop = Loop("matrix", rounds, stop, drain_seconds=GRACE_SECONDS)
    running = asyncio.create_task(loop.run())
    with signals(stop, running):
        await running


@dataclass
class _Rounds:
    """Sweeps, reconciles and dispatches in one pass, and counts the passes in a file."""

    steps: Sequence[Pass]
    file: Path
    stop: asyncio.Event
    made: int = 0

    async def run_once(
        self,
        *,
        effect_ids: Sequence[UUID] | None = None,
        budget: timedelta | None = None,
    ) -> DispatchReport:
        """Make a pass, and the wait for the next; after a signal nothing is begun."""
        for step in self.steps:
            if not self.stop.is_set():
                await _step(step)
        self.made += 1
        self.file.write_text(str(self.made))
        with suppress(TimeoutError):
            async with asyncio.timeout(PASS_SECONDS):
                await self.stop.wait()
        return DispatchReport(more=True)


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
