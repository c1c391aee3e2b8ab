from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from effect_broker.domain.errors import (
    EffectNotFound,
    InvalidOperationKey,
    InvalidRequest,
)
from effect_broker.surfaces import requests
from effect_broker.surfaces.requests import InvalidFields

GOOD: dict[str, Any] = {
    "operation_key": "order:1:charge:v1",
    "tool": "payments.charge",
    "arguments": {"amount": 1},
}
FOUND: dict[str, Any] = {
    "decision": "committed",
    "reason": "seen",
    "evidence": {"console": "1 result"},
    "expected_version": 3,
    "decision_id": "d-1",
}


def test_submission_is_read_as_it_is() -> None:
    read = requests.submission({**GOOD, "requested_by": "checkout", "trace_id": None})
    assert read.operation_key == "order:1:charge:v1"
    assert read.arguments == {"amount": 1}
    assert (read.requested_by, read.trace_id) == ("checkout", None)


@pytest.mark.parametrize("value", [[], "text", 1, None, True])
def test_what_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequest):
        requests.submission(value)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tool": 7}, "tool"),
        ({"tool": ""}, "tool"),
        ({"tool": "  "}, "tool"),
        ({"tool": "x" * 256}, "tool"),
        ({"tool": "a\x00b"}, "tool"),
        ({"tool": "a\ud800"}, "tool"),
        ({"tool": None}, "tool"),
        ({"arguments": "{}"}, "arguments"),
        ({"arguments": []}, "arguments"),
        ({"arguments": None}, "arguments"),
        ({"requested_by": 1}, "requested_by"),
        ({"trace_id": ["t"]}, "trace_id"),
        ({"requested_by": "line\nbreak"}, "requested_by"),
    ],
)
def test_wrong_types_are_named_and_never_coerced(
    change: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidFields) as refused:
        requests.submission({**GOOD, **change})
    assert list(refused.value.complaints) == [field]


def test_unknown_fields_are_named_together_with_the_known_ones() -> None:
    with pytest.raises(InvalidFields) as refused:
        requests.submission({**GOOD, "task_token": "t", "Tool": "x"})
    assert list(refused.value.complaints) == ['"task_token"', '"Tool"']
    assert "operation_key" in refused.value.message


def test_names_of_unknown_fields_are_shortened_and_escaped() -> None:
    with pytest.raises(InvalidFields) as refused:
        requests.submission({**GOOD, "\ud800é" + "x" * 500: 1})
    (name,) = refused.value.complaints
    assert name.isascii()
    assert len(name) < 100


@pytest.mark.parametrize("change", [{"operation_key": None}, {"operation_key": 5}])
def test_missing_operation_key_has_its_own_code(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidOperationKey):
        requests.submission({**GOOD, **change})
    with pytest.raises(InvalidOperationKey):
        requests.submission({key: GOOD[key] for key in ("tool", "arguments")})


def test_complaints_never_repeat_a_value() -> None:
    with pytest.raises(InvalidRequest) as refused:
        requests.submission(
            {"operation_key": 1, "tool": ["canary"], "arguments": "canary"}
        )
    assert "canary" not in refused.value.message


def test_finding_is_read_with_its_actor() -> None:
    read = requests.finding(
        {**FOUND, "observed_at": "2026-01-05T10:00:00+01:00", "output": [1]},
        actor="key:1",
    )
    assert (read.decision, read.expected_version) == ("committed", 3)
    assert read.observed_at is not None
    assert read.observed_at.utcoffset() is not None
    assert (read.actor, read.output) == ("key:1", [1])


def test_evidence_in_words_is_kept_as_an_object() -> None:
    read = requests.finding({**FOUND, "evidence": "looked\nat it"}, actor="a")
    assert read.evidence == {"text": "looked\nat it"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"decision": "retry"}, "decision"),
        ({"decision": ["committed"]}, "decision"),
        ({"reason": ""}, "reason"),
        ({"evidence": None}, "evidence"),
        ({"evidence": 3}, "evidence"),
        ({"expected_version": "3"}, "expected_version"),
        ({"expected_version": True}, "expected_version"),
        ({"expected_version": 0}, "expected_version"),
        ({"expected_version": 3.0}, "expected_version"),
        ({"decision_id": None}, "decision_id"),
        ({"observed_at": "yesterday"}, "observed_at"),
        ({"observed_at": "2026-01-05T10:00:00"}, "observed_at"),
        ({"observed_at": 1767600000}, "observed_at"),
        ({"external_id": 1}, "external_id"),
    ],
)
def test_findings_that_mean_nothing_are_refused_by_field(
    change: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidFields) as refused:
        requests.finding({**FOUND, **change}, actor="a")
    assert list(refused.value.complaints) == [field]


def test_compensation_needs_an_effect_id_and_a_reason() -> None:
    effect_id = UUID("0198c0de-0000-7000-8000-000000000001")
    read = requests.compensation({"compensated_by": str(effect_id), "reason": "undone"})
    assert read == (effect_id, "undone")
    with pytest.raises(InvalidFields) as refused:
        requests.compensation({"compensated_by": "ch_1"})
    assert set(refused.value.complaints) == {"compensated_by", "reason"}


@pytest.mark.parametrize(
    "text", ["", "1", "x" * 36, "{0198c0de-0000-7000-8000-00000001}"]
)
def test_text_that_is_no_effect_id_is_not_found(text: str) -> None:
    with pytest.raises(EffectNotFound):
        requests.effect_id(text)
