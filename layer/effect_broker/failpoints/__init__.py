"""Places at which a proof stops, kills or only observes a process of the broker.

The one rule: never in production. A process has failpoints only where its settings name a
file of orders, `ENVIRONMENT` is `local` and the database is named by a plain URL; any
other process refuses to start with that setting, and none imports this package without
it.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from effect_broker.settings import SettingsInvalid


class Failpoint(StrEnum):
    """Every place; `before` and `after` a commit are seen from the process that asks for
    it.
    """

    BEFORE_RESERVATION_COMMIT = "before_reservation_commit"
    AFTER_RESERVATION_COMMIT = "after_reservation_commit"
    BEFORE_ATTEMPT_COMMIT = "before_attempt_commit"
    AFTER_ATTEMPT_COMMIT = "after_attempt_commit"
    BEFORE_SOCKET_WRITE = "before_socket_write"
    AFTER_TARGET_COMMIT = "after_target_commit"
    BEFORE_RECEIPT_COMMIT = "before_receipt_commit"
    AFTER_RECEIPT_COMMIT = "after_receipt_commit"
    BEFORE_SWEEP_COMMIT = "before_sweep_commit"
    AFTER_SWEEP_COMMIT = "after_sweep_commit"
    IN_PROBE = "in_probe"
    BETWEEN_PROBE_AND_TRANSITION = "between_probe_and_transition"
    IN_REDISPATCH = "in_redispatch"


class Act(StrEnum):
    """What happens at a failpoint, after it was noted."""

    KILL = "kill"  # SIGKILL, by the process to itself
    STOP = "stop"  # SIGSTOP: the process stands there until somebody continues it
    NOTE = "note"  # nothing more


@dataclass(frozen=True, slots=True)
class Order:
    """What to do at a failpoint, from the visit after the first `skip` ones, once."""

    act: Act
    skip: int = 0


class Failpoints:
    """Carries out the orders of one file, and notes each in a file beside it.

    A note is one line, `failpoint pid seconds`, on the wall clock; it stands before the
    act begins.
    """

    def __init__(self, orders: Mapping[Failpoint, Order], notes: Path) -> None:
        self._orders = dict(orders)
        self._visits: dict[Failpoint, int] = {}
        self._notes = notes

    @classmethod
    def from_file(cls, path: Path) -> Failpoints:
        """Read orders: `{"before_socket_write": {"act": "stop", "skip": 0}}`.

        Raises:
            SettingsInvalid: no such file, or not such orders.
        """
        try:
            document = json.loads(path.read_text())
            orders = {
                Failpoint(name): Order(Act(order["act"]), int(order.get("skip", 0)))
                for name, order in document.items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SettingsInvalid(
                "EFFECT_BROKER_FAILPOINTS names no file of orders for failpoints."
            ) from error
        return cls(orders, notes_of(path))

    def reach(self, failpoint: Failpoint) -> None:
        """Do what is ordered here; without an order, or once it was carried out, nothing.

        A stop takes effect before this returns, and the process with all its threads
        stands.
        """
        order = self._orders.get(failpoint)
        if order is None:
            return
        visit = self._visits[failpoint] = self._visits.get(failpoint, -1) + 1
        if visit != order.skip:
            return
        self._note(failpoint)
        if order.act is Act.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        elif order.act is Act.STOP:
            # Sent to this very thread: it runs no further, while a signal to the process
            # may reach another thread first.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    def _note(self, failpoint: Failpoint) -> None:
        with self._notes.open("a") as notes:
            notes.write(f"{failpoint} {os.getpid()} {time.time():.6f}\n")


def notes_of(orders: Path) -> Path:
    """Return where the failpoints of an order file are noted as they are reached."""
    return orders.with_name(f"{orders.name}.reached")
