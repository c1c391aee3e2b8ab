"""MCP over streamable HTTP, without sessions: each request stands for itself.

A fresh transport serves each request, so that a warm Lambda container answers the
hundredth event as it answered the first, and nothing runs on after an answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Message, Receive, Scope, Send

from effect_broker.domain.errors import (
    EffectBrokerError,
    InvalidJson,
    RequestTooLarge,
    Unauthenticated,
)
from effect_broker.ports import Credential
from effect_broker.surfaces.auth import Authenticator
from effect_broker.surfaces.limiting import RateLimiter
from effect_broker.surfaces.mcp.envelope import EnvelopeRefused, check_envelope
from effect_broker.surfaces.mcp.server import BrokerTools
from effect_broker.surfaces.problem import MEDIA_TYPE, problem_of
from effect_broker.surfaces.requests import BODY_BYTES_MAX

PATH: Final = "/mcp"
CALLER: Final = "effect_broker.caller"


@dataclass(frozen=True, slots=True)
class McpApp:
    """An ASGI application: proves the caller, reads strictly, then serves MCP."""

    tools: BrokerTools
    authenticator: Authenticator
    limiter: RateLimiter = field(default_factory=lambda: RateLimiter(None))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        if scope["path"].rstrip("/") not in ("", PATH):
            await _answer(send, 404, {"title": "Not found", "code": "route_not_found"})
        elif scope["method"] != "POST":
            problem = {"title": "Only POST is served", "code": "method_not_allowed"}
            await _answer(send, 405, problem, {"allow": "POST"})
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            scope[CALLER] = await self._caller(scope)
            body = await _read(scope, receive)
        except EffectBrokerError as error:
            problem = problem_of(error)
            await _answer(send, problem.status, problem.document(), dict(problem.headers))
            return
        try:
            check_envelope(body)
        except EnvelopeRefused as refused:
            await _send(send, 400, "application/json", refused.document(), {})
            return
        manager = StreamableHTTPSessionManager(
            app=self.tools.server(),
            json_response=True,
            stateless=True,
            # Whoever has no key gets nothing, whatever name the host was reached by.
            security_settings=TransportSecuritySettings(
                enable_dns_rebinding_protection=False
            ),
        )
        async with manager.run():
            await manager.handle_request(scope, _replayed(body, receive), send)

    async def _caller(self, scope: Scope) -> Credential:
        headers = dict(scope["headers"])
        authorization = headers.get(b"authorization", b"").decode("latin-1") or None
        credential = await self.authenticator.authenticate(authorization)
        self.limiter.take(credential.key_id)
        return credential


async def caller_of(context: Any) -> Credential:
    """Return whose HTTP request a context is."""
    request = context.request
    credential = None if request is None else request.scope.get(CALLER)
    if not isinstance(credential, Credential):
        raise Unauthenticated("Send an API key as a bearer token.")
    return credential


async def _read(scope: Scope, receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise InvalidJson("The body ended early.")
        body += message.get("body", b"")
        if len(body) > BODY_BYTES_MAX:
            raise RequestTooLarge(f"The body may hold {BODY_BYTES_MAX} bytes.")
        if not message.get("more_body", False):
            return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Hand a body out that was read already; what comes after it is the server's own."""
    sent = False

    async def replayed() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


async def _answer(
    send: Send,
    status: int,
    document: dict[str, Any],
    headers: dict[str, str] | None = None,
) -> None:
    await _send(send, status, MEDIA_TYPE, {**document, "status": status}, headers or {})


async def _send(
    send: Send, status: int, kind: str, document: dict[str, Any], headers: dict[str, str]
) -> None:
    named = {"content-type": kind, **{name.lower(): headers[name] for name in headers}}
    encoded = [(name.encode(), value.encode()) for name, value in named.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": json.dumps(document).encode()})
