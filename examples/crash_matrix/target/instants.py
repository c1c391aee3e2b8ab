"""Instants: seconds since the epoch inside, RFC 3339 in UTC outside."""

import time
from datetime import UTC, datetime


def now() -> float:
    """Whole microseconds: what is rendered is exactly what is compared."""
    return round(time.time(), 6)


def rendered(instant: float) -> str:
    """Write an instant as RFC 3339 in UTC, to the microsecond."""
    moment = datetime.fromtimestamp(instant, UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def parsed(text: str) -> float:
    """Read an RFC 3339 instant or seconds since the epoch.

    A time without an offset is refused: it names another moment on every machine.

    Raises:
        ValueError: the text is neither.
    """
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("the instant has no offset")
    return moment.timestamp()
