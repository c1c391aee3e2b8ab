"""What the cells act on: the stack, its database beside the functions, and its queues."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal

import psycopg

from effect_broker.cipher import Keyring
from effect_broker.settings import Settings
from effect_broker.surfaces.admin import Administration
from effect_broker.telemetry import NullMeter
from effect_broker.wiring.core import Core
from examples.crash_matrix.deployed.gates import TABLE_GATE
from examples.crash_matrix.matrix.grounds import BUSINESS_TABLE
from examples.crash_matrix.stack import Stack
from examples.crash_matrix.user import User
from examples.crash_matrix.workers import Pauses

CONTRACTS: Final = Path(__file__).parent / "contracts.toml"

REDELIVERED_AFTER_SECONDS: Final = 30
"""How long the queues hide a nudge while the matrix runs: the deployment's six minutes
would outlast it, and what a killed worker had not deleted is to come again.
"""

Queue = Literal["dispatch", "reconcile"]


@dataclass
class Ground:
    """The stack and what is shared by the cells that are played on it."""

    stack: Stack
    user: User
    pauses: Pauses
    one_at_a_time: Lock = field(default_factory=Lock)
    """Whoever brings a worker to its point, or kills it, is alone: workers take several
    effects at once, and a cell should lose no other cell's worker.
    """

    @property
    def database_url(self) -> str:
        """The ledger's database, for its owner."""
        return self.stack.values["DATABASE_URL"]

    def queue_url(self, queue: Queue) -> str:
        """Return the address of a queue of nudges."""
        return self.stack.values[f"{queue.upper()}_QUEUE_URL"]

    def nudge(self, effect_id: str, times: int) -> None:
        """Put the effect's nudge into both queues again."""
        for queue in ("dispatch", "reconcile"):
            for _ in range(times):
                self.stack.aws("sqs").send_message(
                    QueueUrl=self.queue_url(queue),
                    MessageBody=json.dumps({"effect_id": effect_id}),
                )


@contextmanager
def ground(stack: Stack) -> Iterator[Ground]:
    """Put T's table and contract beside what `make up` made, and hurry redelivery.

    At the end no worker is left paused, and the queues are as they were.
    """
    asyncio.run(_prepare(stack))
    for service in ("lambda", "scheduler", "sqs"):
        stack.aws(service)  # made once, ahead of the threads
    with stack.caller() as user, Pauses() as pauses:
        here = Ground(stack, user, pauses)
        with _redelivered_soon(here):
            yield here


async def _prepare(stack: Stack) -> None:
    url = stack.values["DATABASE_URL"]
    table = BUSINESS_TABLE.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS")
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(table.encode())
        await connection.execute(TABLE_GATE.encode())
    keyring = stack.workspace.keyring_file
    settings = Settings(database_url=url, keyring=f"file:{keyring}")
    core = Core(settings, NullMeter())
    try:
        hmac_keys = Keyring.from_json(keyring.read_text()).hmac_keys
        await Administration(core.registry, hmac_keys).publish(CONTRACTS)
    finally:
        await core.connections.close()


@contextmanager
def _redelivered_soon(here: Ground) -> Iterator[None]:
    sqs = here.stack.aws("sqs")
    urls = [here.queue_url("dispatch"), here.queue_url("reconcile")]
    before = {url: attribute(here.stack, url, "VisibilityTimeout") for url in urls}
    try:
        for url in urls:
            # What whoever was killed before had not deleted is hidden for longer. Nudges
            # may be lost, and the sweeps find what they were about.
            sqs.purge_queue(QueueUrl=url)
            _hide_for(sqs, url, str(REDELIVERED_AFTER_SECONDS))
        yield
    finally:
        for url, seconds in before.items():
            _hide_for(sqs, url, seconds)


def _hide_for(sqs: Any, url: str, seconds: str) -> None:
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": seconds})


def attribute(stack: Stack, url: str, name: str) -> str:
    """Return an attribute of a queue."""
    asked = stack.aws("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=[name])
    return str(asked["Attributes"][name])
