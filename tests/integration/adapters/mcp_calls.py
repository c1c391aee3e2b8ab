"""Contracts over an upstream MCP server, and one call or lookup under them."""

from __future__ import annotations

from typing import Any

from effect_broker.adapters.mcp import McpAdapters
from effect_broker.adapters.wire.exchange import AbortingWatchdog
from effect_broker.clock import SystemClock
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.outcome import Outcome, ProbeResult
from effect_broker.ports import Deadline
from tests.integration.adapters.given import ATTEMPT, GivenSecrets, effect

LOOKUP: dict[str, Any] = {"tool": "find", "key_argument": "/reference"}
PROBE: dict[str, Any] = {
    "consistency": "strong",
    "found": "/charges/0",
    "match": "/charges/0/key",
}


def fields(url: str, safety: str = "unsafe", /, **mcp: Any) -> dict[str, Any]:
    """Return a contract's table; `mcp` is merged into its terms."""
    terms: dict[str, Any] = {
        "url": url,
        "tool": "charge",
        "allow_private": True,
        "external_id": "/id",
        "account": "main",
    }
    made: dict[str, Any] = {
        "tool": "pay.charge",
        "name": "pay-charge",
        "version": "1",
        "safety": safety,
        "adapter": "mcp",
        "attempt_timeout": "3s",
        "settlement_bound": "1s",
        "arguments": {"type": "object"},
    }
    if safety != "unsafe":
        terms["key_argument"] = "/key"
    if safety == "idempotent":
        made |= {"key_retention": "24h", "key_records": "commits"}
    if safety == "reconcilable":
        terms["lookup"] = LOOKUP
        made["probe"] = PROBE
    return made | {"mcp": terms | mcp}


def contract(url: str, safety: str = "unsafe", /, **mcp: Any) -> EffectContract:
    return EffectContract.model_validate(fields(url, safety, **mcp))


async def dispatched(
    served: EffectContract,
    *,
    seconds: float = 3.0,
    scope: bytes | None = None,
    watchdog: AbortingWatchdog | None = None,
) -> Outcome:
    adapters = McpAdapters(GivenSecrets(), SystemClock(), watchdog=watchdog)
    adapter = await adapters.adapter(
        served,
        scope_digest=scope or await adapters.scope_digest(served),
        deadline=deadline_in(seconds),
    )
    try:
        made = effect(served, {"amount": 100})
        return await adapter.dispatch(made, attempt_id=ATTEMPT)
    finally:
        await adapters.aclose()


async def probed(served: EffectContract, *, seconds: float = 3.0) -> ProbeResult:
    adapters = McpAdapters(GivenSecrets(), SystemClock())
    scope = await adapters.scope_digest(served)
    adapter = await adapters.adapter(
        served, scope_digest=scope, deadline=deadline_in(seconds)
    )
    try:
        return await adapter.probe(effect(served, {"amount": 100}))
    finally:
        await adapters.aclose()


def deadline_in(seconds: float) -> Deadline:
    clock = SystemClock()
    return Deadline(
        clock.monotonic() + seconds, clock.boottime() + seconds, clock.wall() + seconds
    )
