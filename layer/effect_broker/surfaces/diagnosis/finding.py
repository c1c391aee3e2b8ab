"""One thing that was looked at: what is so, where, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """`broken` stands against a promise; `warning` is worth a look; `skipped` was not
    looked at.
    """

    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found; `do` is empty where there is nothing to do."""

    check: str
    verdict: Verdict
    where: str
    what: str
    do: str = ""


def ok(check: str, where: str, what: str) -> Finding:
    """Return what is as it must be."""
    return Finding(check, Verdict.OK, where, what)


def warning(check: str, where: str, what: str, do: str) -> Finding:
    """Return what somebody should look at."""
    return Finding(check, Verdict.WARNING, where, what, do)


def broken(check: str, where: str, what: str, do: str) -> Finding:
    """Return what stands against a promise."""
    return Finding(check, Verdict.BROKEN, where, what, do)


def skipped(check: str, where: str, what: str, do: str = "") -> Finding:
    """Return what was not looked at, and why."""
    return Finding(check, Verdict.SKIPPED, where, what, do)
