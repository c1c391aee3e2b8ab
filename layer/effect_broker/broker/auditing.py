"""Audit: the target's own objects against the ledger, over a window. Changes nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import ContractInvalid
from effect_broker.domain.status import EffectStatus
from effect_broker.ports import AuditedEffect, AuditReads, Lister, TargetObject


class Discrepancy(StrEnum):
    """Where the target's books and the ledger differ.

    A pending effect is one of which every attempt is said not to have committed: with an
    object it is about to be sent once more for nothing but a wrong answer.
    """

    EFFECT_WITHOUT_OBJECT = "effect_without_object"
    FAILED_EFFECT_WITH_OBJECT = "failed_effect_with_object"
    UNKNOWN_EFFECT_WITH_OBJECT = "unknown_effect_with_object"
    PENDING_EFFECT_WITH_OBJECT = "pending_effect_with_object"
    OBJECT_WITHOUT_EFFECT = "object_without_effect"
    OBJECTS_FOR_ONE_KEY = "objects_for_one_key"


@dataclass(frozen=True, slots=True)
class Finding:
    """One discrepancy, with the effect and the objects that it is about, where known."""

    discrepancy: Discrepancy
    effect: AuditedEffect | None
    external_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit read and found.

    `undecided` effects may lie partly outside the window: nothing is said about them.
    """

    contract: EffectContract
    created_after: datetime
    created_before: datetime
    effects: int
    objects: int
    undecided: int
    findings: Sequence[Finding]


SUCCEEDED: Final = frozenset({EffectStatus.SUCCEEDED, EffectStatus.COMPENSATED})
MARGIN: Final = timedelta(minutes=5)
"""How far the target's clock may lie from the ledger's before an effect at the window's
edge is called missing."""


def compare(
    effects: Sequence[AuditedEffect],
    objects: Sequence[TargetObject],
    *,
    created_after: datetime,
    created_before: datetime,
    keyed: bool,
) -> tuple[Sequence[Finding], int]:
    """Return what differs, and how many effects the window cannot decide about.

    Objects are matched by downstream key, and by the id that the receipt names. Without
    keys in the listing (`keyed`) an object without an effect may be somebody else's, and
    is not reported. `effects` reach further back than the window: an object at its
    beginning may belong to an effect that was sent before.
    """
    of_key = _grouped(objects)
    by_id = {found.external_id: found for found in objects}
    matched: set[str] = set()
    findings: list[Finding] = []
    undecided = 0
    for effect in effects:
        found = _objects_of(effect, of_key, by_id)
        matched |= {made.external_id for made in found}
        discrepancy = _discrepancy(effect, found)
        inside = _lies_inside(effect, created_after, created_before)
        if discrepancy is Discrepancy.EFFECT_WITHOUT_OBJECT and not inside:
            undecided += 1
        elif discrepancy is not None:
            ids = tuple(sorted(made.external_id for made in found))
            findings.append(Finding(discrepancy, effect, ids))
    if keyed:
        strangers = [made for made in objects if made.external_id not in matched]
        findings += [
            Finding(Discrepancy.OBJECT_WITHOUT_EFFECT, None, (made.external_id,))
            for made in strangers
        ]
    return findings, undecided


@dataclass(frozen=True, slots=True)
class Auditor:
    """Reads both sides and compares them."""

    reads: AuditReads
    lister: Lister

    async def audit(
        self,
        contract: EffectContract,
        *,
        created_after: datetime,
        created_before: datetime,
    ) -> Audit:
        """Compare what the target lists for a window with what the ledger holds.

        Raises:
            ContractInvalid: the contract declares no listing.
            TargetUnreadable: the listing could not be read to its end.
            LedgerUnavailable: the ledger could not be read.
        """
        if contract.listing is None:
            raise ContractInvalid(
                f"{contract.name} {contract.version}: there is no [contracts.listing]."
            )
        objects = await self.lister.objects(contract, created_after, created_before)
        reach = contract.submit_deadline + contract.unknown_review_after
        effects = await self.reads.audited(
            contract.name,
            created_after - reach,
            created_before,
            contract.settlement_bound or timedelta(0),
        )
        findings, undecided = compare(
            effects,
            objects,
            created_after=created_after,
            created_before=created_before,
            keyed=contract.listing.key is not None,
        )
        return Audit(
            contract,
            created_after,
            created_before,
            len(effects),
            len(objects),
            undecided,
            findings,
        )


def _grouped(objects: Sequence[TargetObject]) -> Mapping[str, Sequence[TargetObject]]:
    found: dict[str, list[TargetObject]] = defaultdict(list)
    for made in objects:
        if made.key is not None:
            found[made.key].append(made)
    return found


def _objects_of(
    effect: AuditedEffect,
    of_key: Mapping[str, Sequence[TargetObject]],
    by_id: Mapping[str, TargetObject],
) -> Sequence[TargetObject]:
    found = {
        made.external_id: made
        for key in effect.downstream_keys
        for made in of_key.get(key, ())
    }
    if effect.external_id is not None and effect.external_id in by_id:
        found[effect.external_id] = by_id[effect.external_id]
    return list(found.values())


def _discrepancy(
    effect: AuditedEffect, found: Sequence[TargetObject]
) -> Discrepancy | None:
    if len(found) > 1:
        return Discrepancy.OBJECTS_FOR_ONE_KEY
    if effect.status in SUCCEEDED:
        return None if found else Discrepancy.EFFECT_WITHOUT_OBJECT
    if not found:
        return None
    if effect.status is EffectStatus.FAILED_FINAL:
        return Discrepancy.FAILED_EFFECT_WITH_OBJECT
    if effect.unknown:
        return Discrepancy.UNKNOWN_EFFECT_WITH_OBJECT
    if effect.status is EffectStatus.DISPATCHING:
        return None  # its answer may be on its way
    return Discrepancy.PENDING_EFFECT_WITH_OBJECT


def _lies_inside(
    effect: AuditedEffect, created_after: datetime, created_before: datetime
) -> bool:
    """Say whether the target must have made the effect's object inside the window."""
    return (
        effect.first_started_at - MARGIN >= created_after
        and effect.last_settled_at + MARGIN <= created_before
    )
