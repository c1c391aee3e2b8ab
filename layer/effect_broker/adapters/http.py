"""Targets that speak HTTP: one request an attempt, one lookup a probe."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from uuid import UUID

from effect_broker.adapters.http_outcome import outcome_of, probe_result_of
from effect_broker.adapters.http_request import dispatch_request, probe_request
from effect_broker.adapters.http_target import HttpTarget, resolve_target
from effect_broker.adapters.wire.connecting import origin_of
from effect_broker.adapters.wire.connections import ConnectionKey, Connections
from effect_broker.adapters.wire.exchange import AbortingWatchdog, Exchange, exchange
from effect_broker.adapters.wire.gate import NothingSent, SendGate, unsent
from effect_broker.domain.contract import EffectContract, SafetyClass
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import Ambiguous, Outcome, ProbeResult
from effect_broker.ports import Clock, Deadline, SecretSource, TargetAdapter


class HttpAdapters:
    """Builds HTTP adapters; their connections live as long as this, on one event loop."""

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
        """Digest base URL, account, mode and credential as they resolve to now.

        Raises:
            ContractInvalid: the contract lacks its HTTP terms.
            SecretNotFound: a reference resolves to nothing here.
        """
        return (await resolve_target(contract, self._secrets)).scope

    async def adapter(
        self,
        contract: EffectContract,
        *,
        scope_digest: bytes,
        deadline: Deadline | None,
    ) -> TargetAdapter:
        """Resolve the target once; the adapter sends to that one, or not at all.

        Raises:
            ContractInvalid: the contract lacks its HTTP terms.
            SecretNotFound: a reference resolves to nothing here.
        """
        target = await resolve_target(contract, self._secrets)
        return HttpAdapter(
            contract,
            target,
            scope_digest=scope_digest,
            deadline=deadline,
            clock=self._clock,
            connections=self._connections,
            watchdog=self._watchdog,
        )

    async def aclose(self) -> None:
        """Close idle connections."""
        await self._connections.aclose()


class HttpAdapter:
    """Speaks for one contract, to one resolved target, until one deadline."""

    def __init__(
        self,
        contract: EffectContract,
        target: HttpTarget,
        *,
        scope_digest: bytes,
        deadline: Deadline | None,
        clock: Clock,
        connections: Connections,
        watchdog: AbortingWatchdog | None = None,
    ) -> None:
        self._contract = contract
        self._target = target
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
        """Send the effect's one request and say what it proved.

        Past the deadline, or at another target than the attempt recorded, not a byte
        leaves. Cancelled, it stops at once and returns what stands proved; where that is
        nothing, the cancellation goes on.
        """
        gate = self._gate()
        known = Exchange()
        try:
            request = dispatch_request(self._target, effect, attempt_id, self._deadline)
            key = self._key(effect, self._target.url)
        except NothingSent as refused:
            return unsent(refused.reason)
        try:
            await exchange(
                self._connections,
                key,
                request,
                gate,
                fresh=self._contract.safety is SafetyClass.UNSAFE,
                seconds=self._seconds_without_deadline(),
                watch=self._watch(gate),
                known=known,
            )
        except asyncio.CancelledError:
            outcome = outcome_of(self._contract, request, known, self._clock.wall())
            if isinstance(outcome, Ambiguous):
                raise
            return outcome
        return outcome_of(self._contract, request, known, self._clock.wall())

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        """Look the effect up by its downstream key; whatever goes wrong is unknown.

        On a connection of its own: an absence may permit a second send, and must not be
        read from what another exchange has left behind.
        """
        known = Exchange()
        try:
            request = probe_request(self._target, effect)
            key = self._key(effect, self._target.probe_url or "")
        except NothingSent as refused:
            known.failure = refused.reason
            return probe_result_of(effect, known)
        await exchange(
            self._connections,
            key,
            request,
            self._gate(),
            fresh=True,
            seconds=self._contract.probe_timeout.total_seconds(),
            known=known,
        )
        return probe_result_of(effect, known)

    def _gate(self) -> SendGate:
        return SendGate(
            self._clock,
            self._deadline,
            scope=self._target.scope,
            expected_scope=self._scope_digest,
        )

    def _key(self, effect: EffectRecord, url: str) -> ConnectionKey:
        assert self._contract.http is not None
        return ConnectionKey(
            tenant_id=effect.tenant_id,
            contract=self._contract.digest(),
            credential=self._target.credential,
            origin=origin_of(url.split("{", 1)[0]),
            allow_private=self._contract.http.allow_private,
        )

    def _seconds_without_deadline(self) -> float:
        if self._deadline is not None:
            return float("inf")
        return self._contract.attempt_timeout.total_seconds()

    def _watch(self, gate: SendGate) -> AbstractContextManager[None] | None:
        if self._watchdog is None or self._deadline is None:
            return None
        return self._watchdog.guard(self._deadline, abort=gate.abort)
