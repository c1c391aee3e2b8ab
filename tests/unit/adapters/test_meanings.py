"""Twenty statuses in four safety classes: where each answer leads."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from effect_broker.adapters.http_outcome import outcome_of
from effect_broker.adapters.wire.exchange import Exchange
from effect_broker.domain.canonical import canonical
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.outcome import Committed
from effect_broker.domain.settle import after_outcome
from effect_broker.domain.status import EffectStatus
from effect_broker.domain.work import WorkState
from tests.integration.adapters.given import EFFECT, MOMENT, TENANT

MEANING = {
    "2xx": "committed",
    "202/pending": "in_progress",
    "400": "rejected_final",
    "401": "not_executed",
    "402": "rejected",
    "403": "not_executed",
    "409/in_use": "in_progress",
    "409/key_reused": "key_conflict",
    "422": "rejected_final",
    "429": "not_executed",
    "code": "/code",
}
SUCCEEDED = EffectStatus.SUCCEEDED
UNKNOWN = EffectStatus.OUTCOME_UNKNOWN
RETRYABLE = EffectStatus.RETRYABLE
FAILED = EffectStatus.FAILED_FINAL
REVIEW = EffectStatus.MANUAL_REVIEW

TABLE = [
    (200, "", SUCCEEDED),
    (201, "", SUCCEEDED),
    (202, "", SUCCEEDED),
    (202, "pending", UNKNOWN),
    (204, "", SUCCEEDED),
    (301, "", UNKNOWN),
    (302, "", UNKNOWN),
    (304, "", UNKNOWN),
    (400, "", FAILED),
    (401, "", RETRYABLE),
    (402, "", RETRYABLE),
    (403, "", RETRYABLE),
    (404, "", UNKNOWN),
    (408, "", UNKNOWN),
    (409, "", UNKNOWN),
    (409, "in_use", UNKNOWN),
    (409, "key_reused", REVIEW),
    (418, "", UNKNOWN),
    (422, "", FAILED),
    (425, "", UNKNOWN),
    (429, "", RETRYABLE),
    (500, "", UNKNOWN),
    (502, "", UNKNOWN),
    (503, "", UNKNOWN),
    (504, "", UNKNOWN),
    (101, "", UNKNOWN),
]
SAFETY = ("transactional", "idempotent", "reconcilable", "unsafe")


def of_class(safety: str) -> EffectContract:
    """Make a contract as if pinned: a new transactional one over HTTP is refused."""
    document: dict[str, Any] = {
        "tool": "t",
        "name": "t",
        "version": "1",
        "safety": safety,
        "adapter": "http",
        "attempt_timeout": "10s",
        "settlement_bound": "30s",
        "arguments": {"type": "object"},
        "http": {"url": "https://t.example/t", "meaning": MEANING},
    }
    if safety != "unsafe":
        document["http"]["key_header"] = "Idempotency-Key"
    if safety == "idempotent":
        document["key_retention"] = "24h"
    if safety == "reconcilable":
        document["probe"] = {
            "url": "https://t.example/t?k={downstream_key}",
            "consistency": "strong",
            "found": "/data/0",
        }
    return EffectContract.from_document(canonical(document))


def dispatching() -> WorkState:
    return WorkState(
        effect_id=EFFECT,
        tenant_id=UUID(str(TENANT)),
        status=EffectStatus.DISPATCHING,
        version=2,
        attempts=1,
        unproven=1,
        proven_through=0,
        rejections=0,
        retries=0,
        redispatches=0,
        probes=0,
        key_generation=1,
        proof_committed=False,
        due_at=MOMENT,
        settlement_at=MOMENT + timedelta(seconds=40),
        horizon_at=MOMENT + timedelta(hours=24),
        submit_until=MOMENT + timedelta(hours=1),
        negative_at=None,
        unknown_since=None,
        created_at=MOMENT,
    )


@pytest.mark.parametrize("safety", SAFETY)
@pytest.mark.parametrize(("status", "code", "expected"), TABLE)
def test_answer_leads_where_the_contracts_table_says_and_else_to_unknown(
    safety: str, status: int, code: str, expected: EffectStatus
) -> None:
    made = of_class(safety)
    body = canonical({"code": code} if code else {})
    known = Exchange(sent=True, status=status, body=bytearray(body), complete=True)
    outcome = outcome_of(made, None, known, MOMENT.timestamp())
    decided = after_outcome(
        made, dispatching(), outcome, MOMENT, clock_margin=timedelta(seconds=1)
    )
    assert decided.new is expected


@pytest.mark.parametrize("safety", SAFETY)
@pytest.mark.parametrize("family", [1, 2, 3, 4, 5])
def test_status_that_no_table_lists_is_unknown_in_every_class(
    safety: str, family: int
) -> None:
    made = of_class(safety)
    for status in range(family * 100, family * 100 + 100):
        known = Exchange(sent=True, status=status, complete=True)
        outcome = outcome_of(made, None, known, MOMENT.timestamp())
        decided = after_outcome(
            made, dispatching(), outcome, MOMENT, clock_margin=timedelta(seconds=1)
        )
        listed = {200 <= status < 300: SUCCEEDED, str(status) in MEANING: decided.new}
        assert decided.new is listed.get(True, UNKNOWN), status


def test_schema_that_cannot_be_asked_flags_the_commit_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(schema: Any, value: Any) -> Any:
        raise LookupError("a reference that leads nowhere")

    monkeypatch.setattr("effect_broker.adapters.output.argument_errors", broken)
    made = of_class("idempotent").model_copy(update={"output": {"type": "object"}})
    known = Exchange(sent=True, status=200, body=bytearray(b"{}"), complete=True)
    outcome = outcome_of(made, None, known, MOMENT.timestamp())
    assert isinstance(outcome, Committed)
    assert outcome.flags == ("output_schema_mismatch",)
