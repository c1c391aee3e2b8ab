"""An MCP server on the bare socket: what it says, and when, is the test's to choose."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.integration.adapters.fault_server import Act, FaultServer, Peer, answer

_GREETING: Final = {
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "bare", "version": "1"},
}
INITIALIZED: Final = _GREETING | {"protocolVersion": "2025-06-18"}
DISCOVERED: Final = _GREETING | {
    "supportedVersions": ["2026-07-28"],
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "private",
}
CHARGED: Final = {
    "content": [],
    "structuredContent": {"id": "ch_1"},
    "isError": False,
    "resultType": "complete",
}
UNKNOWN_METHOD: Final = {"code": -32601, "message": "unknown method"}
REQUESTS_MAX: Final = 8


def result(document: dict[str, Any], target: FaultServer) -> Act:
    """Answer the last request seen with a result."""

    async def act(peer: Peer) -> bool:
        request_id = json.loads(target.seen[-1].body)["id"]
        told = {"jsonrpc": "2.0", "id": request_id, "result": document}
        return await answer(200, told)(peer)

    return act


def speak(target: FaultServer, call: Act | None = None, *, old: bool = False) -> None:
    """Let a target shake hands, as older servers do or as newer ones, and play a call."""
    called = call or result(CHARGED, target)
    greetings = {"initialize": INITIALIZED} if old else {"server/discover": DISCOVERED}

    async def act(peer: Peer) -> bool:
        message = json.loads(target.seen[-1].body)
        method = message["method"]
        if method == "tools/call":
            return await called(peer)
        if method in greetings:
            return await result(greetings[method], target)(peer)
        if "id" not in message:
            return await answer(202, {})(peer)
        told = {"jsonrpc": "2.0", "id": message["id"], "error": UNKNOWN_METHOD}
        return await answer(200, told)(peer)

    target.plan(*[act] * REQUESTS_MAX)


def by_method(target: FaultServer) -> dict[str, int]:
    """Return for each method that was asked the connection it came on last."""
    return {json.loads(it.body)["method"]: it.connection for it in target.seen}
