"""What wakes a worker: nudges from a queue, or the sweep; both are hints only."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from effect_broker.aws.nudges import nudged_effect
from effect_broker.domain.errors import InvalidRequest

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wake:
    """Effects to look at (None: the sweep, all that is due) and unreadable nudges."""

    effect_ids: Sequence[UUID] | None
    unreadable: Sequence[str] = ()

    def batch_answer(self) -> dict[str, Any]:
        """Return what the queue is told.

        Only a nudge that nobody can read is handed back, to end in the dead letters. An
        effect whose outcome is unknown is not: its state stands in the ledger, and a
        second delivery would find nothing more.
        """
        return {"batchItemFailures": [{"itemIdentifier": it} for it in self.unreadable]}


def wake_of(event: object) -> Wake:
    """Read an SQS batch or a sweep.

    An unreadable record without an id cannot be handed back: it is logged and skipped,
    and the sweep finds whatever it meant.

    Raises:
        InvalidRequest: it is neither.
    """
    if isinstance(event, Mapping):
        if isinstance(event.get("Records"), list):
            return _nudged(event["Records"])
        if event.get("sweep") is True or event.get("operation") == "sweep":
            return Wake(effect_ids=None)
    raise InvalidRequest('The event is neither an SQS batch nor {"operation": "sweep"}.')


def _nudged(records: Sequence[object]) -> Wake:
    effect_ids: dict[UUID, None] = {}
    unreadable = []
    for record in records:
        told = record if isinstance(record, Mapping) else {}
        try:
            effect_ids[nudged_effect(told["body"])] = None
        except (KeyError, TypeError, ValueError, RecursionError):
            unreadable.append(told.get("messageId"))
    if unreadable:
        _log.warning("nudges cannot be read", extra={"count": len(unreadable)})
    named = [it for it in unreadable if isinstance(it, str) and it]
    return Wake(effect_ids=tuple(effect_ids), unreadable=named)
