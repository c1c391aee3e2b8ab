"""Reading: an effect as its tenant may see it, with what may be done next said
plainly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from effect_broker.broker.catalog import Catalog
from effect_broker.broker.payload import open_arguments, open_result
from effect_broker.domain.attempt import Attempt
from effect_broker.domain.contract import EffectContract, SafetyClass
from effect_broker.domain.errors import EffectNotFound, ReceiptNotFound
from effect_broker.domain.event import EffectEvent
from effect_broker.domain.intent import EffectRequest
from effect_broker.domain.receipt import Receipt
from effect_broker.domain.status import TERMINAL, EffectStatus
from effect_broker.domain.upcasting import upcast
from effect_broker.ports import Cipher, EffectQuery, Ledger, Snapshot

PAGE_MAX: Final = 200
"""Rows a page: what one answer may carry."""


@dataclass(frozen=True, slots=True)
class EffectView:
    """An effect with its contract and what may be done next; no argument in the clear."""

    snapshot: Snapshot
    contract: EffectContract
    next_actions: tuple[str, ...]
    resolvable_after: datetime | None

    @property
    def unknown(self) -> bool:
        """Say whether some attempt may have committed without anybody having proved
        it.
        """
        return self.unknown_since is not None

    @property
    def unknown_since(self) -> datetime | None:
        """Return since when an attempt has been unproved, also where nobody has swept its
        lapsed lease yet.
        """
        work, now = self.snapshot.work, self.snapshot.now
        if work is None or work.unknown_since is not None:
            return None if work is None else work.unknown_since
        leased = self.snapshot.status is EffectStatus.DISPATCHING
        lapsed = leased and work.due_at is not None and work.due_at < now
        return work.due_at if lapsed else None


class Inspector:
    """Answers questions; changes nothing and reaches no adapter."""

    def __init__(
        self, ledger: Ledger, catalog: Catalog, cipher: Cipher, *, clock_margin: timedelta
    ) -> None:
        self._ledger = ledger
        self._catalog = catalog
        self._cipher = cipher
        self._clock_margin = clock_margin

    async def effect(self, tenant_id: UUID, effect_id: UUID) -> EffectView:
        """Return one effect.

        Raises:
            EffectNotFound: none with this id for this tenant.
        """
        return await self._view(await self._snapshot(tenant_id, effect_id))

    async def request(self, tenant_id: UUID, effect_id: UUID) -> EffectRequest | None:
        """Return the request as it was reserved, or None once its payload was pruned.

        Raises:
            EffectNotFound: none with this id for this tenant.
        """
        intent = (await self._snapshot(tenant_id, effect_id)).intent
        arguments = open_arguments(self._cipher, intent)
        if arguments is None:
            return None
        return EffectRequest(
            intent.operation_key,
            intent.tool,
            arguments,
            intent.requested_by,
            intent.trace_id,
        )

    async def attempts(self, tenant_id: UUID, effect_id: UUID) -> Sequence[Attempt]:
        """Return an effect's attempts with their endings."""
        return await self._ledger.attempts(tenant_id, effect_id)

    async def events(self, tenant_id: UUID, effect_id: UUID) -> Sequence[EffectEvent]:
        """Return an effect's history.

        Raises:
            EffectNotFound: none with this id for this tenant.
        """
        await self._snapshot(tenant_id, effect_id)
        stored = await self._ledger.events(tenant_id, effect_id)
        return [upcast(event) for event in stored]

    async def receipt(self, tenant_id: UUID, effect_id: UUID) -> Mapping[str, Any]:
        """Return the immutable receipt as JSON, the target's answer in the clear.

        Raises:
            EffectNotFound: none with this id for this tenant.
            ReceiptNotFound: the effect has no receipt yet; says where it stands.
        """
        receipt = await self._ledger.receipt(tenant_id, effect_id)
        if receipt is None:
            snapshot = await self._snapshot(tenant_id, effect_id)
            raise ReceiptNotFound(
                f"The effect is {snapshot.status}; a receipt exists once it is settled.",
                effect_id=effect_id,
                status=snapshot.status,
            )
        body = open_result(self._cipher, tenant_id, effect_id, receipt.draft)
        return receipt_json(receipt, body)

    async def page(self, tenant_id: UUID, query: EffectQuery) -> Sequence[EffectView]:
        """Return a page of the tenant's effects, newest first."""
        snapshots = await self._ledger.page(tenant_id, query)
        return [await self._view(snapshot) for snapshot in snapshots]

    async def _snapshot(self, tenant_id: UUID, effect_id: UUID) -> Snapshot:
        snapshot = await self._ledger.get(tenant_id, effect_id)
        if snapshot is None:
            raise EffectNotFound("No effect with this id.")
        return snapshot

    async def _view(self, snapshot: Snapshot) -> EffectView:
        contract = await self._catalog.pinned(snapshot.intent.contract_id)
        work = snapshot.work
        settles = work.settlement_at if work is not None else None
        return EffectView(
            snapshot=snapshot,
            contract=contract,
            next_actions=next_actions(snapshot.status, contract),
            resolvable_after=settles + self._clock_margin if settles else None,
        )


def next_actions(status: EffectStatus, contract: EffectContract) -> tuple[str, ...]:
    """Return what may be done about an effect now; sending again under a new key never
    is.
    """
    if status in TERMINAL:
        return ("get_receipt",)
    if status is EffectStatus.OUTCOME_UNKNOWN or status is EffectStatus.MANUAL_REVIEW:
        if contract.safety is SafetyClass.UNSAFE:
            return ("resolve",)
        return ("request_reconciliation", "resolve")
    return ("wait",)


def receipt_json(receipt: Receipt, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Render a receipt for any surface."""
    draft = receipt.draft
    rendered: dict[str, Any] = {
        "receipt_id": str(receipt.receipt_id),
        "effect_id": str(receipt.effect_id),
        "kind": str(draft.kind),
        "source": str(draft.source),
        "reason": draft.reason,
        "external_id": draft.external_id,
        "output": body.get("output"),
        "flags": body.get("flags", list(draft.flags)),
        "contract": {
            "name": receipt.contract_name,
            "version": receipt.contract_version,
        },
        "downstream_key_digest": receipt.downstream_key_digest.hex(),
        "evidence_digest": draft.evidence_digest.hex() if draft.evidence_digest else None,
        "target_time": draft.target_time.isoformat() if draft.target_time else None,
        "digest": receipt.digest.hex(),
        "created_at": receipt.created_at.isoformat(),
    }
    if "raw_base64" in body:
        rendered["output_raw_base64"] = body["raw_base64"]
    return rendered
