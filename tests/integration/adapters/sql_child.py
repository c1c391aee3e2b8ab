"""A worker that a test kills: one pass of a dispatcher over a database."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from effect_broker.domain.outcome import Outcome
from effect_broker.ports import Claim, LocalMutation, StepFor, Transacted, Transactor
from tests.integration.adapters.sql_world import sql_world


class DiesAfterCommit:
    """Kills its process between the commit and whatever would follow."""

    def __init__(self, inner: Transactor) -> None:
        self.inner = inner

    async def transact(
        self, claim: Claim, mutation: LocalMutation, step_for: StepFor
    ) -> Transacted | Outcome:
        await self.inner.transact(claim, mutation, step_for)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


async def main(url: str, dies: bool) -> None:
    async with sql_world(url) as world:
        transactor = DiesAfterCommit(world.transactor) if dies else world.transactor
        await world.sql_dispatcher(transactor).run_once()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], dies="after_commit" in sys.argv[2:]))
