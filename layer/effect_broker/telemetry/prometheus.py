"""Metrics of a plain process, kept in memory for its `/metrics`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from effect_broker.telemetry import NAMES, PREFIX, Instrument, Kind, instrument

SECONDS_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
HORIZON_BUCKETS: Final = (1, 10, 60, 300, 1800, 3600, 21600, 86400, 604800)


class PrometheusMeter:
    """Metrics of a plain process, rendered for its `/metrics`."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._made: dict[str, Counter | Gauge | Histogram] = {
            name: self._make(name, known) for name, known in NAMES.items()
        }

    def count(self, name: str, value: float = 1, **labels: str) -> None:
        """Add to a counter."""
        self._of(name, Kind.COUNTER, labels).inc(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Record one observation."""
        self._of(name, Kind.HISTOGRAM, labels).observe(value)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._of(name, Kind.GAUGE, labels).set(value)

    def render(self) -> tuple[bytes, str]:
        """Return the exposition and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def _make(self, name: str, known: Instrument) -> Counter | Gauge | Histogram:
        common = (PREFIX + name, known.says, known.labels)
        if known.kind is Kind.COUNTER:
            return Counter(*common, registry=self._registry)
        if known.kind is Kind.GAUGE:
            return Gauge(*common, registry=self._registry)
        buckets = HORIZON_BUCKETS if name == "retention_left_seconds" else SECONDS_BUCKETS
        return Histogram(*common, registry=self._registry, buckets=buckets)

    def _of(self, name: str, kind: Kind, labels: Mapping[str, str]) -> Any:
        instrument(name, kind, labels)
        made = self._made[name]
        declared = NAMES[name].labels
        filled = {label: labels.get(label, "") for label in declared}
        return made.labels(**filled) if declared else made
