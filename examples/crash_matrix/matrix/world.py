"""The world of one cell: its order, its ledger, its processes, and what it tells."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

import psycopg

from effect_broker.failpoints import Act, Failpoint, notes_of
from effect_broker.ports import Snapshot
from effect_broker.settings import Settings
from effect_broker.telemetry import NullMeter
from effect_broker.wiring.core import Core
from examples.crash_matrix.matrix.cells import TOOLS, Cell
from examples.crash_matrix.matrix.children import Child
from examples.crash_matrix.matrix.cutting import Proxy, proxy_before
from examples.crash_matrix.matrix.grounds import KEYRING, Grounds
from examples.crash_matrix.matrix.process import TENANT
from examples.crash_matrix.matrix.times import ATTEMPT_SECONDS, SETTLEMENT_SECONDS
from examples.crash_matrix.user import Order

POLL_SECONDS = 0.1
READY_CONNECTIONS = 2

T = TypeVar("T")


class NotPlayed(Exception):
    """The cell could not be carried out, which says nothing about any promise."""


@dataclass
class World:
    """One cell's own; `story` is what its player did, by the wall clock."""

    grounds: Grounds
    cell: Cell
    order: Order
    folder: Path
    url: str
    core: Core
    database: Proxy
    network: Proxy
    tenant_id: UUID
    story: list[tuple[float, str]] = field(default_factory=list)
    children: list[Child] = field(default_factory=list)
    effect_ids: set[str] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)
    """Promises that were seen broken while the cell was played."""

    def say(self, text: str) -> None:
        """Put a line into the story."""
        self.story.append((time.time(), text))

    async def start(
        self,
        role: str,
        *arguments: str,
        at: Failpoint | None = None,
        act: Act = Act.KILL,
        through_proxy: bool = False,
    ) -> Child:
        """Start a process of this cell, with an order for one failpoint or none."""
        number = len(self.children)
        name = f"{role}-{number}"
        environment = {
            "EFFECT_BROKER_DATABASE_URL": self._database_url(through_proxy),
            "EFFECT_BROKER_KEYRING": KEYRING,
            "EFFECT_BROKER_SECRET__DEMO__BASE_URL": (
                f"http://127.0.0.1:{self.network.port}"
            ),
        }
        if at is not None:
            orders = self.folder / f"{name}.json"
            orders.write_text(json.dumps({at: {"act": act}}))
            environment["EFFECT_BROKER_FAILPOINTS"] = str(orders)
        if role in ("worker", "dispatcher"):
            arguments = (*arguments, "--passes", str(self._passes(name)))
        log = self.folder / f"{name}.log"
        child = await self.grounds.nursery.make(
            name, (role, *arguments), environment, log
        )
        self.children.append(child)
        return child

    async def submit(
        self,
        times: int = 1,
        *,
        at: Failpoint | None = None,
        act: Act = Act.KILL,
        through_proxy: bool = False,
    ) -> Child:
        """Submit the order, `times` at once, in a process of its own."""
        answers = self.folder / f"answers-{len(self.children)}.json"
        return await self.start(
            "submitter",
            "--request",
            json.dumps(self.order.submission),
            "--times",
            str(times),
            "--answers",
            str(answers),
            at=at,
            act=act,
            through_proxy=through_proxy,
        )

    async def submitted(self, times: int = 1) -> list[dict[str, Any]]:
        """Submit and return the answers.

        Raises:
            NotPlayed: the submitter did not come to an end.
        """
        child = await self.submit(times)
        await self.wait_for(_ended(child), "a submission ends", seconds=20)
        return self.answers_of(child)

    def answers_of(self, child: Child) -> list[dict[str, Any]]:
        """Read what a submitter was answered; it may have died before it could say."""
        number = child.name.rpartition("-")[2]
        path = self.folder / f"answers-{number}.json"
        answers = json.loads(path.read_text()) if path.exists() else []
        self.effect_ids |= {a["effect_id"] for a in answers if "effect_id" in a}
        return list(answers)

    async def snapshot(self) -> Snapshot | None:
        """Return the effect as it stands, once there is one."""
        found = await self.core.ledger.find(self.tenant_id, self.order.operation_key)
        if found is None:
            return None
        self.effect_ids.add(str(found.intent.effect_id))
        return await self.core.ledger.get(self.tenant_id, found.intent.effect_id)

    async def attempts_held(self) -> int:
        """Count the claims to send that stand, lapsed ones included."""
        async with await psycopg.AsyncConnection.connect(self.url) as reading:
            found = await reading.execute(
                "SELECT FROM effect_broker.effect_work WHERE status = 'dispatching'"
            )
            return found.rowcount

    @asynccontextmanager
    async def business_table_locked(self) -> AsyncIterator[Callable[[], Awaitable[bool]]]:
        """Lock T's table for the block; what is yielded says whether somebody waits."""
        async with await psycopg.AsyncConnection.connect(self.url) as locking:
            await locking.execute("LOCK TABLE public.charges")

            async def is_waited_for() -> bool:
                found = await locking.execute(
                    "SELECT FROM pg_locks WHERE relation = 'public.charges'::regclass"
                    " AND NOT granted"
                )
                return found.rowcount > 0

            yield is_waited_for

    def reached(self, child: Child) -> list[str]:
        """Return the lines of the failpoints that a process has come to."""
        notes = notes_of(self.folder / f"{child.name}.json")
        return notes.read_text().splitlines() if notes.exists() else []

    def passes(self, child: Child) -> int:
        """Return how many passes a worker has made."""
        with suppress(FileNotFoundError, ValueError):
            return int(self._passes(child.name).read_text())
        return 0

    async def more_passes(self, child: Child, count: int) -> None:
        """Wait until a worker has made some more passes, or is no more."""
        until = self.passes(child) + count
        await self.wait_until(
            lambda: not child.is_alive or self.passes(child) >= until,
            f"{count} passes of {child.name}",
        )

    async def wait_until(
        self, is_so: Callable[[], bool], what: str, *, seconds: float = 30
    ) -> None:
        """Look again and again.

        Raises:
            NotPlayed: it did not come to be in time.
        """

        async def look() -> bool:
            return is_so()

        await self.until(look, what, seconds=seconds)

    async def until(
        self, is_so: Callable[[], Awaitable[bool]], what: str, *, seconds: float = 30
    ) -> None:
        """Ask again and again.

        Raises:
            NotPlayed: it did not come to be in time.
        """
        deadline = time.monotonic() + seconds
        while not await is_so():
            if time.monotonic() > deadline:
                raise NotPlayed(f"not within {seconds:g} s: {what}")
            await asyncio.sleep(POLL_SECONDS)

    async def wait_for(self, event: Awaitable[T], what: str, *, seconds: float = 30) -> T:
        """Wait for something.

        Raises:
            NotPlayed: it did not come to be in time.
        """
        try:
            async with asyncio.timeout(seconds):
                return await event
        except TimeoutError:
            raise NotPlayed(f"not within {seconds:g} s: {what}") from None

    async def fault(self, fault: str, on: str) -> None:
        """Queue a fault of the target for the order's next request.

        Where it is a delay, it ends long after the caller has given up, and just before
        the settlement bound is over.
        """
        await self.at_target(
            self.grounds.target.fault,
            fault,
            order=self.order.order,
            on=on,
            seconds=ATTEMPT_SECONDS + SETTLEMENT_SECONDS - 0.2,
        )

    async def at_target(self, call: Callable[..., T], *given: Any, **named: Any) -> T:
        """Ask the target's control surface, beside the loop."""
        return await asyncio.to_thread(call, *given, **named)

    def _database_url(self, through_proxy: bool) -> str:
        """Return what the processes get: the application's role, as in a deployment."""
        parts = urlsplit(self.url)
        port = self.database.port if through_proxy else parts.port
        place = f"{self.grounds.application}@127.0.0.1:{port}"
        return parts._replace(netloc=place).geturl()

    def _passes(self, name: str) -> Path:
        return self.folder / f"{name}.passes"


