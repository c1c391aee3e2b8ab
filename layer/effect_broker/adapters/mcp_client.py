"""The official MCP client over the broker's own wire: one call, made once, or not at all.

The client's transport may reconnect, resume and ask again. Here each of its requests is
one exchange of ours, and only the first that calls a tool leaves: whatever the client
then does to get an answer, the tool runs once.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, Tool

from effect_broker.adapters.wire.exchange import Exchange, WireRequest
from effect_broker.adapters.wire.gate import NothingSent

CALL: Final = "tools/call"
PAGES_MAX: Final = 100
"""Of a list of tools; a server that has more never ends."""

Send = Callable[[WireRequest, bool], Awaitable[Exchange]]
"""Makes one exchange; the second argument says whether it is the tool's call."""


class SecondCall(NothingSent):
    """The client wanted to call the tool again; nothing more leaves."""


class CallNotAnswered(Exception):
    """The call left, or could not, and no result came; the exchange knows which."""


async def call_once(
    url: str,
    headers: Mapping[str, str],
    send: Send,
    *,
    tool: str,
    arguments: dict[str, Any],
) -> CallToolResult:
    """Shake hands if the server wants it, call the tool once, and return its result.

    Raises:
        CallNotAnswered: no result came, whatever the reason.
    """
    try:
        async with _client(url, headers, send) as client:
            result = await client.call_tool(tool, arguments)
    except Exception as error:
        raise CallNotAnswered(type(error).__name__) from error
    if not isinstance(result, CallToolResult):
        raise CallNotAnswered("input_required")
    return result


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
    """Carries the client's requests over our wire; one of them calls the tool."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._called = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return httpx2.Response(405)
        body = await request.aread()
        calls = _calls_a_tool(body)
        if calls and self._called:
            raise SecondCall("called_once")
        self._called = self._called or calls
        known = await self._send(_wire(request, body), calls)
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


def _calls_a_tool(body: bytes) -> bool:
    try:
        document = json.loads(body or b"null")
    except ValueError:
        return True
    messages = document if isinstance(document, list) else [document]
    return any(isinstance(it, dict) and it.get("method") == CALL for it in messages)
