"""Read-only tools of upstream MCP servers: what an operator declared to change nothing.

They pass through, without a contract, a key or a record. Whoever declares a tool that
does change something has taken it out of the broker's care.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from mcp.types import CallToolResult, Tool

from effect_broker.adapters.http_target import digest_of, header_fields
from effect_broker.adapters.mcp_client import CallNotAnswered, Send, call_once, listed
from effect_broker.adapters.mcp_outcome import ToolCall
from effect_broker.adapters.wire.connecting import origin_of
from effect_broker.adapters.wire.connections import ConnectionKey, Connections
from effect_broker.adapters.wire.exchange import Exchange, WireRequest, exchange
from effect_broker.adapters.wire.gate import SendGate
from effect_broker.domain.contract import McpUpstream, SecretRef
from effect_broker.ports import Clock, SecretSource

READ_SECONDS: Final = 10.0
_NOBODY: Final = UUID(int=0)


class ReadingUpstream:
    """One upstream and its declared read-only tools."""

    def __init__(self, terms: McpUpstream, secrets: SecretSource, clock: Clock) -> None:
        self._terms = terms
        self._secrets = secrets
        self._clock = clock
        self._connections = Connections(clock)

    @property
    def names(self) -> frozenset[str]:
        """The tools that pass."""
        return frozenset(self._terms.read_only)

    async def tools(self) -> Sequence[Tool]:
        """Return the declared tools as the upstream describes them.

        Raises:
            CallNotAnswered: the upstream did not answer.
            SecretNotFound: a credential is missing.
        """
        url, headers = await self._place()
        found = await listed(url, dict(headers), self._send(url, headers))
        return [tool for tool in found if tool.name in self.names]

    async def call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call a declared tool and return its result as it is.

        Raises:
            CallNotAnswered: no result came; nothing was to change, so it may be repeated.
            SecretNotFound: a credential is missing.
        """
        if name not in self.names:
            raise CallNotAnswered("not_declared")
        url, headers = await self._place()
        call = ToolCall(name, arguments)
        return await call_once(url, dict(headers), self._send(url, headers), call)

    async def aclose(self) -> None:
        """Close idle connections."""
        await self._connections.aclose()

    async def _place(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        url = self._terms.url
        if isinstance(url, SecretRef):
            url = url.render(await self._secrets.secret(url.secret))
        return url, await header_fields(self._terms.headers, self._secrets)

    def _send(self, url: str, headers: tuple[tuple[str, str], ...]) -> Send:
        key = ConnectionKey(
            tenant_id=_NOBODY,
            contract=digest_of("mcp-reading", url),
            credential=digest_of("mcp", *(text for pair in headers for text in pair)),
            origin=origin_of(url),
            allow_private=self._terms.allow_private,
        )

        async def send(request: WireRequest, _: bool) -> Exchange:
            gate = SendGate(self._clock, None, scope=b"", expected_scope=b"")
            return await exchange(
                self._connections, key, request, gate, seconds=READ_SECONDS
            )

        return send
