"""A target that speaks HTTP/1.1, with the recorder between it and the adapter."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from effect_broker.adapters.source import adapters
from effect_broker.conformance.recorder import CannedAnswer, Recorder, is_safe_method
from effect_broker.conformance.target import Fault, SeenRequest
from effect_broker.domain.contract import EffectContract, HttpTerms
from effect_broker.domain.errors import SecretNotFound
from effect_broker.domain.pointer import MISSING, at_pointer, pointer_tokens
from effect_broker.ports import AdapterSource, Clock

NOWHERE: Final = "http://127.0.0.1:9"
"""A base URL for a contract that is only read: nothing listens on the discard port."""

KEY_HEADER: Final = "Idempotency-Key"

_ARGUMENTS: Final = "/params/arguments"
"""Where a tool's call has its arguments, in MCP."""


class HttpTargetUnderTest:
    """Derive from this, and say where your target listens and what it holds.

    A subclass gives `contract_at`, `arguments`, `other_arguments`, `origin`, `reset` and
    `effects`; it may give the rest.
    """

    in_progress: CannedAnswer | None = None
    """What your target answers while the first request under a key still runs."""

    secrets: Mapping[str, str] = {}
    """Values of the secrets that the contract names."""

    arguments: Mapping[str, Any]
    other_arguments: Mapping[str, Any]

    def __init__(self) -> None:
        self._recorder: Recorder | None = None

    def contract_at(self, base_url: str) -> EffectContract:
        """Return the contract under test, its target at `base_url`."""
        raise NotImplementedError

    async def reset(self) -> tuple[str, int]:
        """Empty the target (start it, if it is yours) and return where it listens."""
        raise NotImplementedError

    async def effects(self) -> int:
        """Count the effects in the target's own books."""
        raise NotImplementedError

    def sources(self, clock: Clock) -> AdapterSource:
        """Return a source of adapters: the broker's own registry, unless overridden."""
        return adapters(_Secrets(self.secrets), clock)

    def is_lookup(self, request: SeenRequest) -> bool:
        """Tell lookups from mutations, unless overridden: by their method, or by the MCP
        tool that is called.
        """
        terms = self.contract.mcp
        if terms is None:
            return is_safe_method(request)
        return terms.lookup is not None and _tool_called(request) == terms.lookup.tool

    def is_aside(self, request: SeenRequest) -> bool:
        """Tell what does neither, such as a handshake: no fault falls on it. Of MCP, all
        that calls no tool.
        """
        return self.contract.mcp is not None and _tool_called(request) is None

    async def close(self) -> None:
        """End what `reset` started, if anything."""

    forgets_keys = False

    async def forget_keys(self) -> None:
        """Make the target forget its keys; set `forgets_keys` where it can."""
        raise NotImplementedError

    @property
    def contract(self) -> EffectContract:
        """The contract, at the recorder while the target runs."""
        return self.contract_at(self._recorder.url if self._recorder else NOWHERE)

    @property
    def faults(self) -> frozenset[Fault]:
        """Every fault, but `IN_PROGRESS` only where its answer is known."""
        if self.in_progress is not None:
            return frozenset(Fault)
        return frozenset(Fault) - {Fault.IN_PROGRESS}

    @property
    def lookup_faults(self) -> frozenset[Fault]:
        """Every fault of a lookup, where the contract has one."""
        if self.contract.probe is None:
            return frozenset()
        return frozenset(Fault) - {Fault.IN_PROGRESS}

    async def start(self, clock: Clock) -> AdapterSource:
        """Start the target and the recorder before it."""
        recorder = Recorder(
            await self.reset(),
            is_lookup=self.is_lookup,
            is_aside=self.is_aside,
            in_progress=self.in_progress,
        )
        await recorder.start()
        self._recorder = recorder
        self._source = self.sources(clock)
        return self._source

    async def stop(self) -> None:
        """Close the adapters, the recorder and the target."""
        closing = getattr(getattr(self, "_source", None), "aclose", None)
        if closing is not None:
            await closing()
        if self._recorder is not None:
            await self._recorder.stop()
        self._recorder = None
        await self.close()

    def plan(self, *faults: Fault) -> None:
        """Say what becomes of the next mutating requests."""
        self._running.planned.extend(faults)

    def plan_lookups(self, *faults: Fault) -> None:
        """Say what becomes of the next lookups."""
        self._running.planned_lookups.extend(faults)

    def requests(self) -> Sequence[SeenRequest]:
        """Return the mutating requests that the recorder saw."""
        return tuple(self._running.requests)

    def key_of(self, request: SeenRequest) -> str | None:
        """Read the key where the contract's HTTP or MCP terms put it; without such terms,
        in the header `Idempotency-Key`.
        """
        terms, tool = self.contract.http, self.contract.mcp
        if tool is not None:
            place = tool.key_argument
            return None if place is None else _text_at(request, _ARGUMENTS + place)
        if terms is None:
            return request.header(KEY_HEADER)
        if terms.key_header is not None:
            return request.header(terms.key_header)
        if terms.key_body is not None:
            return _key_in_body(terms, request)
        return _key_in_url(terms, request)

    @property
    def _running(self) -> Recorder:
        assert self._recorder is not None, "the target is not started"
        return self._recorder


class _Secrets:
    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    async def secret(self, name: str) -> str:
        if name not in self._values:
            raise SecretNotFound(f"The secret {name} is not among `secrets`.")
        return self._values[name]


def _key_in_body(terms: HttpTerms, request: SeenRequest) -> str | None:
    assert terms.key_body is not None
    if terms.body == "form":
        (name,) = pointer_tokens(terms.key_body)
        return ", ".join(parse_qs(request.body.decode()).get(name, [])) or None
    return _text_at(request, terms.key_body)


def _tool_called(request: SeenRequest) -> str | None:
    """Name the MCP tool that a request calls; None where it calls none.

    One that cannot be read may be a call, of a tool without a name.
    """
    if request.method != "POST":
        return None
    if not request.complete:
        return ""
    if _text_at(request, "/method") != "tools/call":
        return None
    return _text_at(request, "/params/name") or ""


def _text_at(request: SeenRequest, pointer: str) -> str | None:
    try:
        found = at_pointer(json.loads(request.body), pointer)
    except ValueError:
        return None
    return None if found is MISSING else str(found)


def _key_in_url(terms: HttpTerms, request: SeenRequest) -> str | None:
    parts = urlsplit(terms.url)
    template = parts.path + (f"?{parts.query}" if parts.query else "")
    pattern = "".join(
        "(?P<key>[^/?&]*)"
        if piece == "{downstream_key}"
        else "[^/?&]*"
        if piece.startswith("{")
        else re.escape(piece)
        for piece in re.split(r"(\{[\w.]+\})", template)
    )
    found = re.search(f"{pattern}$", request.target)
    return unquote(found["key"]) if found and "key" in found.groupdict() else None
