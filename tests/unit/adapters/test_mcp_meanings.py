"""Only what the upstream itself put on the wire is its word."""

from __future__ import annotations

import json
from typing import Any

import pytest

from effect_broker.adapters.mcp_outcome import ToolCall, outcome_of
from effect_broker.adapters.wire.exchange import Exchange, WireRequest
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.outcome import Ambiguous, NotSent, Outcome, Rejected
from tests.integration.adapters.given import MOMENT

MEANING = {"rpc/-32602": "rejected_final", "404": "not_executed", "4xx": "rejected"}


def contract(meaning: dict[str, str]) -> EffectContract:
    return EffectContract.model_validate(
        {
            "tool": "t",
            "name": "t",
            "version": "1",
            "safety": "unsafe",
            "adapter": "mcp",
            "attempt_timeout": "10s",
            "settlement_bound": "30s",
            "arguments": {"type": "object"},
            "mcp": {"url": "https://t.example/mcp", "tool": "t", "meaning": meaning},
        }
    )


def outcome(body: bytes, kind: str = "application/json", **known: Any) -> Outcome:
    """Judge a call, whose id is 3, to which this body came and no result."""
    call = ToolCall("t", failure="no_result")
    call.request = WireRequest("POST", b"/mcp", (), b'{"id":3,"method":"tools/call"}')
    fields: dict[str, Any] = {
        "sent": True,
        "status": 200,
        "headers": ((b"Content-Type", kind.encode()),),
        "body": bytearray(body),
        "complete": True,
    }
    call.known = Exchange(**fields | known)
    return outcome_of(contract(MEANING), call, MOMENT.timestamp())


def error(code: Any = -32602, **fields: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": 3, "error": {"code": code, "message": "no"}}
    return json.dumps(message | fields).encode()


STREAM = "text/event-stream; charset=utf-8"
NOTED = b'event: message\r\ndata: {"method":"notifications/message"}\r\n\r\n'


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (error(), "application/json"),
        (error(id=None), "application/json"),
        (b"data: " + error() + b"\n\n", STREAM),
        (NOTED + b"id: 7\r\ndata:" + error() + b"\r\n\r\n", STREAM),
        (b": ping\n\ndata: not json\n\ndata: " + error() + b"\n\n", STREAM),
        (b"data: " + error().replace(b", ", b",\ndata: ") + b"\n\n", STREAM),
    ],
    ids=["json", "no-id", "stream", "behind-others", "behind-noise", "in-lines"],
)
def test_error_on_the_wire_is_the_servers_word(body: bytes, kind: str) -> None:
    told = outcome(body, kind)
    assert isinstance(told, Rejected), told
    assert told.reason == "rpc/-32602"
    assert told.final


def test_error_in_an_event_that_ended_stands_though_the_stream_broke_off() -> None:
    body = b"data: " + error() + b"\n\ndata: {"
    told = outcome(body, STREAM, complete=False, failure="reset")
    assert isinstance(told, Rejected), told


@pytest.mark.parametrize(
    ("body", "kind", "known"),
    [
        (error(id=4), "application/json", {}),
        (error(id="3"), "application/json", {}),
        (error(code="-32602"), "application/json", {}),
        (error(code=True), "application/json", {}),
        (error()[:-1], "application/json", {}),
        (error(), "application/json", {"complete": False, "failure": "reset"}),
        (error(), "application/json", {"truncated": True}),
        (b"data: " + error(), STREAM, {"complete": False, "failure": "reset"}),
        (b"data: " + error() + b"\n", STREAM, {}),
        (error(), STREAM, {}),
        (b"data: " + error() + b"\n\n", "application/json", {}),
        (b"", "application/json", {}),
        (b"[]", "application/json", {}),
        (b'{"error": -32602}', "application/json", {}),
        (b"<html>-32602</html>", "text/html", {}),
        (b"", "application/json", {"status": 202}),
        (b"", "application/json", {"status": 302}),
        (b"", "application/json", {"status": 500}),
    ],
)
def test_anything_else_behind_the_call_proves_nothing(
    body: bytes, kind: str, known: dict[str, Any]
) -> None:
    assert isinstance(outcome(body, kind, **known), Ambiguous)


def test_status_speaks_where_the_body_has_no_entry_the_most_specific_first() -> None:
    known: dict[str, Any] = {"status": 404}
    told = outcome(error(code=-32601), **known)
    assert isinstance(told, Rejected), told
    assert told.not_executed
    known = {"status": 400}
    told = outcome(b"", **known)
    assert isinstance(told, Rejected), told
    assert told.reason == "status_400"
    assert isinstance(outcome(error(), status=404), Rejected)


def test_call_of_which_no_byte_left_was_not_sent_whatever_came() -> None:
    assert isinstance(outcome(error(), sent=False), NotSent)


def test_lost_answer_is_named_by_what_ended_it() -> None:
    told = outcome(b"", status=None, complete=False, failure="reset")
    assert isinstance(told, Ambiguous)
    assert told.reason == "reset"
