from __future__ import annotations

import ast
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import effect_broker
from effect_broker.ports import Meter, UnknownCount
from effect_broker.telemetry import NAMES, PREFIX, Kind, NullMeter
from effect_broker.telemetry.emf import NAMESPACE, EmfMeter
from effect_broker.telemetry.prometheus import PrometheusMeter
from effect_broker.telemetry.unknown import UnknownGauges

PACKAGE = Path(effect_broker.__file__).parent
KINDS = {"count": Kind.COUNTER, "observe": Kind.HISTOGRAM, "gauge": Kind.GAUGE}


def uses() -> Iterator[tuple[str, str, set[str], str]]:
    """Yield every metric call of the package: name, method, labels, place."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            first = node.args[0] if node.args else None
            owner = ast.unparse(node.func.value)
            if node.func.attr not in KINDS or not owner.endswith("meter"):
                continue
            assert isinstance(first, ast.Constant), f"{path}:{node.lineno}"
            labels = {keyword.arg for keyword in node.keywords if keyword.arg}
            place = f"{path.name}:{node.lineno}"
            yield str(first.value), node.func.attr, labels - {"value"}, place


def test_every_metric_that_the_package_feeds_is_named_with_its_kind_and_labels() -> None:
    wrong = [
        place
        for name, method, labels, place in uses()
        if name not in NAMES
        or NAMES[name].kind is not KINDS[method]
        or not labels <= set(NAMES[name].labels)
    ]
    assert wrong == []
    assert {name for name, *_ in uses()} >= {"effects_total", "attempts_total"}


def test_no_metric_has_a_tenant_or_key_label() -> None:
    labels = {label for known in NAMES.values() for label in known.labels}
    assert labels == {"event", "tool", "contract", "outcome", "result", "reason"}


def meters() -> list[Meter]:
    return [NullMeter(), EmfMeter(io.StringIO()), PrometheusMeter()]


@pytest.mark.parametrize("meter", meters(), ids=lambda meter: type(meter).__name__)
def test_unnamed_metrics_and_labels_are_refused(meter: Meter) -> None:
    with pytest.raises(ValueError, match="surprises_total"):
        meter.count("surprises_total")
    with pytest.raises(ValueError, match="tenant"):
        meter.count("effects_total", tenant="acme")
    with pytest.raises(ValueError, match="gauge"):
        meter.gauge("effects_total", 1)


def documents(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_emf_sums_counters_of_one_series_and_prints_them_once() -> None:
    stream = io.StringIO()
    meter = EmfMeter(stream)
    meter.count("effects_total", event="submitted", tool="a")
    meter.count("effects_total", 2, tool="a", event="submitted")
    meter.count("effects_total", event="submitted", tool="b")
    assert stream.getvalue() == ""
    meter.flush()
    meter.flush()
    found = documents(stream)
    assert [(item["tool"], item[PREFIX + "effects_total"]) for item in found] == [
        ("a", 3),
        ("b", 1),
    ]


def test_emf_names_namespace_dimensions_and_unit() -> None:
    stream = io.StringIO()
    meter = EmfMeter(stream)
    meter.gauge("unknown_oldest_age_seconds", 61.5, contract="c", tool="t")
    meter.flush()
    (found,) = documents(stream)
    metadata = found["_aws"]
    assert isinstance(metadata, dict)
    (definition,) = metadata["CloudWatchMetrics"]
    assert definition["Namespace"] == NAMESPACE == "EffectBroker"
    assert definition["Dimensions"] == [["contract", "tool"]]
    assert definition["Metrics"] == [
        {"Name": "effect_broker_unknown_oldest_age_seconds", "Unit": "Seconds"}
    ]
    assert found["effect_broker_unknown_oldest_age_seconds"] == 61.5


def test_emf_splits_what_exceeds_one_document() -> None:
    stream = io.StringIO()
    meter = EmfMeter(stream)
    for number in range(250):
        meter.observe("dispatch_seconds", number)
    meter.flush()
    sizes = [len(item[PREFIX + "dispatch_seconds"]) for item in documents(stream)]  # type: ignore[arg-type]
    assert sizes == [100, 100, 50]


def test_prometheus_renders_every_name_with_its_values() -> None:
    meter = PrometheusMeter()
    meter.count("effects_total", event="unknown", tool="pay")
    meter.gauge("unknown_effects", 2, contract="c", tool="pay")
    meter.observe("reserve_seconds", 0.004)
    text = meter.render()[0].decode()
    assert 'effect_broker_effects_total{event="unknown",tool="pay"} 1.0' in text
    assert 'effect_broker_unknown_effects{contract="c",tool="pay"} 2.0' in text
    assert 'effect_broker_reserve_seconds_bucket{le="0.005"} 1.0' in text
    assert all(PREFIX + name in text for name in NAMES)


def test_two_meters_of_one_process_share_nothing() -> None:
    first, second = PrometheusMeter(), PrometheusMeter()
    first.count("lease_expirations_total")
    assert b"effect_broker_lease_expirations_total 0.0" in second.render()[0]


def test_contract_with_nothing_left_unproved_says_zero() -> None:
    meter = PrometheusMeter()
    gauges = UnknownGauges(meter)
    gauges.tell([UnknownCount("a", "pay", 2, 61.0), UnknownCount("b", "pay", 1, 5.0)])
    gauges.tell([UnknownCount("b", "pay", 1, 9.0)])
    text = meter.render()[0].decode()
    assert 'effect_broker_unknown_effects{contract="a",tool="pay"} 0.0' in text
    assert 'effect_broker_unknown_effects{contract="b",tool="pay"} 1.0' in text
    age = "effect_broker_unknown_oldest_age_seconds"
    assert age + '{contract="a",tool="pay"} 0.0' in text
    assert age + '{contract="b",tool="pay"} 9.0' in text
