"""Metrics of a Lambda: lines in its log that CloudWatch reads as metrics."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import IO, Final

from effect_broker.telemetry import PREFIX, Kind, instrument

NAMESPACE: Final = "EffectBroker"
"""CloudWatch namespace; the alarms and the dashboard read it."""

_Series = tuple[str, tuple[tuple[str, str], ...]]


class EmfMeter:
    """Collects one invocation's metrics; `flush` prints them as one line a series."""

    VALUES_MAX: Final = 100
    """CloudWatch's limit on the values of one metric in one document."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream
        self._sums: dict[_Series, float] = {}
        self._gauges: dict[_Series, float] = {}
        self._observed: dict[_Series, list[float]] = {}

    def count(self, name: str, value: float = 1, **labels: str) -> None:
        """Add to a counter."""
        instrument(name, Kind.COUNTER, labels)
        series = _series(name, labels)
        self._sums[series] = self._sums.get(series, 0) + value

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Record one observation."""
        instrument(name, Kind.HISTOGRAM, labels)
        self._observed.setdefault(_series(name, labels), []).append(value)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        instrument(name, Kind.GAUGE, labels)
        self._gauges[_series(name, labels)] = value

    def flush(self) -> None:
        """Print what was collected, one document a series, and forget it."""
        stream = self._stream or sys.stdout
        for series, value in (self._sums | self._gauges).items():
            stream.write(_document(series, value) + "\n")
        for series, values in self._observed.items():
            for first in range(0, len(values), self.VALUES_MAX):
                chunk = values[first : first + self.VALUES_MAX]
                stream.write(_document(series, chunk) + "\n")
        self._sums, self._gauges, self._observed = {}, {}, {}


def _series(name: str, labels: Mapping[str, str]) -> _Series:
    return name, tuple(sorted(labels.items()))


def _document(series: _Series, value: float | list[float]) -> str:
    name, labels = series
    unit = "Seconds" if name.endswith("_seconds") else "Count"
    definition = {
        "Namespace": NAMESPACE,
        "Dimensions": [[label for label, _ in labels]],
        "Metrics": [{"Name": PREFIX + name, "Unit": unit}],
    }
    metadata = {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [definition]}
    return json.dumps({"_aws": metadata, **dict(labels), PREFIX + name: value})
