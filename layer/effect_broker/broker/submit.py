"""Submit: reserve the business intent before anything can be sent, and nudge the
dispatcher.

One comparison serves every path that answers with an existing effect; an identical repeat
is never an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from effect_broker.broker.catalog import Catalog
from effect_broker.broker.payload import ARGUMENTS, open_arguments
from effect_broker.broker.tenants import Tenants
from effect_broker.domain.canonical import canonical
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import (
    EffectBrokerError,
    InvalidArguments,
    LedgerUnavailable,
    PayloadDrift,
    UnknownTool,
)
from effect_broker.domain.identity import (
    check_operation_key,
    differing_fields,
    downstream_key,
    request_hash,
)
from effect_broker.domain.intent import EffectRecord, EffectRequest, Intent, Reservation
from effect_broker.domain.preview import preview
from effect_broker.ports import (
    Cipher,
    Clock,
    KeyDeriver,
    Ledger,
    Meter,
    NewId,
    Nudger,
    PublishedContract,
    Reserved,
    Tenant,
)

COMMIT_MAX: Final = 1000
"""Reservations in one commit: it holds their keys, and other callers of one wait for it.
"""


@dataclass(frozen=True, slots=True)
class Proposed:
    """A request that may be reserved: its intent under the contract that it would pin."""

    request: EffectRequest
    intent: Intent
    contract: EffectContract


class Submitter:
    """Turns requests into reservations; knows no adapter."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        catalog: Catalog,
        tenants: Tenants,
        cipher: Cipher,
        deriver: KeyDeriver,
        nudger: Nudger,
        clock: Clock,
        meter: Meter,
        new_id: NewId,
    ) -> None:
        self._new_id = new_id
        self._ledger = ledger
        self._catalog = catalog
        self._tenants = tenants
        self._cipher = cipher
        self._deriver = deriver
        self._nudger = nudger
        self._clock = clock
        self._meter = meter

    async def submit(self, tenant_id: UUID, request: EffectRequest) -> Reservation:
        """Reserve the effect, or return the one that this operation key already stands
        for.

        The existing effect is returned whatever else has changed since: the tool may be
        gone and the schema tighter. Safe to repeat with the same key after any error.

        Raises:
            InvalidOperationKey, InvalidArguments, InvalidJson: nothing was stored.
            UnknownTool: no contract names the tool and nothing stands under the key.
            PayloadDrift: the key stands for another payload.
            LedgerUnavailable: nothing is known; repeat with the same key.
        """
        proposed = await self.propose(tenant_id, request)
        if isinstance(proposed, Reservation):
            return proposed
        (reserved,) = await self._reserve([proposed.intent])
        reservation = await self.answer(proposed, reserved)
        if reservation.created:
            await self._nudger.dispatch([reserved.intent.effect_id])
        return reservation

    async def submit_many(
        self, tenant_id: UUID, requests: Sequence[EffectRequest]
    ) -> Sequence[Reservation | EffectBrokerError]:
        """Reserve many effects together; each request has its own answer, in order.

        One commit holds up to `COMMIT_MAX` of them. What `submit` would raise about one
        request stands in its place, and stops no other. Of two requests under one key the
        first is reserved, and the second is its replay or conflict.

        Raises:
            LedgerUnavailable: nothing is known; repeat with the same keys.
        """
        answers = [await self._proposed(tenant_id, request) for request in requests]
        fresh = {
            answer.request.operation_key: answer
            for answer in reversed(answers)
            if isinstance(answer, Proposed)
        }
        if not fresh:
            return [await self._answered(answer, {}, fresh) for answer in answers]
        found = await self._reserve([it.intent for it in fresh.values()])
        standing = dict(zip(fresh, found, strict=True))
        done = [await self._answered(answer, standing, fresh) for answer in answers]
        created = [item.intent.effect_id for item in found if item.created]
        if created:
            await self._nudger.dispatch(created)
        return done

    async def propose(
        self, tenant_id: UUID, request: EffectRequest
    ) -> Proposed | Reservation:
        """Return what could be reserved for a request, or the effect that stands already.

        Writes nothing. Raises as `submit` does.
        """
        check_operation_key(request.operation_key)
        encoded = canonical(request.arguments)
        tenant = await self._tenants.enabled(tenant_id)
        published = await self._catalog.active(request.tool)
        refusal = _refusal(published, request)
        if published is None or refusal is not None:
            existing = await self._ledger.find(tenant_id, request.operation_key)
            if existing is None:
                raise refusal or UnknownTool(
                    f"No contract names the tool {request.tool!r}."
                )
            return await self._existing(existing, request)
        intent = self._intent(tenant, published, request, encoded)
        return Proposed(request, intent, published.contract)

    async def answer(self, proposed: Proposed, reserved: Reserved) -> Reservation:
        """Tell what the ledger made of a proposal: a new effect, a replay, or drift.

        Raises:
            PayloadDrift: the key stands for another payload.
        """
        request = proposed.request
        if not reserved.created:
            return await self._existing(reserved, request)
        self._meter.count("effects_total", event="submitted", tool=request.tool)
        record = _record(reserved, request, proposed.contract)
        return Reservation(effect=record, created=True, replayed=False)

    async def _reserve(self, intents: Sequence[Intent]) -> Sequence[Reserved]:
        found: list[Reserved] = []
        for start in range(0, len(intents), COMMIT_MAX):
            started = self._clock.monotonic()
            found += await self._ledger.reserve(intents[start : start + COMMIT_MAX])
            self._meter.observe("reserve_seconds", self._clock.monotonic() - started)
        return found

    async def _proposed(
        self, tenant_id: UUID, request: EffectRequest
    ) -> Proposed | Reservation | EffectBrokerError:
        try:
            return await self.propose(tenant_id, request)
        except LedgerUnavailable:
            raise
        except EffectBrokerError as refused:
            return refused

    async def _answered(
        self,
        answer: Proposed | Reservation | EffectBrokerError,
        standing: Mapping[str, Reserved],
        fresh: Mapping[str, Proposed],
    ) -> Reservation | EffectBrokerError:
        if not isinstance(answer, Proposed):
            return answer
        key = answer.request.operation_key
        reserved = standing[key]
        first = fresh[key] is answer
        try:
            return await self.answer(
                answer, reserved if first else replace(reserved, created=False)
            )
        except PayloadDrift as refused:
            return refused

    async def _existing(self, reserved: Reserved, request: EffectRequest) -> Reservation:
        contract = await self._catalog.pinned(reserved.intent.contract_id)
        if not self._same_payload(reserved.intent, contract, request):
            self._meter.count(
                "effects_total", event="conflicted", tool=reserved.intent.tool
            )
            raise PayloadDrift(
                effect_id=reserved.intent.effect_id,
                status=reserved.status,
                fields=self._drift(reserved.intent, request),
            )
        self._meter.count(
            "effects_total", event="deduplicated", tool=reserved.intent.tool
        )
        stored = self._stored_request(reserved.intent, contract, request)
        record = _record(reserved, stored, contract)
        return Reservation(effect=record, created=False, replayed=True)

    def _same_payload(
        self, intent: Intent, contract: EffectContract, request: EffectRequest
    ) -> bool:
        """Compare under the version that the stored row pinned, so that a deploy is no
        drift.
        """
        return intent.request_hash == _hash(contract, request)

    def _drift(self, intent: Intent, request: EffectRequest) -> list[str]:
        stored = open_arguments(self._cipher, intent)
        if stored is None:
            return []
        return differing_fields(
            {"tool": intent.tool, "arguments": stored},
            {"tool": request.tool, "arguments": request.arguments},
        )

    def _stored_request(
        self, intent: Intent, contract: EffectContract, request: EffectRequest
    ) -> EffectRequest:
        """Return the request as it was reserved; only fields outside the hash can
        differ.
        """
        arguments: Mapping[str, Any] = request.arguments
        if contract.non_intent_fields:
            arguments = open_arguments(self._cipher, intent) or arguments
        return EffectRequest(
            operation_key=intent.operation_key,
            tool=intent.tool,
            arguments=arguments,
            requested_by=intent.requested_by,
            trace_id=intent.trace_id,
        )

    def _intent(
        self,
        tenant: Tenant,
        published: PublishedContract,
        request: EffectRequest,
        arguments: bytes,
    ) -> Intent:
        contract = published.contract
        effect_id = self._new_id()
        sealed = self._cipher.seal(
            arguments,
            tenant_id=tenant.tenant_id,
            effect_id=effect_id,
            column=ARGUMENTS,
        )
        return Intent(
            effect_id=effect_id,
            tenant_id=tenant.tenant_id,
            operation_key=request.operation_key,
            tool=request.tool,
            request_hash=_hash(contract, request),
            contract_id=published.contract_id,
            contract_name=contract.name,
            contract_version=contract.version,
            safety=contract.safety,
            downstream_key=downstream_key(
                self._deriver,
                tenant.hmac_key_id,
                tenant.tenant_id,
                request.operation_key,
                contract,
            ),
            hmac_key_id=tenant.hmac_key_id,
            arguments_ciphertext=sealed.ciphertext,
            data_key_id=sealed.key_id,
            preview=preview(request.arguments, contract),
            requested_by=request.requested_by,
            trace_id=request.trace_id,
        )


def _refusal(
    published: PublishedContract | None, request: EffectRequest
) -> EffectBrokerError | None:
    if published is None:
        return UnknownTool(f"No contract names the tool {request.tool!r}.")
    try:
        published.contract.check_arguments(request.arguments)
    except InvalidArguments as refused:
        return refused
    return None


def _hash(contract: EffectContract, request: EffectRequest) -> bytes:
    return request_hash(
        request.tool,
        request.arguments,
        contract.name,
        contract.version,
        contract.non_intent_fields,
    )


def _record(
    reserved: Reserved, request: EffectRequest, contract: EffectContract
) -> EffectRecord:
    intent = reserved.intent
    return EffectRecord(
        effect_id=intent.effect_id,
        tenant_id=intent.tenant_id,
        request=request,
        request_hash=intent.request_hash,
        downstream_key=intent.downstream_key,
        contract=contract,
        status=reserved.status,
        version=reserved.version,
        created_at=intent.created_at or reserved.updated_at,
        updated_at=reserved.updated_at,
    )


def operation_digest(operation_key: str) -> str:
    """Return what logs may show of an operation key."""
    return hashlib.sha256(operation_key.encode()).hexdigest()[:16]
