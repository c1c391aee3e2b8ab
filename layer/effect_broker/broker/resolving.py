"""Resolve: a person's finding, kept with who, why and what evidence; the only way on for
an unsafe effect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from effect_broker.broker.catalog import Catalog
from effect_broker.broker.measuring import Measuring
from effect_broker.broker.nudging import nudge
from effect_broker.broker.payload import evidence_digest, seal_result
from effect_broker.broker.settling import with_new_key
from effect_broker.domain.errors import (
    DecisionRefused,
    EffectNotFound,
    RequestTooLarge,
    VersionConflict,
)
from effect_broker.domain.receipt import ReceiptDraft, ReceiptKind, ReceiptSource
from effect_broker.domain.resolution import Decision, request_reconciliation, resolve
from effect_broker.domain.status import TERMINAL
from effect_broker.domain.transition import Transition
from effect_broker.domain.work import WorkState
from effect_broker.ports import (
    Cipher,
    KeyDeriver,
    Ledger,
    Nudger,
    Resolution,
    Snapshot,
    Step,
    StepResult,
    StepStatus,
)

FINDING = "resolution"
"""Column that a sealed finding is bound to."""

FINDING_BYTES_MAX: Final = 262_000
"""With what sealing adds, what the column takes."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What an operator says about an effect, and on what ground.

    `decision_id` makes a repeat safe: the same decision is recorded once. `observed_at`
    is when the target was looked at.
    """

    decision: Decision
    reason: str
    evidence: Mapping[str, Any]
    expected_version: int
    decision_id: str
    actor: str
    observed_at: datetime | None = None
    external_id: str | None = None
    output: Any = None


class Resolver:
    """Carries out what operators and callers ask of an effect that waits."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        catalog: Catalog,
        cipher: Cipher,
        deriver: KeyDeriver,
        nudger: Nudger,
        measuring: Measuring,
        clock_margin: timedelta,
    ) -> None:
        self._ledger = ledger
        self._catalog = catalog
        self._cipher = cipher
        self._deriver = deriver
        self._nudger = nudger
        self._measuring = measuring
        self._clock_margin = clock_margin

    async def resolve(
        self, tenant_id: UUID, effect_id: UUID, finding: Finding
    ) -> StepResult:
        """Record an operator's finding once, against the version that the operator read.

        Raises:
            EffectNotFound: none with this id for this tenant.
            VersionConflict: the effect moved on; read it and decide anew.
            DecisionRefused: the rules do not allow this finding, or not yet.
        """
        snapshot = await self._snapshot(tenant_id, effect_id)
        resolution = self._resolution(tenant_id, effect_id, finding)
        earlier = await self._ledger.resolution(tenant_id, effect_id, finding.decision_id)
        if earlier is not None:
            self._check_repeat(tenant_id, effect_id, finding, earlier[0])
            return StepResult(effect_id, StepStatus.APPLIED, earlier[1])
        if snapshot.version != finding.expected_version or snapshot.work is None:
            raise _moved(snapshot)
        decided = await self._decide(snapshot, snapshot.work, finding)
        step = Step(
            tenant_id=tenant_id,
            effect_id=effect_id,
            version=finding.expected_version,
            token=None,
            transition=decided,
            actor=finding.actor,
            tool=snapshot.intent.tool,
        )
        result = await self._ledger.resolve(step, resolution)
        if result.status is StepStatus.PROOF_STANDS:
            raise DecisionRefused("The ledger holds proof that this effect committed.")
        if result.status is not StepStatus.APPLIED:
            raise _moved(await self._snapshot(tenant_id, effect_id))
        self._measuring.steps([(step, result)])
        await nudge(self._nudger, [(step, result)])
        return result

    async def request(self, tenant_id: UUID, effect_id: UUID, *, actor: str) -> bool:
        """Make an unknown effect due for reconciliation now; False where that changes
        nothing.

        It never forces a retry, and an unsafe effect cannot be asked about.

        Raises:
            EffectNotFound: none with this id for this tenant.
        """
        snapshot = await self._snapshot(tenant_id, effect_id)
        if snapshot.work is None:
            return False
        contract = await self._catalog.pinned(snapshot.intent.contract_id)
        decided = request_reconciliation(contract, snapshot.work)
        if decided is None:
            return False
        step = Step(tenant_id, effect_id, snapshot.version, None, decided, actor)
        (result,) = await self._ledger.record([step])
        await nudge(self._nudger, [(step, result)])
        return result.status is StepStatus.APPLIED

    async def compensate(
        self,
        tenant_id: UUID,
        effect_id: UUID,
        compensated_by: UUID,
        *,
        actor: str,
        reason: str,
        expected_version: int | None = None,
    ) -> StepResult:
        """Link a succeeded effect to the succeeded effect that undid it; its receipt
        stays.

        Raises:
            EffectNotFound: either is not found for this tenant.
            VersionConflict: the effect is not at the version that was expected.
            DecisionRefused: one has not succeeded, the link would loop, or it is used.
        """
        sealed = self._cipher.seal(
            json.dumps({"reason": reason}).encode(),
            tenant_id=tenant_id,
            effect_id=effect_id,
            column=FINDING,
        )
        return await self._ledger.compensate(
            tenant_id,
            effect_id,
            compensated_by,
            actor=actor,
            sealed_reason=sealed.ciphertext,
            data_key_id=sealed.key_id,
            expected_version=expected_version,
        )

    async def _decide(
        self, snapshot: Snapshot, work: WorkState, finding: Finding
    ) -> Transition:
        contract = await self._catalog.pinned(snapshot.intent.contract_id)
        decided = resolve(
            contract,
            work,
            finding.decision,
            finding.observed_at,
            snapshot.now,
            clock_margin=self._clock_margin,
        )
        decided = with_new_key(self._deriver, decided, snapshot.intent, contract, work)
        if finding.decision is not Decision.COMMITTED:
            return decided
        return replace(decided, receipt=self._receipt(snapshot, finding))

    def _receipt(self, snapshot: Snapshot, finding: Finding) -> ReceiptDraft:
        intent = snapshot.intent
        sealed = seal_result(
            self._cipher, intent.tenant_id, intent.effect_id, finding.output
        )
        return ReceiptDraft(
            kind=ReceiptKind.SUCCEEDED,
            source=ReceiptSource.OPERATOR,
            reason="operator",
            external_id=finding.external_id,
            result_ciphertext=sealed.ciphertext,
            data_key_id=sealed.key_id,
            evidence_digest=evidence_digest(finding.evidence),
        )

    def _resolution(
        self, tenant_id: UUID, effect_id: UUID, finding: Finding
    ) -> Resolution:
        sealed = self._cipher.seal(
            _text_of(finding),
            tenant_id=tenant_id,
            effect_id=effect_id,
            column=FINDING,
        )
        return Resolution(
            decision_id=finding.decision_id,
            decision=finding.decision,
            actor=finding.actor,
            observed_at=finding.observed_at,
            sealed=sealed.ciphertext,
            data_key_id=sealed.key_id,
        )

    def _check_repeat(
        self, tenant_id: UUID, effect_id: UUID, finding: Finding, recorded: Resolution
    ) -> None:
        """Accept a decision that was recorded under this id before, and no other.

        A repeat may say a fresh moment at which it was seen; the first one stays.

        Raises:
            DecisionRefused: it is another decision, or the same one on other grounds.
        """
        kept = self._cipher.open(
            recorded.sealed,
            key_id=recorded.data_key_id,
            tenant_id=tenant_id,
            effect_id=effect_id,
            column=FINDING,
        )
        if (recorded.decision, kept) != (finding.decision, _text_of(finding)):
            raise DecisionRefused("This decision_id stands for another decision.")

    async def _snapshot(self, tenant_id: UUID, effect_id: UUID) -> Snapshot:
        snapshot = await self._ledger.get(tenant_id, effect_id)
        if snapshot is None:
            raise EffectNotFound("No effect with this id.")
        return snapshot


def _text_of(finding: Finding) -> bytes:
    """Write what is kept of a finding: enough to tell a repeat from another one.

    Raises:
        RequestTooLarge: it is longer than the ledger keeps.
    """
    text = _written(
        {
            "reason": finding.reason,
            "evidence": dict(finding.evidence),
            "external_id": finding.external_id,
            "output_digest": sha256(_written(finding.output)).hexdigest(),
        }
    )
    if len(text) > FINDING_BYTES_MAX:
        raise RequestTooLarge(f"Reason and evidence may hold {FINDING_BYTES_MAX} bytes.")
    return text


def _written(value: Any) -> bytes:
    """Write what a person found; a target may have said what canonical JSON has not."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _moved(snapshot: Snapshot) -> VersionConflict:
    settled = " and is settled" if snapshot.status in TERMINAL else ""
    return VersionConflict(
        f"The effect is {snapshot.status}{settled} at version {snapshot.version};"
        " read it and decide anew.",
        version=snapshot.version,
    )
