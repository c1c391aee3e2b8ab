from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import boto3
import pytest
from moto import mock_aws

from effect_broker.aws.nudges import (
    SqsNudger,
    delay_seconds,
    nudge_body,
    nudged_effect,
)

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> Iterator[SQSClient]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        yield boto3.client("sqs")


def queue(sqs: SQSClient, name: str) -> str:
    return sqs.create_queue(QueueName=name)["QueueUrl"]


def received(sqs: SQSClient, url: str) -> list[str]:
    bodies: list[str] = []
    while batch := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get(
        "Messages"
    ):
        bodies += [message["Body"] for message in batch]
        for message in batch:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return bodies


async def test_each_effect_is_hinted_at_once_by_its_id_alone(sqs: SQSClient) -> None:
    sends, looks = queue(sqs, "dispatch"), queue(sqs, "reconcile")
    nudger = SqsNudger(dispatch_queue_url=sends, reconcile_queue_url=looks)
    effect_ids = [uuid4() for _ in range(23)]
    await nudger.dispatch(effect_ids)
    await nudger.reconcile(effect_ids[:1])
    bodies = received(sqs, sends)
    assert sorted(map(nudged_effect, bodies)) == sorted(effect_ids)
    assert {tuple(json.loads(body)) for body in bodies} == {("effect_id",)}
    assert received(sqs, looks) == [nudge_body(effect_ids[0])]


class Recording:
    def __init__(self, answer: dict[str, Any] | None = None) -> None:
        self.calls: list[dict[str, Any]] = []
        self._answer = answer or {}

    def send_message_batch(self, **call: Any) -> dict[str, Any]:
        self.calls.append(call)
        return self._answer


async def test_batches_hold_ten_and_carry_the_delay() -> None:
    client: Any = Recording()
    nudger = SqsNudger(dispatch_queue_url="q", reconcile_queue_url=None, client=client)
    await nudger.dispatch([uuid4() for _ in range(21)], delay=timedelta(seconds=90.2))
    assert [len(call["Entries"]) for call in client.calls] == [10, 10, 1]
    assert {e["DelaySeconds"] for call in client.calls for e in call["Entries"]} == {91}
    ids = [entry["Id"] for entry in client.calls[0]["Entries"]]
    assert len(set(ids)) == 10


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        (timedelta(0), 0),
        (timedelta(seconds=-5), 0),
        (timedelta(milliseconds=1), 1),
        (timedelta(seconds=900), 900),
        (timedelta(hours=2), 900),
    ],
)
def test_delay_is_rounded_up_and_capped_at_what_sqs_holds(
    delay: timedelta, seconds: int
) -> None:
    assert delay_seconds(delay) == seconds


async def test_lost_hints_are_logged_and_do_not_raise(
    sqs: SQSClient, caplog: pytest.LogCaptureFixture
) -> None:
    gone = "https://sqs.eu-central-1.amazonaws.com/123456789012/gone"
    nudger = SqsNudger(dispatch_queue_url=gone, reconcile_queue_url=gone)
    with caplog.at_level(logging.WARNING):
        await nudger.dispatch([uuid4(), uuid4()])
    (record,) = caplog.records
    assert (record.__dict__["count"], record.__dict__["queue"]) == (2, "dispatch")


async def test_hints_that_sqs_refuses_one_by_one_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed = {"Id": "0", "Code": "InternalError", "SenderFault": False}
    client: Any = Recording({"Failed": [failed]})
    nudger = SqsNudger(dispatch_queue_url=None, reconcile_queue_url="q", client=client)
    await nudger.reconcile([uuid4(), uuid4()])
    (record,) = caplog.records
    assert (record.__dict__["count"], record.__dict__["reason"]) == (1, "InternalError")


async def test_without_a_queue_or_an_effect_nothing_is_sent() -> None:
    client: Any = Recording()
    nudger = SqsNudger(dispatch_queue_url=None, reconcile_queue_url="q", client=client)
    await nudger.dispatch([uuid4()])
    await nudger.reconcile([])
    assert client.calls == []


@pytest.mark.parametrize(
    "body", ["", "x", "[]", "{}", '{"effect_id": "x"}', '{"effect_id": 1, "more": 2}']
)
def test_what_is_no_nudge_is_refused(body: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong with it
        nudged_effect(body)


def test_boto3_is_not_imported_before_it_is_used() -> None:
    script = (
        "import sys, effect_broker.aws.nudges, effect_broker.aws.secrets;"
        "sys.exit('boto3' in sys.modules or 'botocore' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
