"""From a meaning, or from what a lookup found, to what was proved; for every wire."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal, assert_never

from effect_broker.domain.contract import EffectContract, KeyRecords, Meaning
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import (
    Ambiguous,
    Evidence,
    ProbeResult,
    ProbeStatus,
    Rejected,
)
from effect_broker.domain.pointer import MISSING, at_pointer, pointer_tokens

NotCommitted = Literal[
    Meaning.IN_PROGRESS,
    Meaning.KEY_CONFLICT,
    Meaning.NOT_EXECUTED,
    Meaning.REJECTED,
    Meaning.REJECTED_FINAL,
]


def uncommitted(
    meaning: NotCommitted | None,
    reason: str,
    evidence: Evidence,
    *,
    patience: timedelta | None,
    from_key_record: bool,
) -> Ambiguous | Rejected:
    """Say what an answer proves that is no commit; without a meaning, nothing."""
    match meaning:
        case None:
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
        case Meaning.REJECTED | Meaning.REJECTED_FINAL:
            return Rejected(
                reason,
                final=meaning is Meaning.REJECTED_FINAL,
                from_key_record=from_key_record,
                retry_after=patience,
                evidence=evidence,
            )
        case _:
            assert_never(meaning)


def speaks_for_the_key(contract: EffectContract, carries_key: bool) -> bool:
    """Say whether a rejection comes from the record under the key (design rule 5)."""
    return carries_key and contract.key_records is KeyRecords.ALL_ANSWERS


def lookup_result(
    effect: EffectRecord, answer: Any, evidence: Evidence, *, id_in_found: str | None
) -> ProbeResult:
    """Say what a whole, readable answer of a lookup proved.

    Nothing at `found` means absent if the place itself is there: a list that is missing
    altogether is an answer about something else. `id_in_found` is where the id stands in
    what was found, unless the lookup says where it stands in the answer.
    """
    terms = effect.contract.probe
    assert terms is not None
    assert terms.found is not None
    found = at_pointer(answer, terms.found)
    if found is MISSING and not _has_place(answer, terms.found):
        return ProbeResult(
            ProbeStatus.UNKNOWN, evidence={**evidence, "failure": "place_missing"}
        )
    if found is MISSING or not found:
        return ProbeResult(ProbeStatus.NOT_COMMITTED, evidence=evidence)
    if terms.match is not None and (
        at_pointer(answer, terms.match) != effect.downstream_key
    ):
        return ProbeResult(
            ProbeStatus.UNKNOWN, evidence={**evidence, "failure": "other_effect_found"}
        )
    external_id = None
    if terms.external_id is not None:
        external_id = id_at(answer, terms.external_id)
    elif id_in_found is not None:
        external_id = id_at(found, id_in_found)
    return ProbeResult(ProbeStatus.COMMITTED, external_id, found, evidence)


def id_at(answer: Any, pointer: str) -> str | None:
    """Read a text or a whole number as the text of an id or a code."""
    value = at_pointer(answer, pointer)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        return None
    return str(value)


def _has_place(answer: Any, pointer: str) -> bool:
    steps = pointer_tokens(pointer)
    parent = at_pointer(answer, pointer.rpartition("/")[0]) if steps else answer
    return isinstance(parent, dict | list)
