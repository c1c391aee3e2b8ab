from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.stub import Stubber

from effect_broker.aws.task_callbacks import NOBODY_WAITS, StepFunctionsCallbacks

if TYPE_CHECKING:
    from types_boto3_stepfunctions import SFNClient

TOKEN = "canary-token"


@pytest.fixture
def client() -> SFNClient:
    return boto3.client(
        "stepfunctions",
        region_name="eu-central-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )


@pytest.fixture
def stub(client: SFNClient) -> Iterator[Stubber]:
    with Stubber(client) as stub:
        yield stub
        stub.assert_no_pending_responses()


async def test_success_and_end_are_told_as_they_are(
    client: SFNClient, stub: Stubber
) -> None:
    stub.add_response("send_task_success", {}, {"taskToken": TOKEN, "output": "{}"})
    stub.add_response(
        "send_task_failure",
        {},
        {"taskToken": TOKEN, "error": "OutcomeUnknown", "cause": "why"},
    )
    callbacks = StepFunctionsCallbacks(client=client)
    assert await callbacks.succeed(TOKEN, "{}")
    assert await callbacks.end(TOKEN, "OutcomeUnknown", "why")


@pytest.mark.parametrize("code", NOBODY_WAITS)
async def test_token_that_nobody_waits_for_is_done_with(
    client: SFNClient, stub: Stubber, code: str
) -> None:
    stub.add_client_error("send_task_success", code)
    assert await StepFunctionsCallbacks(client=client).succeed(TOKEN, "{}")


@pytest.mark.parametrize("code", ["ThrottlingException", "AccessDeniedException"])
async def test_what_was_not_taken_is_tried_again_and_never_logged_with_its_token(
    client: SFNClient, stub: Stubber, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    stub.add_client_error("send_task_failure", code, service_message=TOKEN)
    with caplog.at_level(logging.DEBUG, logger="effect_broker"):
        told = await StepFunctionsCallbacks(client=client).end(TOKEN, "E", "c")
    assert told is False
    assert caplog.records[0].__dict__["why"] == code
    assert TOKEN not in caplog.text + str([vars(it) for it in caplog.records])


class Away:
    def send_task_success(self, **_: str) -> None:
        raise EndpointConnectionError(endpoint_url="https://states")


async def test_service_that_is_away_is_tried_again() -> None:
    callbacks = StepFunctionsCallbacks(client=Away())  # type: ignore[arg-type]
    assert await callbacks.succeed(TOKEN, "{}") is False
