"""Tools of an upstream MCP server: each dispatch is one call of one tool.

What the upstream says about its tools is no contract. A result is a commit; an error
result, a lost answer and everything else is ambiguous once the call has left, since a
tool may fail after it has acted.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from effect_broker.adapters.http_evidence import evidence_of
from effect_broker.adapters.http_request import with_value
from effect_broker.adapters.http_target import HeaderFields, digest_of, header_fields
from effect_broker.adapters.output import schema_flags
from effect_broker.adapters.wire.connecting import origin_of
from effect_broker.adapters.wire.connections import ConnectionKey, Connections
from effect_broker.adapters.wire.exchange import (
    AbortingWatchdog,
    Exchange,
    WireRequest,
    exchange,
)
from effect_broker.adapters.wire.gate import NothingSent, SendGate, unsent
from effect_broker.domain.contract import EffectContract, McpTerms, SafetyClass, SecretRef
from effect_broker.domain.errors import ContractInvalid
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    Outcome,
    ProbeResult,
    ProbeStatus,
)
from effect_broker.domain.pointer import at_pointer, pointer_tokens
from effect_broker.ports import Clock, Deadline, SecretSource, TargetAdapter

HANDSHAKE_SECONDS: Final = 5.0
"""What the client sends before the call changes nothing, and may take no longer."""


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
        gate = SendGate(
            self._clock, deadline, scope=upstream.scope, expected_scope=scope_digest
        )
        watch = None
        if self._watchdog is not None and deadline is not None:
            watch = self._watchdog.guard(deadline, abort=gate.abort)
        return McpAdapter(contract, upstream, gate, watch, self._connections, self._clock)

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
    """Speaks for one contract, to one upstream, for one attempt."""

    def __init__(
        self,
        contract: EffectContract,
        upstream: _Upstream,
        gate: SendGate,
        watch: AbstractContextManager[None] | None,
        connections: Connections,
        clock: Clock,
    ) -> None:
        self._contract = contract
        self._upstream = upstream
        self._gate = gate
        self._watch = watch
        self._connections = connections
        self._clock = clock

    @property
    def contract(self) -> EffectContract:
        """The contract this adapter speaks for."""
        return self._contract

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        """Call the tool once and say what that proved.

        Past the deadline, or at another upstream than the attempt recorded, the call does
        not leave. Cancelled after it has left, it is ambiguous.
        """
        from effect_broker.adapters import mcp_client

        terms = _checked(self._contract)
        known = Exchange()
        made: list[WireRequest] = []

        async def send(request: WireRequest, calls: bool) -> Exchange:
            if calls:
                made.append(request)
                return await self._exchange(effect, request, self._gate, known)
            return await self._exchange(effect, request, self._handshake(), Exchange())

        try:
            async with asyncio.timeout(self._seconds()):
                result = await mcp_client.call_once(
                    self._upstream.url,
                    dict(self._upstream.headers),
                    send,
                    tool=terms.tool,
                    arguments=self._arguments(terms, effect),
                )
        except (mcp_client.CallNotAnswered, TimeoutError) as error:
            return self._unanswered(known, made, error)
        evidence = evidence_of(made[0] if made else None, known)
        if result.is_error:
            return Ambiguous("tool_error", evidence=evidence)
        output = _output(result)
        external_id = None
        if terms.external_id is not None:
            found = at_pointer(output, terms.external_id)
            external_id = found if isinstance(found, str) else None
        return Committed(
            external_id,
            output=output,
            flags=schema_flags(self._contract, output),
            evidence=evidence,
        )

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        """Know nothing: no tool is an authority about another one's effect."""
        return ProbeResult(ProbeStatus.UNKNOWN, evidence={"failure": "no_lookup"})

    def _unanswered(
        self, known: Exchange, made: list[WireRequest], error: BaseException
    ) -> Outcome:
        evidence = evidence_of(made[0] if made else None, known)
        if known.sent:
            reason = known.failure or str(error) or "no_result"
            return Ambiguous(reason, evidence=evidence)
        return unsent(known.failure or "no_handshake", evidence)

    def _arguments(self, terms: McpTerms, effect: EffectRecord) -> dict[str, Any]:
        arguments = dict(effect.request.arguments)
        unkeyed = self._contract.safety is SafetyClass.UNSAFE
        if terms.key_argument is None or unkeyed:
            return arguments
        steps = pointer_tokens(terms.key_argument)
        return dict(with_value(arguments, steps, effect.downstream_key))

    def _handshake(self) -> SendGate:
        return SendGate(self._clock, None, scope=b"", expected_scope=b"")

    def _seconds(self) -> float:
        left = self._gate.seconds_left()
        return max(0.0, min(left, self._contract.attempt_timeout.total_seconds()))

    async def _exchange(
        self, effect: EffectRecord, request: WireRequest, gate: SendGate, known: Exchange
    ) -> Exchange:
        terms = _checked(self._contract)
        key = ConnectionKey(
            tenant_id=effect.tenant_id,
            contract=self._contract.digest(),
            credential=self._upstream.credential,
            origin=origin_of(self._upstream.url),
            allow_private=terms.allow_private,
        )
        calls = gate is self._gate
        try:
            return await exchange(
                self._connections,
                key,
                request,
                gate,
                fresh=calls and self._contract.safety is SafetyClass.UNSAFE,
                seconds=self._seconds() if calls else HANDSHAKE_SECONDS,
                watch=self._watch if calls else None,
                known=known,
            )
        except NothingSent as refused:
            known.failure = refused.reason
            return known


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


def _output(result: Any) -> Any:
    """Return what the tool said: its structured answer, or its texts."""
    if result.structured_content is not None:
        return result.structured_content
    return {"content": [it.model_dump(mode="json") for it in result.content]}
