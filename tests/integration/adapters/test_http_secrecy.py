"""What may be told of an exchange, and what may not."""

from __future__ import annotations

import logging
import traceback

import pytest

from effect_broker.adapters.wire.connections import Connections
from effect_broker.domain.outcome import Ambiguous, Committed
from tests.integration.adapters import fault_server as faults
from tests.integration.adapters.fault_server import FaultServer, answer
from tests.integration.adapters.given import GivenSecrets, contract
from tests.integration.adapters.sending import Sender


@pytest.mark.parametrize("status", [201, 402, 409, 500])
async def test_evidence_and_logs_hold_no_argument_secret_query_or_answer(
    target: FaultServer,
    connections: Connections,
    caplog: pytest.LogCaptureFixture,
    status: int,
) -> None:
    caplog.set_level(logging.DEBUG)
    schema = {
        "type": "object",
        "required": ["note"],
        "properties": {"note": {"type": "string"}},
    }
    http = {
        "url": f"{target.url}/v1?q={{arguments.note}}",
        "headers": {"Authorization": {"secret": "token"}},
    }
    target.plan(
        answer(
            status,
            {"id": "CANARY-answer", "error": {"code": "CANARY-code"}},
            {"Set-Cookie": "CANARY-cookie", "Request-Id": "req_1"},
        )
    )
    outcome = await Sender(connections, secrets=GivenSecrets(token="CANARY-s")).dispatch(
        contract(target.url, http=http, arguments=schema),
        arguments={"note": "CANARY-argument"},
    )
    assert "CANARY-argument" in target.seen[0].target
    assert "CANARY" not in repr(outcome.evidence)
    assert "CANARY" not in caplog.text
    assert outcome.evidence["headers"] == {"request-id": "req_1"}
    if not isinstance(outcome, Committed):
        assert "CANARY" not in repr(outcome)


async def test_failure_carries_a_word_and_no_text_of_the_library(
    target: FaultServer, connections: Connections, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    target.plan(faults.garbage)
    outcome = await Sender(connections).dispatch(contract(target.url))
    assert isinstance(outcome, Ambiguous)
    assert outcome.reason == "answer_broken"
    assert "this is no HTTP" not in repr(outcome) + caplog.text


async def test_resolved_target_shows_no_secret() -> None:
    from effect_broker.adapters.http_target import resolve_target

    http = {"headers": {"Authorization": {"secret": "token"}}}
    made = contract(http=http)
    resolved = await resolve_target(made, GivenSecrets(token="CANARY"))
    assert "CANARY" not in repr(resolved)


async def test_missing_secret_is_named_and_nothing_is_sent(
    target: FaultServer, connections: Connections
) -> None:
    http = {"headers": {"Authorization": {"secret": "payments/token"}}}
    sender = Sender(connections)
    with pytest.raises(Exception, match="payments/token") as caught:
        await sender.dispatch(contract(target.url, http=http), scope=b"any")
    assert type(caught.value).__name__ == "SecretNotFound"
    assert "Authorization" not in "".join(traceback.format_exception(caught.value))
    assert target.seen == []
