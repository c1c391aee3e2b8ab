"""The recorder misses nothing that stands on the wire, whole or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from effect_broker.conformance import Fault, Recorder, SeenRequest
from tests.conformance.booked_target import BookedTarget
from tests.conformance.targets import BookedHttp


@pytest_asyncio.fixture
async def recorder() -> AsyncIterator[Recorder]:
    target = BookedTarget()
    recorder = Recorder(await target.start())
    await recorder.start()
    yield recorder
    await recorder.stop()
    await target.stop()


async def converse(recorder: Recorder, data: bytes) -> bytes:
    """Send bytes, end the sending side, and read what comes."""
    parts = urlsplit(recorder.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(data)
    writer.write_eof()
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


POST = b'POST /v1/charges HTTP/1.1\r\nContent-Length: 12\r\n\r\n{"amount":1}'


async def test_request_is_recorded_as_it_stood_on_the_wire(recorder: Recorder) -> None:
    answer = await converse(recorder, POST)
    assert answer.startswith(b"HTTP/1.1 201 ")
    (seen,) = recorder.requests
    assert (seen.method, seen.target) == ("POST", "/v1/charges")
    assert seen.body == b'{"amount":1}'


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(POST[:20], id="in its head"),
        pytest.param(POST[:-3], id="in its body"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="another protocol"),
        pytest.param(b"\x16\x03\x01\x02\x00\r\n\r\n", id="no HTTP at all"),
    ],
)
async def test_request_that_cannot_be_read_whole_is_counted(
    recorder: Recorder, data: bytes
) -> None:
    await converse(recorder, data)
    (seen,) = recorder.requests
    assert not seen.complete
    assert "broken off" in str(seen)


async def test_two_requests_on_one_connection_are_two(recorder: Recorder) -> None:
    await converse(recorder, POST + POST)
    assert [seen.connection for seen in recorder.requests] == [1, 1]


async def test_request_that_was_lost_is_counted_and_never_arrives(
    recorder: Recorder,
) -> None:
    recorder.planned.append(Fault.LOSE_REQUEST)
    assert await converse(recorder, POST) == b""
    assert len(recorder.requests) == 1
    assert await converse(recorder, POST) != b""
    assert b'"id": "ch_2"' in await converse(recorder, POST)


async def test_chunked_body_is_recorded_without_its_framing(recorder: Recorder) -> None:
    data = (
        b"PUT /v1/charges HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5\r\nhello\r\n0\r\n\r\n"
    )
    await converse(recorder, data)
    assert recorder.requests[0].body == b"hello"


def seen(target: str = "/v1/charges", body: bytes = b"") -> SeenRequest:
    return SeenRequest(1, "POST", target, (("idempotency-key", "in-header"),), body)


@pytest.mark.parametrize(
    ("http", "request_seen", "key"),
    [
        ({}, seen(), "in-header"),
        (
            {"key_header": None, "key_body": "/a/b"},
            seen(body=b'{"a":{"b":"in-body"}}'),
            "in-body",
        ),
        ({"key_header": None, "key_body": "/a/b"}, seen(body=b"<not json>"), None),
        (
            {"key_header": None, "key_body": "/ref", "body": "form"},
            seen(body=b"amount=1&ref=in-form"),
            "in-form",
        ),
        (
            {"key_header": None, "url": "http://127.0.0.1/c/{downstream_key}?x=1"},
            seen("/c/in%2Durl?x=1"),
            "in-url",
        ),
        (
            {"key_header": None, "url": "http://127.0.0.1/c/{downstream_key}"},
            seen("/other"),
            None,
        ),
    ],
)
def test_key_is_read_where_the_contract_puts_it(
    http: dict[str, Any], request_seen: SeenRequest, key: str | None
) -> None:
    assert BookedHttp(http=http).key_of(request_seen) == key