async def _ended(child: Child) -> None:
    await child.ended()


@asynccontextmanager
async def open_world(grounds: Grounds, cell: Cell, number: int) -> AsyncIterator[World]:
    """Make a cell's world; its processes are killed and its ledger goes at the end."""
    folder = grounds.folder / f"cell-{number}"
    folder.mkdir()
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(grounds.ledger(f"cell_{number}"))
        environment: Mapping[str, Any] = {"database_url": url, "keyring": KEYRING}
        core = Core(Settings(**environment), NullMeter(), READY_CONNECTIONS)
        stack.push_async_callback(core.connections.close)
        tenant = await core.registry.tenant(slug=TENANT)
        assert tenant is not None
        world = World(
            grounds=grounds,
            cell=cell,
            order=Order(TOOLS[cell.scenario], f"matrix-{number}"),
            folder=folder,
            url=url,
            core=core,
            database=await stack.enter_async_context(
                proxy_before(grounds.server.port, is_database=True)
            ),
            network=await stack.enter_async_context(proxy_before(grounds.target_port)),
            tenant_id=tenant.tenant_id,
        )
        try:
            yield world
        finally:
            for child in world.children:
                child.kill()
            for child in world.children:
                await child.ended()
            await world.at_target(grounds.target.release, world.order.order)
