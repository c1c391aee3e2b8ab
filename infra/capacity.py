"""How many environments functions may have, and so how many connections there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# One for the work, one more while an unknown COMMIT is settled on a second connection.
CONNECTIONS_PER_ENVIRONMENT = 2

# PostgreSQL slows down long before it refuses: this is what a small Aurora Serverless v2
# writer serves well, not the thousand and more that it would accept.
CONNECTION_BUDGET = 150


@dataclass(frozen=True)
class Capacity:
    """Reserved concurrency of each function.

    Reserved concurrency times connections is the only bound on the database's
    connections that needs no proxy, so that a sum over the budget is refused here.
    """

    submit: int = 40
    dispatch: int = 20
    reconcile: int = 10
    mcp: int = 4
    migrate: int = 1
    budget: int = CONNECTION_BUDGET

    def __post_init__(self) -> None:
        if self.connections > self.budget:
            raise ValueError(
                f"{self.connections} connections may be opened, {self.budget} are allowed"
            )

    @property
    def connections(self) -> int:
        """The most connections that all environments can hold at one moment."""
        workers = self.dispatch + self.reconcile
        environments = self.submit + self.mcp + workers + self.migrate
        return environments * CONNECTIONS_PER_ENVIRONMENT

    def queue_concurrency(self, worker: Literal["dispatch", "reconcile"]) -> int:
        """Environments a queue may occupy: one fewer than reserved, kept for the sweep.

        A mapping that may take all of them is throttled by its own sweep, and a
        throttled message counts as a delivery on its way to the dead-letter queue.
        """
        reserved = self.dispatch if worker == "dispatch" else self.reconcile
        return reserved - 1


PRODUCTION_CAPACITY = Capacity()

# Processes on a laptop beside a PostgreSQL that accepts 100 connections.
LOCAL_CAPACITY = Capacity(submit=24, dispatch=8, reconcile=4, mcp=2, budget=80)
