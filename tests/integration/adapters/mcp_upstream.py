"""A real MCP server on the loopback, which counts and may lose the answer of its call."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from effect_broker.surfaces.metrics_server import Server


class Upstream:
    """An MCP server whose one tool counts; it can lose the answer of its call."""

    def __init__(self) -> None:
        self.charged: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.read: list[str] = []
        self.drops = False
        self.url = ""

    def server(self) -> MCPServer:
        server = MCPServer("upstream")

        @server.tool()
        async def charge(amount: int, key: str = "") -> dict[str, Any]:
            """Charge a card."""
            self.charged.append({"amount": amount, "key": key})
            if amount == 402:
                raise ValueError("declined behind the charge")
            if amount == 999:
                await asyncio.sleep(30)
            return {"id": f"ch_{len(self.charged)}", "amount": amount}

        @server.tool()
        async def balance(account: str) -> dict[str, Any]:
            """Tell a balance."""
            self.read.append(account)
            return {"account": account, "balance": 7}

        return server


@asynccontextmanager
async def running(upstream: Upstream, *, stateless: bool) -> AsyncIterator[Upstream]:
    app = upstream.server().streamable_http_app(
        stateless_http=stateless,
        json_response=stateless,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=False
        ),
    )

    async def dropping(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        upstream.requests.append(scope["method"])
        before = len(upstream.charged)

        async def lossy(message: Any) -> None:
            if upstream.drops and len(upstream.charged) > before:
                raise ConnectionResetError("dropped behind the charge")
            await send(message)

        await app(scope, receive, lossy)

    config = uvicorn.Config(dropping, log_config=None, lifespan="on")
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
