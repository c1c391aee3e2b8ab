"""Stripe through its official SDK: one request an attempt, under the ledger's key.

The SDK's retries, telemetry and logs are off, and its requests leave through the same
gated wire as those of `http`. Stripe keeps every answer under a key once execution has
begun; what it refuses before that is kept under none.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Final, assert_never
from uuid import UUID

from effect_broker.adapters.http_evidence import evidence_of, retry_after, target_time
from effect_broker.adapters.http_target import digest_of
from effect_broker.adapters.output import schema_flags
from effect_broker.adapters.wire.body import read_body
from effect_broker.adapters.wire.connecting import origin_of
from effect_broker.adapters.wire.connections import ConnectionKey, Connections
from effect_broker.adapters.wire.exchange import (
    AbortingWatchdog,
    Exchange,
    WireRequest,
    exchange,
)
from effect_broker.adapters.wire.gate import NothingSent, SendGate, unsent
from effect_broker.domain.contract import (
    EffectContract,
    KeyRecords,
    Meaning,
    SafetyClass,
    StripeTerms,
)
from effect_broker.domain.errors import ContractInvalid
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    Evidence,
    Outcome,
    ProbeResult,
    ProbeStatus,
    Rejected,
)
from effect_broker.ports import Clock, Deadline, SecretSource, TargetAdapter

API_BASE: Final = "https://api.stripe.com"

MEANINGS: Final[Mapping[str, Meaning]] = {
    # In front of the key's record: nothing was executed.
    "RateLimitError": Meaning.NOT_EXECUTED,
    "AuthenticationError": Meaning.NOT_EXECUTED,
    "PermissionError": Meaning.NOT_EXECUTED,
    # Executed, and declined: kept under the key.
    "CardError": Meaning.REJECTED,
    # Refused before or after execution began: which one is not said.
    "InvalidRequestError": Meaning.REJECTED_FINAL,
    "IdempotencyError": Meaning.KEY_CONFLICT,
}
"""What the SDK's errors prove, by their class; what is not listed is ambiguous."""

KEY_IN_USE: Final = "idempotency_key_in_use"
"""The code of "the first request with this key still runs", whatever its class."""

_KEY: Final = re.compile(r"(?:sk|rk)_(?P<mode>test|live)_\S+")
_CODE: Final = re.compile(r"[a-z0-9_]{1,64}")


class StripeAdapters:
    """Builds adapters onto Stripe; `connections` live as long as this."""

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
        """Digest base, mode and account; without a declared account, the key stands for
        it.

        Raises:
            ContractInvalid: the call is none, the key is not of the contract's mode, or
                the extra is not installed.
            SecretNotFound: the key resolves to nothing here.
        """
        terms = _checked(contract)
        return _scope(terms, await self._key(contract, terms))

    async def adapter(
        self,
        contract: EffectContract,
        *,
        scope_digest: bytes,
        deadline: Deadline | None,
    ) -> TargetAdapter:
        """Resolve the key once; the adapter sends to its account, or not at all.

        Raises:
            ContractInvalid: the call is none, the key is not of the contract's mode, or
                the extra is not installed.
            SecretNotFound: the key resolves to nothing here.
        """
        terms = _checked(contract)
        api_key = await self._key(contract, terms)
        gate = SendGate(
            self._clock,
            deadline,
            scope=_scope(terms, api_key),
            expected_scope=scope_digest,
        )
        watch = None
        if self._watchdog is not None and deadline is not None:
            watch = self._watchdog.guard(deadline, abort=gate.abort)
        return StripeAdapter(
            contract, terms, api_key, gate, watch, self._connections, self._clock
        )

    async def aclose(self) -> None:
        """Close idle connections."""
        await self._connections.aclose()

    async def _key(self, contract: EffectContract, terms: StripeTerms) -> str:
        api_key = await self._secrets.secret(terms.api_key.secret)
        found = _KEY.fullmatch(api_key)
        if found is None or found["mode"] != terms.mode:
            raise _invalid(contract, f"the API key is not of mode {terms.mode}")
        return api_key


