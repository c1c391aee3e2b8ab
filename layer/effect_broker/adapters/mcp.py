"""Tools of an upstream MCP server: each dispatch is one call of one tool.

What the upstream says about its tools is no contract. A result is a commit; what an error
means is for the contract's table to say, and whatever it does not list is ambiguous once
the call has left, since a tool may fail after it has acted.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from effect_broker.adapters.http_request import with_value
from effect_broker.adapters.http_target import HeaderFields, digest_of, header_fields
from effect_broker.adapters.mcp_outcome import (
    ToolCall,
    carries_key,
    outcome_of,
    probe_result_of,
)
from effect_broker.adapters.wire.connecting import origin_of
from effect_broker.adapters.wire.connections import ConnectionKey, Connections
from effect_broker.adapters.wire.exchange import (
    AbortingWatchdog,
    Exchange,
    WireRequest,
    exchange,
)
from effect_broker.adapters.wire.gate import (
    SEND_DEADLINE_PASSED,
    NothingSent,
    SendForbidden,
    SendGate,
    unsent,
)
from effect_broker.domain.contract import EffectContract, McpTerms, SafetyClass, SecretRef
from effect_broker.domain.errors import ContractInvalid
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import Ambiguous, Outcome, ProbeResult, ProbeStatus
from effect_broker.domain.pointer import pointer_tokens
from effect_broker.ports import Clock, Deadline, SecretSource, TargetAdapter

HANDSHAKE_SECONDS: Final = 5.0
"""What the client sends before the call changes nothing, and may take no longer."""

READING_SECONDS: Final = 0.25
"""How much longer than its call an attempt may take, to read what came: nothing leaves
then, and the watchdog ends the process only after a second."""


@dataclass(frozen=True, slots=True)
class _Upstream:
    url: str
    headers: HeaderFields = field(repr=False)
    scope: bytes
    credential: bytes


class McpAdapters:
    """Builds adapters for upstream MCP servers; needs the extra `mcp`."""

    def __init__(
        self,
        secrets: SecretSource,
        clock: Clock,
        *,
        connections: Connections | None = None,
        watchdog: AbortingWatchdog | None = None,
    ) -> None:
        self._secrets = secrets
        self._clock = clock
        self._connections = connections or Connections(clock)
        self._watchdog = watchdog

    async def scope_digest(self, contract: EffectContract) -> bytes:
        """Digest URL, account and mode; without an account, the credential stands for it.

        Raises:
            ContractInvalid: there are no `mcp` terms, or the extra is not installed.
            SecretNotFound: a reference resolves to nothing.
        """
        return (await self._upstream(contract)).scope

    async def adapter(
        self,
        contract: EffectContract,
        *,
        scope_digest: bytes,
        deadline: Deadline | None,
    ) -> TargetAdapter:
        """Resolve the upstream once; the adapter calls that one, or none.

        Raises:
            ContractInvalid, SecretNotFound: as `scope_digest`.
        """
        upstream = await self._upstream(contract)
        return McpAdapter(
            contract,
            upstream,
            scope_digest=scope_digest,
            deadline=deadline,
            clock=self._clock,
            connections=self._connections,
            watchdog=self._watchdog,
        )

    async def aclose(self) -> None:
        """Close idle connections."""
        await self._connections.aclose()

    async def _upstream(self, contract: EffectContract) -> _Upstream:
        terms = _checked(contract)
        url = terms.url
        if isinstance(url, SecretRef):
            url = url.render(await self._secrets.secret(url.secret))
        headers = await header_fields(terms.headers, self._secrets)
        credential = digest_of("mcp", *(text for pair in headers for text in pair))
        account = terms.account or credential.hex()
        return _Upstream(
            url=url,
            headers=headers,
            scope=digest_of("mcp", url, account, terms.mode or ""),
            credential=credential,
        )


class McpAdapter:
    """Speaks for one contract, to one upstream, for one attempt or one lookup."""

    def __init__(
        self,
        contract: EffectContract,
        upstream: _Upstream,
        *,
        scope_digest: bytes,
        deadline: Deadline | None,
        clock: Clock,
        connections: Connections,
        watchdog: AbortingWatchdog | None = None,
    ) -> None:
        self._contract = contract
        self._upstream = upstream
        self._scope_digest = scope_digest
        self._deadline = deadline
        self._clock = clock
        self._connections = connections
        self._watchdog = watchdog

    @property
    def contract(self) -> EffectContract:
        """The contract this adapter speaks for."""
        return self._contract

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        """Call the tool once and say what that proved.

        Past the deadline, or at another upstream than the attempt recorded, nothing
        leaves. Cancelled, it stops at once and returns what stands proved; where that is
        nothing, the cancellation goes on.
        """
        gate, call = self._gate(), ToolCall(_checked(self._contract).tool)
        try:
            call.arguments = self._arguments(effect)
            limit = self._contract.attempt_timeout.total_seconds()
            unsafe = self._contract.safety is SafetyClass.UNSAFE
            watch = self._watch(gate)
            await self._make(call, effect, gate, limit, watch, fresh=unsafe)
        except NothingSent as refused:
            return unsent(refused.reason)
        except asyncio.CancelledError:
            outcome = outcome_of(self._contract, call, self._clock.wall())
            if isinstance(outcome, Ambiguous):
                raise
            return outcome
        return outcome_of(self._contract, call, self._clock.wall())

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        """Ask the contract's lookup by the downstream key; without one, know nothing.

        On a connection of its own, as an HTTP lookup is.
        """
        lookup = _checked(self._contract).lookup
        if lookup is None:
            return ProbeResult(ProbeStatus.UNKNOWN, evidence={"failure": "no_lookup"})
        call = ToolCall(lookup.tool)
        steps = pointer_tokens(lookup.key_argument)
        limit = self._contract.probe_timeout.total_seconds()
        try:
            call.arguments = with_value(lookup.arguments, steps, effect.downstream_key)
            await self._make(call, effect, self._gate(), limit, fresh=True)
        except NothingSent as refused:
            call.failure = refused.reason
        return probe_result_of(effect, call)

    async def _make(
        self,
        call: ToolCall,
        effect: EffectRecord,
        gate: SendGate,
        limit: float,
        watch: AbstractContextManager[None] | None = None,
        *,
        fresh: bool,
    ) -> None:
        """Make the call, with handshake and goodbye, inside the gate's time and `limit`.

        Whatever ends it, `call` says what is known.

        Raises:
            SendForbidden: the gate is shut. It is asked before the handshake too: nobody
                else's server is greeted.
        """
        from effect_broker.adapters import mcp_client

        if (reason := gate.refusal()) is not None:
            raise SendForbidden(reason)
        key, now = self._key(effect), asyncio.get_running_loop().time
        ends = now() + min(limit, gate.seconds_left())

        async def send(request: WireRequest, calls: bool) -> Exchange:
            left = ends - now()
            if not calls:
                return await self._aside(key, request, left)
            call.request = request
            return await exchange(
                self._connections,
                key,
                request,
                gate,
                fresh=fresh,
                seconds=left,
                watch=watch,
                known=call.known,
            )

        headers = dict(self._upstream.headers)
        try:
            async with asyncio.timeout_at(ends + READING_SECONDS):
                await mcp_client.make(call, self._upstream.url, headers, send)
        except TimeoutError:
            call.timed_out()

    async def _aside(
        self, key: ConnectionKey, request: WireRequest, seconds: float
    ) -> Exchange:
        """Send what calls nothing: the handshake, and the end of a session."""
        if seconds <= 0:
            raise SendForbidden(SEND_DEADLINE_PASSED)
        gate = SendGate(self._clock, None, scope=b"", expected_scope=b"")
        limit = min(HANDSHAKE_SECONDS, seconds)
        return await exchange(self._connections, key, request, gate, seconds=limit)

    def _gate(self) -> SendGate:
        return SendGate(
            self._clock,
            self._deadline,
            scope=self._upstream.scope,
            expected_scope=self._scope_digest,
        )

    def _watch(self, gate: SendGate) -> AbstractContextManager[None] | None:
        if self._watchdog is None or self._deadline is None:
            return None
        return self._watchdog.guard(self._deadline, abort=gate.abort)

    def _arguments(self, effect: EffectRecord) -> dict[str, Any]:
        arguments = dict(effect.request.arguments)
        place = _checked(self._contract).key_argument
        if place is None or not carries_key(self._contract):
            return arguments
        return dict(with_value(arguments, pointer_tokens(place), effect.downstream_key))

    def _key(self, effect: EffectRecord) -> ConnectionKey:
        return ConnectionKey(
            tenant_id=effect.tenant_id,
            contract=self._contract.digest(),
            credential=self._upstream.credential,
            origin=origin_of(self._upstream.url),
            allow_private=_checked(self._contract).allow_private,
        )


def _checked(contract: EffectContract) -> McpTerms:
    if contract.mcp is None:
        raise ContractInvalid(
            f"{contract.name} {contract.version}: [contracts.mcp] is missing."
        )
    try:
        import mcp  # noqa: F401
    except ModuleNotFoundError:
        raise ContractInvalid(
            f"{contract.name} {contract.version}: the extra mcp is not installed."
        ) from None
    return contract.mcp
