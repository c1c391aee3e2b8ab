"""Gates that keep a worker waiting for its target: the only points that are reached from
outside a function.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import psutil
import psycopg

from examples.crash_matrix.matrix.cells import Place
from examples.crash_matrix.matrix.playing import HOLDS
from examples.crash_matrix.stack import Function, Stack
from examples.crash_matrix.workers import Worker, WorkerNotFound, holder
from localstack.workers import workers

GATE: Final = 6
"""A class of advisory locks, for nobody else in this database."""

VISITS_MAX: Final = 1000
"""More than attempts and lookups of one effect can be."""

TABLE_GATE: Final = f"""
    CREATE OR REPLACE FUNCTION public.charges_gate() RETURNS trigger
    LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock_shared({GATE}, hashtext(NEW.order_name));
        RETURN NEW;
    END
    $$;
    CREATE OR REPLACE TRIGGER gate BEFORE INSERT ON public.charges
        FOR EACH ROW EXECUTE FUNCTION public.charges_gate()
"""
"""What lets the mutation of one order wait, within its transaction."""

WAITS: Final = """
    SELECT a.client_port FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
    WHERE l.locktype = 'advisory' AND NOT l.granted AND l.classid = %(gate)s::oid
        AND l.objid = (hashtext(%(order)s)::bigint & 4294967295)::oid
"""


class Gate(Protocol):
    """Keeps whoever comes to one point of one order waiting, from `shut` to `open`."""

    def shut(self) -> None:
        """Let the next one wait."""

    def stay_shut(self) -> None:
        """Let everybody wait who comes."""

    def is_waited_at(self) -> bool:
        """Say whether somebody waits now."""

    def who(self) -> Worker:
        """Return the worker that waits.

        Raises:
            WorkerNotFound: nobody waits any more, or it is no worker of this stack.
        """

    def let_others_pass(self) -> None:
        """Let nobody wait but who waits already, where a gate can tell them apart."""

    def open(self) -> None:
        """Let whoever waits go on."""


def gate_at(place: Place, stack: Stack, order: str) -> Gate:
    """Return the gate of a place."""
    if place is Place.MUTATION:
        return TableGate(stack, order)
    return TargetGate(stack, order, place)


@dataclass
class TargetGate:
    """The target holds a request of the order, or its answer."""

    stack: Stack
    order: str
    place: Place

    def shut(self) -> None:
        """Let the target hold the next one."""
        self._hold(1)

    def stay_shut(self) -> None:
        """Let the target hold each one, until it is told otherwise."""
        self._hold(VISITS_MAX)

    def is_waited_at(self) -> bool:
        """Say whether the target holds one now."""
        return bool(self.stack.target.wait_held(self.order, count=0, seconds=0))

    def who(self) -> Worker:
        """Return the worker at the other end of the connection."""
        probing = self.place is Place.PROBE_ON_THE_WAY
        function: Function = "reconcile" if probing else "dispatch"
        return holder(self.stack, function, self.order)

    def let_others_pass(self) -> None:
        """Let the target hold nobody else."""
        self.stack.target.forget_faults(self.order)

    def open(self) -> None:
        """Let the target go on."""
        self.stack.target.forget_faults(self.order)
        self.stack.target.release(self.order)

    def _hold(self, times: int) -> None:
        fault, on = HOLDS[self.place]
        self.stack.target.fault(fault, order=self.order, on=on, times=times)


@dataclass
class TableGate:
    """A lock in the database, at which the mutation of the order waits."""

    stack: Stack
    order: str
    _holding: psycopg.Connection[Any] | None = field(default=None, init=False)

    def shut(self) -> None:
        """Take the lock."""
        self._holding = psycopg.connect(self._url, autocommit=True)
        take = "SELECT pg_advisory_lock(%s, hashtext(%s))"
        self._holding.execute(take, [GATE, self.order])

    def is_waited_at(self) -> bool:
        """Say whether a mutation waits for the lock."""
        return bool(self._ports())

    def who(self) -> Worker:
        """Return the worker at the other end of the waiting session."""
        ports = self._ports()
        name = self.stack.name_of("dispatch")
        for found in workers(self.stack.workspace, name):
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(found.pid)
                connections = process.net_connections("tcp")
                if any({*connection.laddr[1:]} & ports for connection in connections):
                    return Worker(name, process)
        raise WorkerNotFound(f"no worker of {name} waits to charge {self.order}")

    def stay_shut(self) -> None:
        """Take the lock: who waits for it and gives up leaves it to the next."""
        self.shut()

    def let_others_pass(self) -> None:
        """Keep the lock: it stops everybody."""

    def open(self) -> None:
        """Give the lock back."""
        if self._holding is not None:
            self._holding.close()
            self._holding = None

    def _ports(self) -> set[int]:
        with psycopg.connect(self._url) as reading:
            found = reading.execute(WAITS.encode(), {"gate": GATE, "order": self.order})
            return {port for (port,) in found}

    @property
    def _url(self) -> str:
        return self.stack.values["DATABASE_URL"]
