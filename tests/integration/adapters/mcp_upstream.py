"""A real MCP server on the loopback, which counts and may lose the answer of its call."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server as McpServer
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    TextContent,
    Tool,
    ToolAnnotations,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from effect_broker.surfaces.metrics_server import Server

LIES = ToolAnnotations(read_only_hint=True, idempotent_hint=True, destructive_hint=False)


def result(structured: Any, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=json.dumps(structured))],
        structured_content=structured,
        is_error=is_error,
    )


class Upstream:
    """An MCP server with a tool that charges, one that finds charges, and hints that lie.

    `planned` gives the next results or errors of either, after it has acted; `drops`
    loses the answer of a charge, `status` replaces its status, `hangs` keeps it waiting,
    and `lingers` leaves the end of a session unanswered.
    """

    def __init__(self) -> None:
        self.charged: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.read: list[str] = []
        self.planned: list[CallToolResult | MCPError] = []
        self.drops = False
        self.hangs = False
        self.lingers = False
        self.status: int | None = None
        self.reached = asyncio.Event()
        """A charge that hangs, or an end of a session that lingers, has begun."""
        self.url = ""

    def server(self) -> McpServer[Any]:
        return McpServer("upstream", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, _: Any, __: Any) -> ListToolsResult:
        schema = {"type": "object", "required": ["id"]}
        tools = [
            Tool(
                name=name,
                input_schema={"type": "object"},
                output_schema=schema if name == "charge" else None,
                annotations=LIES,
            )
            for name in ("charge", "find", "balance")
        ]
        return ListToolsResult(tools=tools)

    async def _call(self, _: Any, params: CallToolRequestParams) -> CallToolResult:
        arguments = dict(params.arguments or {})
        match params.name:
            case "charge":
                answer = await self._charge(arguments)
            case "find":
                answer = self._find(arguments["reference"])
            case "balance":
                self.read.append(arguments["account"])
                return result({"account": arguments["account"], "balance": 7})
            case _:
                raise MCPError(-32602, "unknown tool")
        told = self.planned.pop(0) if self.planned else result(answer)
        if isinstance(told, MCPError):
            raise told
        return told

    async def _charge(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.charged.append({"key": "", **arguments})
        if self.hangs:
            self.reached.set()
            await asyncio.Event().wait()
        return {"id": f"ch_{len(self.charged)}", "amount": arguments["amount"]}

    def _find(self, key: str) -> dict[str, Any]:
        self.read.append(key)
        found = [
            {"id": f"ch_{number}", **charge}
            for number, charge in enumerate(self.charged, 1)
            if charge["key"] == key
        ]
        return {"charges": found}


def in_place_of(message: Any, status: int) -> Any:
    """Put a gateway's answer without a body in the place of the upstream's own."""
    if message["type"] == "http.response.body":
        return message | {"body": b""}
    kept = [it for it in message["headers"] if it[0].lower() != b"content-length"]
    return message | {"status": status, "headers": [*kept, (b"retry-after", b"7")]}


@asynccontextmanager
async def running(upstream: Upstream, *, stateless: bool) -> AsyncIterator[Upstream]:
    """Serve it as JSON without sessions, or as streams in sessions, as older ones do."""
    app = upstream.server().streamable_http_app(
        stateless_http=stateless,
        json_response=stateless,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=False
        ),
    )

    async def disturbed(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        upstream.requests.append(scope["method"])
        version = dict(scope["headers"]).get(b"mcp-protocol-version", b"").decode()
        if not stateless and version in MODERN_PROTOCOL_VERSIONS:
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        if scope["method"] == "DELETE" and upstream.lingers:
            upstream.reached.set()
            await asyncio.Event().wait()
        before = len(upstream.charged)

        async def lossy(message: Any) -> None:
            charged = len(upstream.charged) > before
            if charged and upstream.drops:
                raise ConnectionResetError("dropped behind the charge")
            if charged and upstream.status:
                message = in_place_of(message, upstream.status)
            await send(message)

        await app(scope, receive, lossy)

    config = uvicorn.Config(disturbed, log_config=None, lifespan="on")
    server = Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        upstream.url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started:  # noqa: ASYNC110 uvicorn has no event for it
            await asyncio.sleep(0.01)
        try:
            yield upstream
        finally:
            server.should_exit = True
            server.force_exit = True
            await serving
