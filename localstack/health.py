"""Whether something answers yet."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from infra.progress import StepFailed

READY_SECONDS_MAX = 60
POLL_SECONDS = 0.05
ANSWER_SECONDS_MAX = 10


def answers(url: str) -> bool:
    """Say whether a GET succeeds."""
    return problem(url) is None


def problem(url: str) -> str | None:
    """Return why a GET does not succeed, or nothing if it does."""
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS_MAX):
            return None
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read(400).decode(errors='replace')}".strip()
    except (OSError, HTTPException) as error:
        return str(error)


def wait_for(
    url: str,
    *,
    log: Path,
    still_runs: Callable[[], bool] = lambda: True,
    seconds_max: float = READY_SECONDS_MAX,
) -> None:
    """Wait until a GET succeeds.

    Raises:
        StepFailed: whatever should answer has ended, or the time is over.
    """
    deadline = time.monotonic() + seconds_max
    while (found := problem(url)) is not None:
        if not still_runs():
            raise StepFailed(last_line(log) or "it ended at once", log=log)
        if time.monotonic() > deadline:
            raise StepFailed(f"no success after {seconds_max:.0f} s: {found}", log=log)
        time.sleep(POLL_SECONDS)


def last_line(log: Path) -> str:
    """Return the last line of a log that says anything."""
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    except FileNotFoundError:
        return ""
    return next((line for line in reversed(lines) if line), "")
