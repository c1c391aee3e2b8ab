"""The official MCP client over the broker's own wire: one call, made once, or not at all.

The client's transport may reconnect, resume, ask again and take its call back. Here each
of its requests is one exchange of ours, and only the first that calls a tool leaves:
whatever the client then does to get an answer, the tool runs once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    Tool,
)
from pydantic import TypeAdapter

from effect_broker.adapters.mcp_outcome import ToolCall
from effect_broker.adapters.wire.exchange import Exchange, WireRequest
from effect_broker.adapters.wire.gate import NothingSent

CALL: Final = "tools/call"
CANCELLED: Final = "notifications/cancelled"
GOODBYE_SECONDS: Final = 0.5
"""How long a result that is there waits for the end of the upstream's session."""
PAGES_MAX: Final = 100
"""Of a list of tools; a server that has more never ends."""

_RESULT: Final[TypeAdapter[CallToolResult | InputRequiredResult]] = TypeAdapter(
    CallToolResult | InputRequiredResult
)

Send = Callable[[WireRequest, bool], Awaitable[Exchange]]
"""Makes one exchange; the second argument says whether it is the tool's call."""


class SecondCall(NothingSent):
    """The client wanted to call the tool again; nothing more leaves."""


class CallNotAnswered(Exception):
    """The call left, or could not, and no result came; the exchange knows which."""


async def make(call: ToolCall, url: str, headers: Mapping[str, str], send: Send) -> None:
    """Shake hands if the server wants it, and call the tool once.

    What comes back is not held to the schema that the server lists: a result that breaks
    it was executed all the same.
    """
    params = CallToolRequestParams(name=call.tool, arguments=call.arguments)
    try:
        async with _client(url, headers, send) as client:
            call.failure = "no_result"
            result = await client.session.send_request(
                CallToolRequest(params=params), _RESULT
            )
            if isinstance(result, CallToolResult) and result.result_type == "complete":
                call.result = result
            else:
                call.failure = "not_complete"
    except Exception:  # noqa: BLE001 whatever the client raises, the exchange knows more
        return


async def call_once(
    url: str, headers: Mapping[str, str], send: Send, call: ToolCall
) -> CallToolResult:
    """Make a call and return its result.

    Raises:
        CallNotAnswered: no result came, whatever the reason.
    """
    await make(call, url, headers, send)
    if call.result is None:
        raise CallNotAnswered(call.failure)
    return call.result


async def listed(url: str, headers: Mapping[str, str], send: Send) -> Sequence[Tool]:
    """Return every tool that a server lists; nothing is called.

    Raises:
        CallNotAnswered: the list did not come whole.
    """
    tools: list[Tool] = []
    cursor: str | None = None
    try:
        async with _client(url, headers, send) as client:
            for _ in range(PAGES_MAX):
                page = await client.list_tools(cursor=cursor)
                tools += page.tools
                cursor = page.next_cursor
                if cursor is None:
                    return tools
    except Exception as error:
        raise CallNotAnswered(type(error).__name__) from error
    raise CallNotAnswered("too_many_pages")


@asynccontextmanager
async def _client(
    url: str, headers: Mapping[str, str], send: Send
) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(
            transport=_OneCall(send),
            headers=dict(headers),
            follow_redirects=False,
            trust_env=False,
            timeout=None,
        ) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


class _OneCall(httpx2.AsyncBaseTransport):
    """Carries the client's requests over our wire; one of them calls the tool.

    A call that nobody waits for any more is not taken back: to stop waiting is never to
    undo, and a tool stopped half-way is worse than one that ends.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._called = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return httpx2.Response(405)
        wire = _wire(request, await request.aread())
        if request.method == "DELETE":
            return _response(await self._goodbye(wire))
        methods = _methods(wire.body)
        if methods == {CANCELLED}:
            return httpx2.Response(202)
        calls = CALL in methods
        if calls and self._called:
            raise SecondCall("called_once")
        self._called = self._called or calls
        return _response(await self._send(wire, calls))

    async def _goodbye(self, wire: WireRequest) -> Exchange:
        """End the session within bounds; whoever was told to stop leaves at once."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise httpx2.TransportError("cancelled")
        async with asyncio.timeout(GOODBYE_SECONDS):
            return await self._send(wire, False)


def _response(known: Exchange) -> httpx2.Response:
    if known.status is None:
        raise httpx2.TransportError(known.failure or "no_answer")
    headers = [
        (name, value)
        for name, value in known.headers
        if name.lower() not in (b"content-length", b"transfer-encoding")
    ]
    return httpx2.Response(known.status, headers=headers, content=bytes(known.body))


def _wire(request: httpx2.Request, body: bytes) -> WireRequest:
    return WireRequest(
        method=request.method,
        target=request.url.raw_path,
        headers=(
            *(
                (name, value)
                for name, value in request.headers.raw
                if name.lower() not in (b"accept-encoding", b"connection")
            ),
            (b"Accept-Encoding", b"identity"),
        ),
        body=body,
    )


def _methods(body: bytes) -> frozenset[str]:
    """Name the methods of a body's messages; one that cannot be read may be a call."""
    try:
        document = json.loads(body)
    except ValueError:
        return frozenset({CALL})
    messages = document if isinstance(document, list) else [document]
    return frozenset(str(it.get("method")) for it in messages if isinstance(it, dict))
