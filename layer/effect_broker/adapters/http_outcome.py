"""From an exchange to what it proved, by the contract's table of meanings alone."""

from __future__ import annotations

from typing import Any

from effect_broker.adapters.answers import (
    id_at,
    lookup_result,
    speaks_for_the_key,
    uncommitted,
)
from effect_broker.adapters.http_evidence import evidence_of, retry_after, target_time
from effect_broker.adapters.http_request import carries_key
from effect_broker.adapters.output import schema_flags
from effect_broker.adapters.wire.body import Body, read_body
from effect_broker.adapters.wire.exchange import Exchange, WireRequest
from effect_broker.adapters.wire.gate import unsent
from effect_broker.domain.contract import EffectContract, Meaning, MeaningTable
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    Outcome,
    ProbeResult,
    ProbeStatus,
)


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
    """Say what a lookup proved; only a whole, readable answer proves anything."""
    terms = effect.contract.probe
    evidence = dict(evidence_of(None, known))
    if known.status is None or terms is None or terms.found is None:
        return ProbeResult(ProbeStatus.UNKNOWN, evidence=evidence)
    if str(known.status) in terms.absent and known.complete:
        return ProbeResult(ProbeStatus.NOT_COMMITTED, evidence=evidence)
    body = read_body(known)
    if not 200 <= known.status < 300 or not body.readable:
        return ProbeResult(ProbeStatus.UNKNOWN, evidence=evidence)
    http = effect.contract.http
    return lookup_result(
        effect, body.value, evidence, id_in_found=http.external_id if http else None
    )


def _answered(
    contract: EffectContract, known: Exchange, evidence: Any, wall: float
) -> Outcome:
    assert contract.http is not None
    assert known.status is not None
    body = read_body(known)
    meaning, reason = _meaning(contract.http.meaning, known.status, body)
    if meaning is Meaning.COMMITTED:
        return _committed(contract, known, body, evidence)
    return uncommitted(
        meaning,
        reason,
        evidence,
        patience=retry_after(known, wall),
        from_key_record=speaks_for_the_key(contract, carries_key(contract)),
    )


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
    return id_at(body.value, table.code)


def _committed(
    contract: EffectContract, known: Exchange, body: Body, evidence: Any
) -> Committed:
    assert contract.http is not None
    pointer = contract.http.external_id
    mismatch = schema_flags(contract, body.value) if body.readable else ()
    return Committed(
        external_id=None if pointer is None else id_at(body.value, pointer),
        output=body.value,
        raw=body.raw,
        flags=(*body.flags, *mismatch),
        target_time=target_time(known),
        evidence=evidence,
    )
