"""What is sealed on its way into the ledger and opened on its way out."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from effect_broker.domain.attempt import AttemptEnding, EndingKind
from effect_broker.domain.canonical import parse_canonical
from effect_broker.domain.intent import Intent
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    NotSent,
    Outcome,
    ProbeResult,
    Rejected,
)
from effect_broker.domain.receipt import ReceiptDraft, ReceiptKind, ReceiptSource
from effect_broker.ports import Cipher, Sealed

ARGUMENTS: Final = "arguments"
RESULT: Final = "result"
"""Columns that ciphertexts are bound to; a receipt takes an ending's result as it is."""

_SHA256_HEX: Final = re.compile("[0-9a-f]{64}")


def open_arguments(cipher: Cipher, intent: Intent) -> Any:
    """Return the reserved arguments, or None once they were pruned."""
    if intent.arguments_ciphertext is None:
        return None
    return parse_canonical(
        cipher.open(
            intent.arguments_ciphertext,
            key_id=intent.data_key_id,
            tenant_id=intent.tenant_id,
            effect_id=intent.effect_id,
            column=ARGUMENTS,
        )
    )


def seal_result(
    cipher: Cipher,
    tenant_id: UUID,
    effect_id: UUID,
    output: Any,
    raw: bytes | None = None,
    flags: tuple[str, ...] = (),
) -> Sealed:
    """Seal what the target answered: the parsed output, or the bytes that did not
    parse.
    """
    body: dict[str, Any] = {"output": output, "flags": list(flags)}
    if raw is not None:
        body["raw_base64"] = base64.b64encode(raw).decode("ascii")
    return cipher.seal(
        _tolerant_json(body), tenant_id=tenant_id, effect_id=effect_id, column=RESULT
    )


def open_result(
    cipher: Cipher, tenant_id: UUID, effect_id: UUID, draft: ReceiptDraft
) -> dict[str, Any]:
    """Return a receipt's sealed body; empty where there is none."""
    if draft.result_ciphertext is None or draft.data_key_id is None:
        return {}
    body: dict[str, Any] = json.loads(
        cipher.open(
            draft.result_ciphertext,
            key_id=draft.data_key_id,
            tenant_id=tenant_id,
            effect_id=effect_id,
            column=RESULT,
        )
    )
    return body


def ending_of(
    cipher: Cipher, tenant_id: UUID, effect_id: UUID, outcome: Outcome
) -> AttemptEnding:
    """Describe an outcome as the ending of its attempt, the answer sealed."""
    ending = _bare_ending(cipher, tenant_id, effect_id, outcome)
    return replace(
        ending,
        evidence=outcome.evidence,
        bytes_may_have_left=_bytes_may_have_left(outcome),
        request_digest=_digest(outcome, "request_digest"),
        response_digest=_digest(outcome, "response_digest"),
    )


def _bare_ending(
    cipher: Cipher, tenant_id: UUID, effect_id: UUID, outcome: Outcome
) -> AttemptEnding:
    match outcome:
        case Committed():
            sealed = seal_result(
                cipher, tenant_id, effect_id, outcome.output, outcome.raw, outcome.flags
            )
            return AttemptEnding(
                kind=EndingKind.COMMITTED,
                reason="committed",
                external_id=outcome.external_id,
                result_ciphertext=sealed.ciphertext,
                data_key_id=sealed.key_id,
            )
        case Rejected():
            return AttemptEnding(
                kind=(
                    EndingKind.NOT_EXECUTED
                    if outcome.not_executed
                    else EndingKind.REJECTED
                ),
                reason=outcome.reason,
                final=outcome.final,
                from_key_record=outcome.from_key_record,
            )
        case NotSent():
            return AttemptEnding(kind=EndingKind.NOT_SENT, reason=outcome.reason)
        case Ambiguous():
            return AttemptEnding(kind=EndingKind.AMBIGUOUS, reason=outcome.reason)


def _bytes_may_have_left(outcome: Outcome) -> bool:
    """Take the adapter's word that nothing left; without it, something may have."""
    if isinstance(outcome, NotSent):
        return False
    return bool(outcome.evidence.get("bytes_may_have_left", True))


def _digest(outcome: Outcome, name: str) -> bytes | None:
    """Read a digest that the adapter took of the wire, if it did."""
    found = outcome.evidence.get(name)
    if not isinstance(found, str) or not _SHA256_HEX.fullmatch(found):
        return None
    return bytes.fromhex(found)


def receipt_of_ending(
    ending: AttemptEnding,
    source: ReceiptSource,
    *,
    flags: tuple[str, ...] = (),
    target_time: datetime | None = None,
) -> ReceiptDraft:
    """Make the receipt that a committed ending proves."""
    return ReceiptDraft(
        kind=ReceiptKind.SUCCEEDED,
        source=source,
        reason=ending.reason,
        external_id=ending.external_id,
        result_ciphertext=ending.result_ciphertext,
        data_key_id=ending.data_key_id,
        evidence_digest=evidence_digest(ending.evidence),
        target_time=target_time,
        flags=flags,
    )


def receipt_of_probe(
    cipher: Cipher, tenant_id: UUID, effect_id: UUID, probe: ProbeResult
) -> ReceiptDraft:
    """Make the receipt that a positive probe proves."""
    sealed = seal_result(cipher, tenant_id, effect_id, probe.output)
    return ReceiptDraft(
        kind=ReceiptKind.SUCCEEDED,
        source=ReceiptSource.PROBE,
        reason="probe_found_it",
        external_id=probe.external_id,
        result_ciphertext=sealed.ciphertext,
        data_key_id=sealed.key_id,
        evidence_digest=evidence_digest(probe.evidence),
    )


def evidence_digest(evidence: Any) -> bytes | None:
    """Digest sanitised evidence; None where there is none."""
    if not evidence:
        return None
    return hashlib.sha256(_tolerant_json(dict(evidence))).digest()


def _tolerant_json(value: Any) -> bytes:
    """Encode what a target said, big integers and all: its answer must never cost its
    receipt.
    """
    return _ENCODER.encode(value).encode("ascii")


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True)
