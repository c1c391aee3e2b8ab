"""Adapters of one's own: `adapter = "package.module:Adapter"` in a contract.

Such a class is made for each attempt and each probe, as `Adapter(contract, context)`, and
has `dispatch(effect, *, attempt_id)` and `probe(effect)`. A class method
`async scope(contract, secrets)` may name the texts that make its target (base URL,
account, mode, credentials); without it the `http` terms make it, or the contract alone.

Right before each write it calls `context.permit()`, and lets what that raises go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast
from uuid import UUID

from effect_broker.adapters.http_target import digest_of, resolve_target
from effect_broker.adapters.wire.exchange import AbortingWatchdog
from effect_broker.adapters.wire.gate import NothingSent, SendGate, unsent
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import ContractInvalid
from effect_broker.domain.identity import sub_key
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import Ambiguous, Outcome, ProbeResult
from effect_broker.ports import Clock, Deadline, SecretSource, TargetAdapter


@dataclass(frozen=True, slots=True)
class AdapterContext:
    """What an adapter of one's own is given for one attempt or probe."""

    secrets: SecretSource
    clock: Clock
    deadline: Deadline | None
    gate: SendGate

    def permit(self) -> None:
        """Permit a write now; nothing may stand between this call and the write.

        Raises:
            SendForbidden: too late, or another target; let it go on.
        """
        self.gate.permit()

    def sub_key(self, effect: EffectRecord, step: str) -> str:
        """Return the key of a named sub-step, the same on every attempt.

        Raises:
            ValueError: the step is no short name.
        """
        return sub_key(effect.downstream_key, step, effect.contract)


class AdapterClass(Protocol):
    """The shape of a class that a contract names."""

    def __call__(
        self, contract: EffectContract, context: AdapterContext
    ) -> TargetAdapter:
        """Make an adapter; must not touch the network."""


class CustomAdapters:
    """Imports the classes that contracts name, and guards what they make."""

    def __init__(
        self,
        secrets: SecretSource,
        clock: Clock,
        *,
        watchdog: AbortingWatchdog | None = None,
    ) -> None:
        self._secrets = secrets
        self._clock = clock
        self._watchdog = watchdog

    async def scope_digest(self, contract: EffectContract) -> bytes:
        """Digest what the class says its target is.

        Raises:
            ContractInvalid: the class cannot be imported here.
            SecretNotFound: a reference resolves to nothing here.
        """
        scope = getattr(_imported(contract), "scope", None)
        if scope is not None:
            parts: Sequence[str] = await scope(contract, self._secrets)
            return digest_of(contract.adapter, *parts)
        if contract.http is not None:
            return (await resolve_target(contract, self._secrets)).scope
        return digest_of(contract.adapter, contract.name)

    async def adapter(
        self,
        contract: EffectContract,
        *,
        scope_digest: bytes,
        deadline: Deadline | None,
    ) -> TargetAdapter:
        """Make the named class's adapter for one attempt or probe.

        Raises:
            ContractInvalid: the class cannot be imported here.
            SecretNotFound: a reference resolves to nothing here.
        """
        gate = SendGate(
            self._clock,
            deadline,
            scope=await self.scope_digest(contract),
            expected_scope=scope_digest,
        )
        context = AdapterContext(self._secrets, self._clock, deadline, gate)
        inner = cast(AdapterClass, _imported(contract))(contract, context)
        return GuardedAdapter(inner, gate, deadline, self._watchdog)


class GuardedAdapter:
    """Holds an adapter to the gate: to its target, and to the end of its attempt."""

    def __init__(
        self,
        inner: TargetAdapter,
        gate: SendGate,
        deadline: Deadline | None,
        watchdog: AbortingWatchdog | None,
    ) -> None:
        self._inner = inner
        self._gate = gate
        self._deadline = deadline
        self._watchdog = watchdog

    @property
    def contract(self) -> EffectContract:
        """The contract this adapter speaks for."""
        return self._inner.contract

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        """Let the adapter make its attempt, unless the gate is shut already."""
        reason = self._gate.refusal()
        if reason is not None:
            return unsent(reason)
        watch = (
            nullcontext()
            if self._watchdog is None or self._deadline is None
            else self._watchdog.guard(self._deadline, abort=self._gate.abort)
        )
        left = self._gate.seconds_left()
        try:
            with watch:
                async with asyncio.timeout(None if left == float("inf") else left):
                    return await self._inner.dispatch(effect, attempt_id=attempt_id)
        except NothingSent as refused:
            if self._gate.opened:
                return Ambiguous(refused.reason)
            return unsent(refused.reason)
        except TimeoutError:
            return Ambiguous("timed_out")

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        """Ask the adapter; the broker bounds it."""
        return await self._inner.probe(effect)


def _imported(contract: EffectContract) -> Any:
    module, _, name = contract.adapter.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError):
        raise ContractInvalid(
            f"{contract.name} {contract.version}: adapter {contract.adapter} cannot be"
            " imported here."
        ) from None
