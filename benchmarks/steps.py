"""The ledger's own calls for one effect, with parameters made beforehand."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from benchmarks.clients import Call
from benchmarks.contract import CONTRACT, DATA_KEY_ID, HMAC_KEY_ID, TOOL
from benchmarks.floor import PAYLOAD_BYTES, WORKER
from benchmarks.server import Place
from effect_broker.domain.attempt import Attempt, AttemptEnding, EndingKind
from effect_broker.domain.contract import CLOCK_MARGIN
from effect_broker.domain.intent import Intent
from effect_broker.domain.receipt import ReceiptDraft, ReceiptKind, ReceiptSource
from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.domain.transition import Transition
from effect_broker.ids import uuid7
from effect_broker.ledger import rows
from effect_broker.ledger.composite import rows as composite_rows
from effect_broker.ledger.queries import statements
from effect_broker.ports import ClaimOrder, ContractTerms, Step

SCOPE: Final = hashlib.sha256(b"bench").digest()
RESULT_BYTES: Final = 128

_SQL: Final = statements("effect_work")
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Steps:
    """Makes the calls of effects in one place."""

    place: Place

    def intent(self, operation_key: str | None = None) -> Intent:
        """Return a new intent with a sealed payload of the floor's size."""
        key = operation_key or f"bench:{os.urandom(12).hex()}"
        return Intent(
            effect_id=uuid7(),
            tenant_id=self.place.tenant_id,
            operation_key=key,
            tool=TOOL,
            request_hash=hashlib.sha256(key.encode()).digest(),
            contract_id=self.place.contract_id,
            contract_name=CONTRACT.name,
            contract_version=CONTRACT.version,
            safety=CONTRACT.safety,
            downstream_key=os.urandom(32).hex()[:43],
            hmac_key_id=HMAC_KEY_ID,
            arguments_ciphertext=os.urandom(PAYLOAD_BYTES),
            data_key_id=DATA_KEY_ID,
            preview='{"amount":100,"currency":"eur","memo":"***"}',
            requested_by="key:bench",
            trace_id=None,
        )

    def other_payload(self, intent: Intent) -> Intent:
        """Return an intent that drifts: the same key over another payload."""
        return replace(self.intent(intent.operation_key), request_hash=os.urandom(32))

    def reserve(self, *intents: Intent) -> Call:
        """Return the reservation of intents in one commit."""
        written = composite_rows(map(rows.new_intent, intents))
        return Call(_SQL["reserve"], {"intents": written})

    def claim(
        self,
        limit: int,
        *,
        token: UUID | None = None,
        effect_ids: Sequence[UUID] | None = None,
        due_from: datetime | None = None,
    ) -> Call:
        """Return the claim of named effects, or of whatever is due."""
        return Call(
            _SQL["claim"],
            {
                "token": token or uuid4(),
                "worker": WORKER,
                "limit": limit,
                "contract_ids": [self.place.contract_id],
                "scope_digests": [SCOPE],
                "margin_ms": rows.milliseconds(CLOCK_MARGIN),
                "budget_ms": None,
                "unsafe_limit": 1,
                "attempt_ids": [uuid7() for _ in range(limit)],
                "effect_ids": None if effect_ids is None else list(effect_ids),
                "tenants": None if effect_ids is not None else [self.place.tenant_id],
                "due_from": due_from,
            },
        )

    def reserve_leased(self, intent: Intent, token: UUID) -> Call:
        """Return the reservation that starts the first attempt in the same commit."""
        return Call(
            _SQL["reserve_leased"],
            {
                "intent": rows.new_intent(intent),
                "token": token,
                "worker": WORKER,
                "attempt_id": uuid7(),
                "contract_ids": [self.place.contract_id],
                "scope_digests": [SCOPE],
                "margin_ms": rows.milliseconds(CLOCK_MARGIN),
                "budget_ms": None,
            },
        )

    def finish(self, *steps: Step) -> Call:
        """Return the receipts of steps in one commit."""
        written = composite_rows(rows.finishing(step, uuid7()) for step in steps)
        return Call(_SQL["finish"], {"steps": written})

    def whole(self) -> Sequence[Call]:
        """Return reserve, claim and finish of one effect."""
        intent, token = self.intent(), uuid4()
        return [
            self.reserve(intent),
            self.claim(1, token=token, effect_ids=[intent.effect_id]),
            self.finish(self.receipt(intent.effect_id, token)),
        ]

    def whole_in_process(self) -> Sequence[Call]:
        """Return one effect's reservation, leased already, and its finish."""
        intent, token = self.intent(), uuid4()
        return [
            self.reserve_leased(intent, token),
            self.finish(self.receipt(intent.effect_id, token)),
        ]

    def receipt(self, effect_id: UUID, token: UUID, *, version: int = 2) -> Step:
        """Return the step that records a committed first attempt."""
        result = os.urandom(RESULT_BYTES)
        external_id = f"ch_{effect_id.hex}"
        ending = AttemptEnding(
            kind=EndingKind.COMMITTED,
            reason="committed",
            external_id=external_id,
            result_ciphertext=result,
            data_key_id=DATA_KEY_ID,
            evidence={"status": 200},
        )
        draft = ReceiptDraft(
            kind=ReceiptKind.SUCCEEDED,
            source=ReceiptSource.ATTEMPT,
            reason="committed",
            external_id=external_id,
            result_ciphertext=result,
            data_key_id=DATA_KEY_ID,
            evidence_digest=hashlib.sha256(result).digest(),
        )
        return Step(
            tenant_id=self.place.tenant_id,
            effect_id=effect_id,
            version=version,
            token=token,
            transition=_succeeded(ending, draft),
            actor="dispatcher",
            attempt=_first_attempt(effect_id),
        )

    def order(self, limit: int) -> ClaimOrder:
        """Return an order for whatever is due, as a dispatcher gives it to a ledger."""
        return ClaimOrder(
            token=uuid4(),
            worker=WORKER,
            limit=limit,
            terms=[ContractTerms(self.place.contract_id, SCOPE)],
            clock_margin=CLOCK_MARGIN,
        )


def _succeeded(ending: AttemptEnding, draft: ReceiptDraft) -> Transition:
    unchanged: dict[str, Any] = {
        "proven_through": 0,
        "rejections": 0,
        "retries": 0,
        "redispatches": 0,
        "probes": 0,
        "key_generation": 1,
        "unknown": False,
        "negative": False,
    }
    return Transition(
        event=EventType.RECEIPT_RECORDED,
        old=EffectStatus.DISPATCHING,
        new=EffectStatus.SUCCEEDED,
        reason="committed",
        delay=None,
        unproven=0,
        ending=ending,
        receipt=draft,
        **unchanged,
    )


def _first_attempt(effect_id: UUID) -> Attempt:
    """The ledger writes its ordinal alone; the instants stand for any."""
    return Attempt(
        effect_id=effect_id,
        ordinal=1,
        attempt_id=effect_id,
        worker=WORKER,
        version=2,
        started_at=_EPOCH,
        send_deadline=_EPOCH + timedelta(seconds=10),
        key_generation=1,
        scope_digest=SCOPE,
    )
