"""The `mcp` adapter before a real MCP server that keeps what stands under a key."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

from effect_broker.conformance import CannedAnswer, HttpTargetUnderTest
from effect_broker.domain.contract import EffectContract
from tests.conformance.targets import times
from tests.integration.adapters.mcp_calls import fields
from tests.integration.adapters.mcp_upstream import Upstream, result, running

REUSED = result({"code": "key_reused"}, is_error=True)


class KeyedUpstream(Upstream):
    """Charges once under a key, and refuses it with another payload."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def forget_keys(self) -> None:
        self._kept.clear()

    async def _charge(self, arguments: dict[str, Any]) -> dict[str, Any]:
        key = arguments.get("key")
        if key is None:
            return await super()._charge(arguments)
        if key not in self._kept:
            self._kept[key] = arguments, await super()._charge(arguments)
        known, answer = self._kept[key]
        if known != arguments:
            self.planned.append(REUSED)
        return answer


class McpTarget(HttpTargetUnderTest):
    """One tool of that server; only its calls, and those of its lookup, meet faults."""

    arguments: Mapping[str, Any] = {"amount": 100}
    other_arguments: Mapping[str, Any] = {"amount": 999}
    in_progress = CannedAnswer(409)
    forgets_keys = True

    def __init__(
        self, safety: str = "idempotent", *, stateless: bool = True, **terms: Any
    ) -> None:
        super().__init__()
        self._safety = safety
        self._stateless = stateless
        self._terms = terms
        self._serving = AsyncExitStack()
        self._upstream = KeyedUpstream()

    def contract_at(self, base_url: str) -> EffectContract:
        meaning = {
            "code": "/code",
            "error/key_reused": "key_conflict",
            "409": "in_progress",
        }
        made = fields(f"{base_url}/mcp", self._safety, meaning=meaning)
        if "probe" in self._terms:
            made["mcp"]["lookup"] = {"tool": "find", "key_argument": "/reference"}
        return EffectContract.model_validate(made | times(self._safety) | self._terms)

    async def reset(self) -> tuple[str, int]:
        self._upstream = KeyedUpstream()
        serving = running(self._upstream, stateless=self._stateless)
        await self._serving.enter_async_context(serving)
        place = urlsplit(self._upstream.url)
        assert place.hostname is not None
        assert place.port is not None
        return place.hostname, place.port

    async def close(self) -> None:
        await self._serving.aclose()

    async def effects(self) -> int:
        return len(self._upstream.charged)

    async def forget_keys(self) -> None:
        self._upstream.forget_keys()