class StripeAdapter:
    """Speaks for one contract, to one account, for one attempt."""

    def __init__(
        self,
        contract: EffectContract,
        terms: StripeTerms,
        api_key: str,
        gate: SendGate,
        watch: AbstractContextManager[None] | None,
        connections: Connections,
        clock: Clock,
    ) -> None:
        self._contract = contract
        self._terms = terms
        self._api_key = api_key
        self._gate = gate
        self._watch = watch
        self._connections = connections
        self._clock = clock

    @property
    def contract(self) -> EffectContract:
        """The contract this adapter speaks for."""
        return self._contract

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        """Make the operation's one request and say what it proved.

        Cancelled, it stops at once and returns what stands proved; where that is nothing,
        the cancellation goes on.
        """
        sdk = _sdk()
        known = Exchange()

        async def send(request: WireRequest) -> Exchange:
            return await self._exchange(effect, request, known)

        client = sdk.GatedClient(send)
        error: Exception | None = None
        try:
            await sdk.call(
                self._terms,
                api_key=self._api_key,
                client=client,
                idempotency_key=effect.downstream_key,
                arguments=effect.request.arguments,
            )
        except (sdk.StripeError, NothingSent, *_NOT_ENCODABLE) as raised:
            error = raised
        except asyncio.CancelledError:
            outcome = self._outcome(client.made, known, None)
            if isinstance(outcome, Ambiguous):
                raise
            return outcome
        return self._outcome(client.made, known, error)

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        """Know nothing: Stripe's search lags, and no lookup by the key is documented."""
        return ProbeResult(ProbeStatus.UNKNOWN, evidence={"failure": "no_lookup"})

    async def _exchange(
        self, effect: EffectRecord, request: WireRequest, known: Exchange
    ) -> Exchange:
        base = self._terms.api_base
        key = ConnectionKey(
            tenant_id=effect.tenant_id,
            contract=self._contract.digest(),
            credential=digest_of("stripe", self._api_key),
            origin=origin_of(base or API_BASE),
            allow_private=base is not None and self._terms.mode == "test",
        )
        seconds = self._contract.attempt_timeout.total_seconds()
        return await exchange(
            self._connections,
            key,
            request,
            self._gate,
            seconds=min(seconds, self._gate.seconds_left()),
            watch=self._watch,
            known=known,
        )

    def _outcome(
        self, request: WireRequest | None, known: Exchange, error: Exception | None
    ) -> Outcome:
        """Read the status first: what means success is a commit, however it is told."""
        evidence = evidence_of(request, known)
        if known.status is None:
            if known.sent:
                return Ambiguous(known.failure, evidence=evidence)
            refused = error.reason if isinstance(error, NothingSent) else ""
            return unsent(known.failure or refused or "not_encodable", evidence)
        if 200 <= known.status < 300:
            return _committed(self._contract, known, evidence)
        return told(self._contract, known, error, evidence, self._clock.wall())


_NOT_ENCODABLE: Final = (TypeError, ValueError, LookupError, AttributeError)
"""What the SDK raises of arguments that it cannot write; the gate knows if it sent."""


def told(
    contract: EffectContract,
    known: Exchange,
    error: Exception | None,
    evidence: Evidence,
    wall: float,
) -> Outcome:
    """Say what an answer proves that is no success, by the SDK's error and the table."""
    code = getattr(error, "code", None) or getattr(
        getattr(error, "error", None), "code", None
    )
    shown = f"/{code}" if isinstance(code, str) and _CODE.fullmatch(code) else ""
    reason = f"status_{known.status}{shown}"
    patience = retry_after(known, wall)
    meaning = Meaning.IN_PROGRESS if code == KEY_IN_USE else meaning_of(error)
    match meaning:
        case None | Meaning.COMMITTED:
            return Ambiguous(reason, evidence=evidence, retry_after=patience)
        case Meaning.IN_PROGRESS:
            return Ambiguous(
                reason, evidence=evidence, in_progress=True, retry_after=patience
            )
        case Meaning.KEY_CONFLICT:
            return Ambiguous(reason, evidence=evidence, contract_violated=True)
        case Meaning.NOT_EXECUTED:
            return Rejected(
                reason, not_executed=True, retry_after=patience, evidence=evidence
            )
        case Meaning.REJECTED:
            kept = contract.key_records is KeyRecords.ALL_ANSWERS
            return Rejected(
                reason, from_key_record=kept, retry_after=patience, evidence=evidence
            )
        case Meaning.REJECTED_FINAL:
            return Rejected(reason, final=True, evidence=evidence)
        case _:
            assert_never(meaning)


def meaning_of(error: BaseException | None) -> Meaning | None:
    """Look an error of the SDK up by its own class alone; None is ambiguous."""
    kind = type(error)
    known = kind.__module__.partition(".")[0] == "stripe"
    return MEANINGS.get(kind.__name__) if known else None


def _committed(
    contract: EffectContract, known: Exchange, evidence: Evidence
) -> Committed:
    body = read_body(known)
    identity = body.value.get("id") if isinstance(body.value, dict) else None
    flags = body.flags or schema_flags(contract, body.value)
    return Committed(
        external_id=identity if isinstance(identity, str) else None,
        output=body.value,
        raw=body.raw,
        flags=flags,
        target_time=target_time(known),
        evidence=evidence,
    )


def _checked(contract: EffectContract) -> StripeTerms:
    """Return the terms of a contract that can be served.

    Raises:
        ContractInvalid: it cannot.
    """
    terms = contract.stripe
    if terms is None:
        raise _invalid(contract, "stripe is missing")
    if contract.safety is not SafetyClass.IDEMPOTENT or contract.probe is not None:
        raise _invalid(contract, "Stripe is idempotent by key, and has no lookup by it")
    try:
        sdk = _sdk()
    except ImportError:
        raise _invalid(contract, 'the extra "stripe" is not installed') from None
    try:
        names = sdk.path_arguments(terms.operation)
    except sdk.NoSuchOperation as error:
        raise _invalid(contract, str(error)) from None
    required = contract.arguments.get("required", [])
    if missing := [name for name in names if name not in required]:
        raise _invalid(contract, f"arguments must require {', '.join(missing)}")
    return terms


def _scope(terms: StripeTerms, api_key: str) -> bytes:
    account = terms.account or digest_of(api_key).hex()
    return digest_of("stripe", terms.api_base or API_BASE, terms.mode, account)


def _sdk() -> ModuleType:
    from effect_broker.adapters import stripe_client

    return stripe_client


def _invalid(contract: EffectContract, why: str) -> ContractInvalid:
    return ContractInvalid(f"{contract.name} {contract.version}: {why}.")
