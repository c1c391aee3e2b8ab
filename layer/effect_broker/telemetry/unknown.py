"""Gauges of what is unproved; a contract with nothing left says zero."""

from __future__ import annotations

from collections.abc import Sequence

from effect_broker.ports import Meter, UnknownCount


class UnknownGauges:
    """Tells the ledger's summary to a meter, contract by contract."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._told: set[tuple[str, str]] = set()

    def tell(self, summary: Sequence[UnknownCount]) -> None:
        """Set the gauges to this summary."""
        now = {(row.contract, row.tool): row for row in summary}
        for contract, tool in self._told - now.keys():
            self._set(contract, tool, 0, 0.0)
        for (contract, tool), row in now.items():
            self._set(contract, tool, row.count, row.oldest_age_seconds)
        self._told = set(now)

    def _set(self, contract: str, tool: str, count: int, age: float) -> None:
        self._meter.gauge("unknown_effects", count, contract=contract, tool=tool)
        self._meter.gauge("unknown_oldest_age_seconds", age, contract=contract, tool=tool)
