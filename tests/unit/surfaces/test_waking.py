from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from effect_broker.aws.nudges import nudge_body
from effect_broker.domain.errors import InvalidRequest
from effect_broker.surfaces.waking import wake_of

FIRST = UUID("0198c0de-0000-7000-8000-000000000001")
SECOND = UUID("0198c0de-0000-7000-8000-000000000002")


def batch(*bodies: str) -> dict[str, Any]:
    return {
        "Records": [
            {"messageId": f"m{number}", "body": body, "eventSource": "aws:sqs"}
            for number, body in enumerate(bodies)
        ]
    }


def test_nudges_name_their_effects_once() -> None:
    wake = wake_of(batch(nudge_body(FIRST), nudge_body(SECOND), nudge_body(FIRST)))
    assert wake.effect_ids == (FIRST, SECOND)
    assert wake.batch_answer() == {"batchItemFailures": []}


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        "{}",
        '"x"',
        '{"effect_id": "x"}',
        '{"effect_id": 1}',
        '{"effect_id": null}',
    ],
)
def test_only_unreadable_nudges_are_handed_back(body: str) -> None:
    wake = wake_of(batch(nudge_body(FIRST), body))
    assert wake.effect_ids == (FIRST,)
    assert wake.batch_answer() == {"batchItemFailures": [{"itemIdentifier": "m1"}]}


@pytest.mark.parametrize(
    "record",
    [
        {"body": "x"},
        {"messageId": None, "body": "x"},
        {"messageId": "", "body": "x"},
        {"messageId": 5, "body": "x"},
        {},
        5,
        None,
        [],
    ],
)
def test_unreadable_record_without_an_id_is_skipped_and_costs_no_other(
    record: object, caplog: pytest.LogCaptureFixture
) -> None:
    event = batch(nudge_body(FIRST), "{")
    event["Records"].append(record)
    wake = wake_of(event)
    assert wake.effect_ids == (FIRST,)
    assert wake.batch_answer() == {"batchItemFailures": [{"itemIdentifier": "m1"}]}
    (line,) = caplog.records
    assert line.__dict__["count"] == 2


@pytest.mark.parametrize("record", [{"messageId": "m"}, {"messageId": "m", "body": None}])
def test_record_without_a_body_is_handed_back(record: object) -> None:
    wake = wake_of({"Records": [record]})
    assert wake.effect_ids == ()
    assert wake.batch_answer() == {"batchItemFailures": [{"itemIdentifier": "m"}]}


def test_nudge_that_nests_without_end_is_unreadable() -> None:
    wake = wake_of(batch("[" * 100_000))
    assert wake.batch_answer() == {"batchItemFailures": [{"itemIdentifier": "m0"}]}


@pytest.mark.parametrize("event", [{"operation": "sweep"}, {"sweep": True}])
def test_sweep_looks_at_all_that_is_due(event: dict[str, Any]) -> None:
    assert wake_of(event).effect_ids is None


@pytest.mark.parametrize("event", [{}, [], None, "sweep", {"sweep": 1}, {"Records": 1}])
def test_whatever_else_wakes_nobody(event: object) -> None:
    with pytest.raises(InvalidRequest):
        wake_of(event)
