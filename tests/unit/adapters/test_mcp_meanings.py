"""Only what the upstream itself put on the wire is its word."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.types import CallToolResult

from effect_broker.adapters.mcp_outcome import ToolCall, outcome_of
from effect_broker.adapters.wire.exchange import Exchange, WireRequest
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    NotSent,
    Outcome,
    Rejected,
)
from tests.integration.adapters.given import MOMENT

MEANING = {
    "rpc/-32602": "rejected_final",
    "404": "not_executed",
    "4xx": "rejected",
    "code": "/code",
    "error/declined": "rejected",
}


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


def outcome(
    body: bytes,
    kind: str = "application/json",
    read: CallToolResult | None = None,
    **known: Any,
) -> Outcome:
    """Judge a call, whose id is 3, to which this body came, and the client read that."""
    call = ToolCall("t", failure="no_result", result=read)
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


def result(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 3, "result": {}} | fields).encode()


def stream(*messages: bytes, rest: bytes = b"") -> bytes:
    return b"".join(b"data: " + it + b"\n\n" for it in messages) + rest


BROKEN = {"complete": False, "failure": "reset"}
NOISE = b": ping\n\nid: 1\ndata:\n\nevent: log\ndata: x\n\n"
STREAM = "text/event-stream; charset=utf-8"
NOTED = b'event: message\r\ndata: {"method":"notifications/message"}\r\n\r\n'


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (error(), "application/json"),
        (error(id=None), "application/json"),
        (b"data: " + error() + b"\n\n", STREAM),
        (NOTED + b"id: 7\r\ndata:" + error() + b"\r\n\r\n", STREAM),
        (NOISE + stream(error()), STREAM),
        (b"data: " + error().replace(b", ", b",\ndata: ") + b"\n\n", STREAM),
    ],
    ids=["json", "no-id", "stream", "behind-others", "behind-noise", "in-lines"],
)
def test_error_on_the_wire_is_the_servers_word(body: bytes, kind: str) -> None:
    told = outcome(body, kind)
    assert isinstance(told, Rejected), told
    assert told.reason == "rpc/-32602"
    assert told.final


@pytest.mark.parametrize(
    ("body", "kind", "known"),
    [
        (error(id=4), "application/json", {}),
        (error(id="3"), "application/json", {}),
        (error(code="-32602"), "application/json", {}),
        (error(code=True), "application/json", {}),
        (error()[:-1], "application/json", {}),
        (error(), "application/json", BROKEN),
        (error(), "application/json", {"truncated": True}),
        (b"data: " + error(), STREAM, BROKEN),
        (stream(error(), rest=b"data: {"), STREAM, BROKEN),
        (stream(error()), STREAM, BROKEN),
        (stream(error(), rest=b"data: {"), STREAM, {}),
        (stream(error(), b"not json"), STREAM, {}),
        (stream(error(), result()), STREAM, {}),
        (stream(result(), error()), STREAM, {}),
        (stream(error(id=None), result()), STREAM, {}),
        (stream(error(), error()), STREAM, {}),
        (b"event: log\n" + stream(error()), STREAM, {}),
        (error(result={}), "application/json", {}),
        (error(method="notifications/message"), "application/json", {}),
        (error(id=3.0), "application/json", {}),
        (error().replace(b'"id": 3, ', b""), "application/json", {}),
        (error().replace(b'"id"', b'"error": {}, "id"'), "application/json", {}),
        (b"[" + error() + b"]", "application/json", {}),
        (result(), "application/json", {"status": 404}),
        (result()[:-1], "application/json", {"status": 404} | BROKEN),
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


DONE = CallToolResult(content=[], structured_content={"id": "ch_1"})
REFUSED = CallToolResult(
    content=[], structured_content={"code": "declined"}, is_error=True
)


@pytest.mark.parametrize(
    ("body", "kind", "known"),
    [
        (result(), "application/json", {}),
        (result(id="3"), "application/json", {}),
        (NOTED + stream(result()), STREAM, {}),
        (stream(result(), rest=b"data: {"), STREAM, BROKEN),
    ],
)
def test_one_result_is_a_commit_whatever_comes_after(
    body: bytes, kind: str, known: dict[str, Any]
) -> None:
    told = outcome(body, kind, DONE, **known)
    assert isinstance(told, Committed), told
    assert (told.output, told.flags) == ({"id": "ch_1"}, ())


def test_result_that_the_ledger_cannot_keep_is_a_flagged_commit() -> None:
    body = result(result={"x": float("nan")})
    told = outcome(body, read=DONE)
    assert isinstance(told, Committed), told
    assert (told.output, told.raw, told.flags) == (None, body, ("output_unparsed",))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (stream(result(), error()), STREAM),
        (stream(error(), result()), STREAM),
        (result(error={"code": -32602}), "application/json"),
        (result().replace(b'"id"', b'"result": {}, "id"'), "application/json"),
        (stream(result(), result()), STREAM),
    ],
)
def test_answer_that_says_two_things_proves_nothing(body: bytes, kind: str) -> None:
    for read in (DONE, REFUSED):
        told = outcome(body, kind, read)
        assert isinstance(told, Ambiguous), told
        assert told.reason == "odd_answer"


def test_error_result_counts_only_from_a_whole_answer() -> None:
    told = outcome(stream(result()), STREAM, REFUSED)
    assert isinstance(told, Rejected), told
    assert told.reason == "error/declined"
    broken = outcome(stream(result()), STREAM, REFUSED, **BROKEN)
    assert isinstance(broken, Ambiguous), broken


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
