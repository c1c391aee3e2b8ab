"""What kind of target this is now: switched by tests, kept beside the charges."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal

KeyRecords = Literal["all_answers", "commits", "successes"]
MODES: tuple[KeyRecords, ...] = ("all_answers", "commits", "successes")


class SettingRefused(ValueError):
    """A setting has an unknown name or a value it cannot take."""


@dataclass(frozen=True)
class Settings:
    """Seconds count from the commit and are compared at each question, so that a test
    ends a retention or a lag by changing the setting instead of waiting.

    `retention_seconds` None keeps keys for ever.
    """

    key_records: KeyRecords = "all_answers"
    retention_seconds: float | None = 86_400.0
    settlement_lag_seconds: float = 0.0
    enforce_deadline: bool = False

    def changed(self, changes: Mapping[str, object]) -> "Settings":
        """Apply a partial change; nothing is applied when any part is refused.

        Raises:
            SettingRefused: naming the setting.
        """
        unknown = sorted(set(changes) - set(asdict(self)))
        if unknown:
            raise SettingRefused(f"unknown setting: {', '.join(unknown)}")
        settled = self
        if "key_records" in changes:
            settled = replace(settled, key_records=_mode(changes["key_records"]))
        if "retention_seconds" in changes:
            value = changes["retention_seconds"]
            retention = None if value is None else _seconds("retention_seconds", value)
            settled = replace(settled, retention_seconds=retention)
        if "settlement_lag_seconds" in changes:
            lag = changes["settlement_lag_seconds"]
            lag_seconds = _seconds("settlement_lag_seconds", lag)
            settled = replace(settled, settlement_lag_seconds=lag_seconds)
        if "enforce_deadline" in changes:
            enforce = changes["enforce_deadline"]
            if not isinstance(enforce, bool):
                raise SettingRefused("enforce_deadline is true or false")
            settled = replace(settled, enforce_deadline=enforce)
        return settled


def _mode(value: object) -> KeyRecords:
    for mode in MODES:
        if value == mode:
            return mode
    raise SettingRefused(f"key_records is one of {', '.join(MODES)}")


def _seconds(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingRefused(f"{name} is a number of seconds")
    if value < 0 or not math.isfinite(value):
        raise SettingRefused(f"{name} is zero or more")
    return float(value)
