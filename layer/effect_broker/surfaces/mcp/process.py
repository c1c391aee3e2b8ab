"""MCP as a plain process: on standard input and output, or over HTTP on this machine."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import anyio
import uvicorn
from mcp.server.stdio import stdio_server

from effect_broker.domain.canonical import parse_strict
from effect_broker.domain.errors import InvalidJson
from effect_broker.ports import Credential
from effect_broker.secrets import CachedSecrets
from effect_broker.settings import Settings
from effect_broker.surfaces.auth import Authenticator
from effect_broker.surfaces.limiting import Rate, RateLimiter
from effect_broker.surfaces.mcp.http import McpApp, caller_of
from effect_broker.surfaces.mcp.passing import Passing, passing
from effect_broker.surfaces.mcp.server import PATIENCE, BrokerTools
from effect_broker.telemetry import NullMeter
from effect_broker.telemetry.logs import configure_logging
from effect_broker.wiring.core import PROCESS_CONNECTIONS, Core
from effect_broker.wiring.sources import secret_source


async def serve_stdio(
    settings: Settings, api_key: str, *, patience: timedelta = PATIENCE
) -> None:
    """Serve one client on standard input and output until it closes them.

    The key is proved at every call, so that a revoked one opens nothing any more. Lines
    that are not one strict JSON value are answered as parse errors.

    Raises:
        Unauthenticated: the key opens nothing.
    """
    configure_logging(settings.log_level, sys.stderr)
    core = Core(settings, NullMeter(), PROCESS_CONNECTIONS)
    authenticator = Authenticator(core.registry)

    async def caller(_: Any) -> Credential:
        return await authenticator.authenticate(f"Bearer {api_key}")

    passed = _passing(core)
    try:
        await caller(None)
        server = BrokerTools(core.broker, caller, patience, passed).server()
        lines: Any = _StrictLines(anyio.wrap_file(sys.stdin))
        async with stdio_server(stdin=lines) as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    finally:
        await core.connections.close()
        if passed is not None:
            await passed.aclose()


async def serve_http(
    settings: Settings,
    host: str,
    port: int,
    *,
    announce: Callable[[str], None],
    patience: timedelta = PATIENCE,
) -> None:
    """Serve streamable HTTP at /mcp until a signal ends the process."""
    import socket

    configure_logging(settings.log_level)
    core = Core(settings, NullMeter(), PROCESS_CONNECTIONS)
    app = http_app(core, patience)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
    )
    try:
        with socket.create_server((host, port), reuse_port=False) as listening:
            announce("http://{}:{}/mcp".format(*listening.getsockname()[:2]))
            await uvicorn.Server(config).serve(sockets=[listening])
    finally:
        await core.connections.close()
        if app.tools.passing is not None:
            await app.tools.passing.aclose()


def http_app(core: Core, patience: timedelta = PATIENCE) -> McpApp:
    """Return the ASGI application over a process's core."""
    return McpApp(
        BrokerTools(core.broker, caller_of, patience, _passing(core)),
        Authenticator(core.registry),
        RateLimiter(Rate.of(core.settings.rate_limit)),
    )


def _passing(core: Core) -> Passing | None:
    secrets = CachedSecrets(secret_source(core.settings), core.clock)
    return passing(core.settings.mcp_upstreams, secrets, core.clock)


class _StrictLines:
    """Lines of a client; what parsers could read differently nobody can read."""

    def __init__(self, lines: Any) -> None:
        self._lines = lines

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._lines:
            try:
                parse_strict(line.encode("utf-8", "surrogatepass"))
            except InvalidJson:
                yield "{\n"
            else:
                yield line
