"""MCP as a plain process: on standard input and output, or over HTTP on this machine."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any, BinaryIO, Final, cast

import uvicorn
from anyio import to_thread
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError

from effect_broker.domain.errors import RequestTooLarge
from effect_broker.ports import Credential
from effect_broker.secrets import CachedSecrets
from effect_broker.settings import Settings
from effect_broker.surfaces.auth import Authenticator
from effect_broker.surfaces.limiting import Rate, RateLimiter
from effect_broker.surfaces.mcp.envelope import (
    INVALID_REQUEST,
    EnvelopeRefused,
    check_envelope,
    request_id_of,
)
from effect_broker.surfaces.mcp.http import McpApp, caller_of
from effect_broker.surfaces.mcp.passing import Passing, passing
from effect_broker.surfaces.mcp.server import PATIENCE, BrokerTools
from effect_broker.surfaces.requests import BODY_BYTES_MAX
from effect_broker.telemetry import NullMeter
from effect_broker.telemetry.logs import configure_logging
from effect_broker.wiring.core import PROCESS_CONNECTIONS, Core
from effect_broker.wiring.sources import secret_source

LINE_BYTES_MAX: Final = 16 * BODY_BYTES_MAX
"""How much of a line is kept that is refused for its length: its id may stand last."""


async def serve_stdio(
    settings: Settings, api_key: str, *, patience: timedelta = PATIENCE
) -> None:
    """Serve one client on standard input and output until it closes them.

    The key is proved at every call, so that a revoked one opens nothing any more. Lines
    that are not one strict message are answered as such, and reach nothing.

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
        lines = StrictLines(sys.stdin.buffer)
        async with stdio_server(stdin=cast(Any, lines)) as (reading, writing):
            lines.answer = writing.send  # no reader has run: nothing was awaited since
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


class StrictLines:
    """Lines of a client; one that is no strict message is answered here.

    The SDK drops what it cannot read, and its client would wait for ever. `answer` takes
    the refusals; it is set before the first line is read.
    """

    answer: Callable[[SessionMessage], Awaitable[None]]

    def __init__(self, source: BinaryIO) -> None:
        self._source = source

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await to_thread.run_sync(self._read):
            if not line.strip():
                continue
            try:
                _check_line(line)
            except EnvelopeRefused as refused:
                error = JSONRPCError.model_validate(refused.document())
                await self.answer(SessionMessage(error))
            else:
                yield line.decode()

    def _read(self) -> bytes:
        """Read a line; beyond `LINE_BYTES_MAX` its end is read and thrown away."""
        line = rest = self._source.readline(LINE_BYTES_MAX)
        while rest and not rest.endswith(b"\n"):
            rest = self._source.readline(LINE_BYTES_MAX)
        return line


def _check_line(line: bytes) -> None:
    if len(line.rstrip(b"\r\n")) > BODY_BYTES_MAX:
        error = RequestTooLarge(f"A message may hold {BODY_BYTES_MAX} bytes.")
        raise EnvelopeRefused(INVALID_REQUEST, error, request_id_of(line))
    check_envelope(line)
