"""What passes the broker by: declared read-only tools of upstream servers."""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mcp.types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import ValidationError

from effect_broker.adapters.mcp_client import CallNotAnswered
from effect_broker.adapters.mcp_reading import ReadingUpstream
from effect_broker.domain.contract import McpUpstream
from effect_broker.domain.errors import ContractInvalid, SecretNotFound
from effect_broker.ports import Clock, SecretSource

LISTED_SECONDS: Final = 60.0
"""How long a list is believed: clients ask for it at every start."""

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Passing:
    """The declared tools of all upstreams; remembers their descriptions for a minute."""

    upstreams: Sequence[ReadingUpstream]
    clock: Clock
    _listed: tuple[float, Sequence[Tool]] | None = field(default=None, init=False)

    def passes(self, name: str) -> bool:
        """Say whether a tool is declared by any upstream."""
        return any(name in upstream.names for upstream in self.upstreams)

    async def tools(self) -> Sequence[Tool]:
        """Return what can be called now; an upstream that is away is left out."""
        now = self.clock.monotonic()
        if self._listed is not None and now - self._listed[0] < LISTED_SECONDS:
            return self._listed[1]
        found: list[Tool] = []
        for upstream in self.upstreams:
            try:
                found += [_truthful(tool) for tool in await upstream.tools()]
            except (CallNotAnswered, SecretNotFound) as error:
                _log.warning("an upstream does not list its tools: %s", error)
        self._listed = (now, found)
        return found

    async def call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Pass a call on, and its result back as it is."""
        upstream = next(it for it in self.upstreams if name in it.names)
        try:
            return await upstream.call(name, arguments)
        except (CallNotAnswered, SecretNotFound) as error:
            _log.warning("an upstream did not answer a read-only tool: %s", error)
            text = "The upstream did not answer. It changes nothing; call it again."
            return CallToolResult(
                content=[TextContent(type="text", text=text)], is_error=True
            )

    async def aclose(self) -> None:
        """Close idle connections to every upstream."""
        for upstream in self.upstreams:
            await upstream.aclose()


def passing(path: Path | None, secrets: SecretSource, clock: Clock) -> Passing | None:
    """Read the upstreams of a file; None where no file is named.

    Raises:
        ContractInvalid: the file cannot be read, or says what it may not.
    """
    if path is None:
        return None
    try:
        document = tomllib.loads(path.read_text())
        terms = [McpUpstream.model_validate(it) for it in document["upstreams"]]
    except (OSError, KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        raise ContractInvalid(f"{path}: {type(error).__name__}: {error}") from None
    except ValidationError as error:
        places = sorted({".".join(map(str, it["loc"])) for it in error.errors()})
        raise ContractInvalid(f"{path}: upstreams: {', '.join(places)}") from None
    return Passing([ReadingUpstream(it, secrets, clock) for it in terms], clock)


def _truthful(tool: Tool) -> Tool:
    hints = ToolAnnotations(read_only_hint=True, idempotent_hint=True)
    return tool.model_copy(update={"annotations": hints})
