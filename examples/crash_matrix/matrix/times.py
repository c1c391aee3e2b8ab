"""The matrix's own times, as `contracts.toml` and the broker's margin say."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

ATTEMPT_SECONDS: Final = 1.5
LEASE_SECONDS: Final = 2.5
SETTLEMENT_SECONDS: Final = 1.0
MARGIN_SECONDS: Final = 1.0
GRACE_SECONDS: Final = 0.7
"""How long a process that is told to end lets its work go on: less than an attempt."""


@dataclass(frozen=True)
class Times:
    """What a judge has to know of a contract's times."""

    lease: timedelta
    settlement: timedelta


MATRIX_TIMES: Final = Times(
    timedelta(seconds=LEASE_SECONDS), timedelta(seconds=SETTLEMENT_SECONDS)
)
