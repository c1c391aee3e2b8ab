"""Faults queued for the next matching requests, each used as often as asked."""

import math
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, TypeGuard

WORLDS = ("keyed", "lookup", "plain")
# A gigabyte would show nothing more and could take the machine down.
MEBIBYTES_MAX = 512


class FaultRefused(ValueError):
    """A fault has an unknown name, field or value."""


class FaultKind(StrEnum):
    """When each acts: `before_commit` leaves no charge (or a later one), the rest lose or
    spoil the answer of a commit, and `status` and `redirect` answer instead of acting.

    On a lookup, reading takes the place of committing.
    """

    DELAY_BEFORE_COMMIT = "delay_before_commit"
    HOLD_BEFORE_COMMIT = "hold_before_commit"
    DROP_BEFORE_COMMIT = "drop_before_commit"
    RESET_BEFORE_COMMIT = "reset_before_commit"
    STATUS = "status"
    REDIRECT = "redirect"
    DELAY_AFTER_COMMIT = "delay_after_commit"
    HOLD_AFTER_COMMIT = "hold_after_commit"
    DROP_AFTER_COMMIT = "drop_after_commit"
    RESET_AFTER_COMMIT = "reset_after_commit"
    TRUNCATE_AFTER_COMMIT = "truncate_after_commit"
    GARBAGE_AFTER_COMMIT = "garbage_after_commit"
    FAIL_AFTER_COMMIT = "fail_after_commit"
    HUGE_BODY = "huge_body"
    GZIP_BOMB_AFTER_COMMIT = "gzip_bomb_after_commit"
    SLOW_BODY = "slow_body"


@dataclass(frozen=True)
class Fault:
    """One instruction. `order` and `world` None match any; `on` is post or lookup.

    `seconds` is the length of a delay and of a slow body, `status` what status and
    fail_after_commit answer (500 and 503 when absent), `mebibytes` the size of a huge
    body once it is unpacked.
    """

    fault: FaultKind
    world: str | None = None
    order: str | None = None
    on: str = "post"
    times: int = 1
    seconds: float = 1.0
    status: int | None = None
    code: str | None = None
    retry_after: str | None = None
    location: str | None = None
    mebibytes: int = 16

    def matches(self, *, world: str, order: str | None, on: str) -> bool:
        return (
            self.on == on
            and self.world in (None, world)
            and (self.order is None or self.order == order)
        )


def parsed_fault(document: Mapping[str, object]) -> Fault:
    """Read one fault as sent to the control surface.

    Raises:
        FaultRefused: an unknown field or kind, or a value out of its range.
    """
    known = Fault.__dataclass_fields__
    given: dict[str, Any] = {
        name: value for name, value in document.items() if value is not None
    }
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise FaultRefused(f"unknown field: {', '.join(unknown)}")
    if "retry_after" in given:
        given["retry_after"] = str(given["retry_after"])
    try:
        given["fault"] = FaultKind(str(given.get("fault")))
    except ValueError:
        raise FaultRefused(f"fault is one of {', '.join(FaultKind)}") from None
    for name, value in given.items():
        _check(name, value)
    if given["fault"] is FaultKind.REDIRECT and "location" not in given:
        raise FaultRefused("redirect needs a location")
    return Fault(**given)


def _check(name: str, value: object) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    match name:
        case "world" if value not in WORLDS:
            raise FaultRefused(f"world is one of {', '.join(WORLDS)}")
        case "on" if value not in ("post", "lookup"):
            raise FaultRefused("on is post or lookup")
        case "times" if not whole or not 1 <= int(str(value)) <= 1_000_000:
            raise FaultRefused("times is a whole number from 1")
        case "status" if not whole or not 200 <= int(str(value)) <= 599:
            raise FaultRefused("status is from 200 to 599")
        case "mebibytes" if not whole or not 1 <= int(str(value)) <= MEBIBYTES_MAX:
            raise FaultRefused(f"mebibytes is from 1 to {MEBIBYTES_MAX}")
        case "seconds" if not _is_duration(value):
            raise FaultRefused("seconds is zero or more")
        case "order" | "code" if not _is_line(value):
            raise FaultRefused(f"{name} is one line of text")
        case "retry_after" | "location" if not _is_line(value) or not value.isascii():
            raise FaultRefused(f"{name} is one line of ASCII text")
        case _:
            return


def _is_duration(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(float(str(value))) and float(str(value)) >= 0


def _is_line(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value.isprintable()


class FaultQueue:
    """First queued, first used, among those that match."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queued: list[tuple[Fault, int]] = []

    def queue(self, fault: Fault) -> None:
        with self._lock:
            self._queued.append((fault, fault.times))

    def take(self, *, world: str, order: str | None, on: str) -> Fault | None:
        with self._lock:
            for index, (fault, left) in enumerate(self._queued):
                if fault.matches(world=world, order=order, on=on):
                    self._queued[index : index + 1] = (
                        [(fault, left - 1)] if left > 1 else []
                    )
                    return fault
        return None

    def left(self) -> list[dict[str, object]]:
        """List what no request has used yet, with the times that remain."""
        with self._lock:
            return [{**asdict(fault), "times": left} for fault, left in self._queued]

    def forget(self, order: str) -> int:
        """Drop what is left for one order, and say how many instructions that were."""
        with self._lock:
            kept = [(fault, left) for fault, left in self._queued if fault.order != order]
            dropped = len(self._queued) - len(kept)
            self._queued = kept
        return dropped

    def clear(self) -> None:
        with self._lock:
            self._queued.clear()
