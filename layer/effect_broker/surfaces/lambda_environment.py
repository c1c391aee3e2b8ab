"""One Lambda environment: what outlives an invocation, and what may not."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from typing import Any, Final, Protocol, TypeVar

from effect_broker.settings import Settings
from effect_broker.telemetry.emf import EmfMeter
from effect_broker.telemetry.logs import configure_logging, set_level
from effect_broker.wiring.core import Core

_log: Final = logging.getLogger(__name__)

_T = TypeVar("_T")


class LambdaContext(Protocol):
    """What the handlers read of the runtime's context."""

    invoked_function_arn: str

    def get_remaining_time_in_millis(self) -> int:
        """Return what is left of the invocation."""


class LambdaEnvironment:
    """One event loop for as long as the environment lives, and one set of parts on it.

    Connections belong to a loop: a second loop in a warm environment would find them
    dead. Nothing is opened before the first invocation, so that an environment which
    cannot reach its database still answers, and says so. `seals` is False for what must
    work before there is a keyring.
    """

    def __init__(self, *, seals: bool = True) -> None:
        configure_logging()
        self._seals = seals
        self._loop = asyncio.new_event_loop()
        self._turn = threading.Lock()
        self.meter = EmfMeter()

    @cached_property
    def settings(self) -> Settings:
        """What this function was told.

        Raises:
            SettingsInvalid: a setting is missing or means nothing.
        """
        settings = Settings.from_environment()
        set_level(settings.log_level)
        return settings

    @cached_property
    def core(self) -> Core:
        """What the broker stands on here."""
        return Core(self.settings, self.meter, seals=self._seals)

    @contextmanager
    def invocation(self) -> Iterator[None]:
        """Hold what one invocation does: the loop is current, and is left empty.

        Whatever still runs when the handler returns would be frozen and wake in a later
        invocation: it is cancelled, and reported as the defect it is. Lambda invokes an
        environment once at a time; a program that calls a handler from several threads
        has them take turns, or one would end the work of another.
        """
        with self._turn:
            asyncio.set_event_loop(self._loop)
            try:
                yield
            finally:
                self._end_what_is_left()
                self.meter.flush()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run to its end on the environment's loop."""
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        """End the environment, where the process goes on without it."""
        if "core" in vars(self):
            self.run(self.core.connections.close())
        self._loop.close()
        asyncio.set_event_loop(None)

    def _end_what_is_left(self) -> None:
        left = asyncio.all_tasks(self._loop)
        if not left:
            return
        _log.error("tasks outlived their invocation", extra={"count": len(left)})
        for task in left:
            task.cancel()
        self.run(_ended(left))


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.wait(tasks)


def remaining(context: LambdaContext) -> timedelta:
    """Return what is left of the invocation."""
    return timedelta(milliseconds=context.get_remaining_time_in_millis())
