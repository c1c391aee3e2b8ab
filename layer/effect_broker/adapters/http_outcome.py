"""From an exchange to what it proved, by the contract's table of meanings alone."""

from __future__ import annotations

from typing import Any, assert_never

from effect_broker.adapters.http_evidence import evidence_of, retry_after, target_time
from effect_broker.adapters.http_request import carries_key
from effect_broker.adapters.wire.body import SCHEMA_MISMATCH, Body, read_body
from effect_broker.adapters.wire.exchange import Exchange, WireRequest
from effect_broker.adapters.wire.gate import unsent
from effect_broker.domain.contract import (
    EffectContract,
    KeyRecords,
    Meaning,
    MeaningTable,
)
from effect_broker.domain.contract_schema import argument_errors
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    Outcome,
    ProbeResult,
    ProbeStatus,
    Rejected,
)
from effect_broker.domain.pointer import MISSING, at_pointer, pointer_tokens


def outcome_of(
    contract: EffectContract, request: WireRequest | None, known: Exchange, wall: float
) -> Outcome:
    """Say what an attempt proved.

    Without a status: nothing was sent, by the gate's word, or nothing is known. With one,
    the contract's table decides, and what it does not list is ambiguous.
    """
    evidence = evidence_of(request, known)
    if known.status is not None:
        return _answered(contract, known, evidence, wall)
    if known.sent:
        return Ambiguous(known.failure, evidence=evidence)
    return unsent(known.failure, evidence)


def probe_result_of(effect: EffectRecord, known: Exchange) -> ProbeResult:
    """Say what a lookup proved; only a whole, readable answer proves anything.

    Nothing at `found` means absent if the place itself is there: a list that is missing
    altogether is an answer about something else.
    """
    terms = effect.contract.probe
    evidence = dict(evidence_of(None, known))
    if known.status is None or terms is None or terms.found is None:
        return ProbeResult(ProbeStatus.UNKNOWN, evidence=evidence)
    if str(known.status) in terms.absent and known.complete:
        return ProbeResult(ProbeStatus.NOT_COMMITTED, evidence=evidence)
    body = read_body(known)
    if not 200 <= known.status < 300 or not body.readable:
        return ProbeResult(ProbeStatus.UNKNOWN, evidence=evidence)
    found = at_pointer(body.value, terms.found)
    if found is MISSING and not _has_place(body.value, terms.found):
        return ProbeResult(
            ProbeStatus.UNKNOWN, evidence={**evidence, "failure": "place_missing"}
        )
    if found is MISSING or not found:
        return ProbeResult(ProbeStatus.NOT_COMMITTED, evidence=evidence)
    if terms.match is not None and (
        at_pointer(body.value, terms.match) != effect.downstream_key
    ):
        return ProbeResult(
            ProbeStatus.UNKNOWN, evidence={**evidence, "failure": "other_effect_found"}
        )
    return ProbeResult(
        ProbeStatus.COMMITTED,
        _found_id(effect.contract, body.value, found),
        found,
        evidence,
    )


def _answered(
    contract: EffectContract, known: Exchange, evidence: Any, wall: float
) -> Outcome:
    assert contract.http is not None
    assert known.status is not None
    body = read_body(known)
    meaning, reason = _meaning(contract.http.meaning, known.status, body)
    patience = retry_after(known, wall)
    if meaning is None:
        return Ambiguous(reason, evidence=evidence, retry_after=patience)
    match meaning:
        case Meaning.COMMITTED:
            return _committed(contract, known, body, evidence)
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
            kept = contract.key_records is KeyRecords.ALL_ANSWERS
            return Rejected(
                reason,
                final=meaning is Meaning.REJECTED_FINAL,
                from_key_record=kept and carries_key(contract),
                retry_after=patience,
                evidence=evidence,
            )
        case _:
            assert_never(meaning)


def _meaning(table: MeaningTable, status: int, body: Body) -> tuple[Meaning | None, str]:
    """Look the answer up; the reason repeats a code only where the contract lists it.

    Where a code could change what the status means and the body cannot be read, the
    status alone is no proof.
    """
    family = f"{status // 100}xx"
    coded = [key for key in table.entries if key.startswith((f"{status}/", f"{family}/"))]
    if coded and not body.readable:
        return None, f"status_{status}_unreadable"
    code = _code(table, body)
    listed = f"{status}/{code}" in coded or f"{family}/{code}" in coded
    reason = f"status_{status}/{code}" if listed else f"status_{status}"
    return table.of(status, code), reason


def _code(table: MeaningTable, body: Body) -> str | None:
    if table.code is None:
        return None
    return _text(at_pointer(body.value, table.code))


def _committed(
    contract: EffectContract, known: Exchange, body: Body, evidence: Any
) -> Committed:
    assert contract.http is not None
    pointer = contract.http.external_id
    flags = body.flags
    if body.readable and not _fits(contract, body.value):
        flags = (*flags, SCHEMA_MISMATCH)
    return Committed(
        external_id=None if pointer is None else _text(at_pointer(body.value, pointer)),
        output=body.value,
        raw=body.raw,
        flags=flags,
        target_time=target_time(known),
        evidence=evidence,
    )


def _fits(contract: EffectContract, output: Any) -> bool:
    if contract.output is None:
        return True
    try:
        return not argument_errors(contract.output, output)
    except RecursionError:
        return False


def _found_id(contract: EffectContract, answer: Any, found: Any) -> str | None:
    """Read the id where the lookup says, or where the request's answer would have it."""
    assert contract.probe is not None
    if contract.probe.external_id is not None:
        return _text(at_pointer(answer, contract.probe.external_id))
    if contract.http is not None and contract.http.external_id is not None:
        return _text(at_pointer(found, contract.http.external_id))
    return None


def _has_place(answer: Any, pointer: str) -> bool:
    steps = pointer_tokens(pointer)
    parent = at_pointer(answer, pointer.rpartition("/")[0]) if steps else answer
    return isinstance(parent, dict | list)


def _text(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        return None
    return str(value)
