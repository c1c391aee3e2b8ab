"""Each judge of the matrix must be able to say no: one planted lie for each promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.ids import uuid7
from effect_broker.ledger.chain import FIRST_HEAD, event_digest
from examples.crash_matrix.matrix.cells import Scenario
from examples.crash_matrix.matrix.checks import (
    broken_by_answers,
    broken_by_draining,
    broken_by_processes,
    broken_promises,
)
from examples.crash_matrix.matrix.evidence import Evidence, LocalCharge
from examples.crash_matrix.target.client import Charge, SeenRequest

T0 = datetime(2026, 1, 14, 12, tzinfo=UTC)
EFFECT = uuid7()
A, B, C, T = Scenario.A, Scenario.B, Scenario.C, Scenario.T


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def row(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


def changed(item: Any, **fields: Any) -> Any:
    return SimpleNamespace(**{**vars(item), **fields})


def charge(number: int = 1) -> Charge:
    made = at(0.2).isoformat()
    return Charge(f"ch_{number}", "keyed", 1, "EUR", "o", None, "key", made)


def local_charge(transaction: str) -> LocalCharge:
    return LocalCharge(**vars(charge()), transaction=transaction)


def post(seconds: float = 0.1, **fields: Any) -> SeenRequest:
    seen: dict[str, Any] = {
        "request_id": 1,
        "world": "keyed",
        "method": "POST",
        "path": "/keyed/charges",
        "order": "o",
        "reference": None,
        "idempotency_key": "key",
        "send_deadline": None,
        "header_names": [],
        "body_sha256": "body",
        "arrived_at": at(seconds).isoformat(),
        "connection_id": "c",
        "fault": None,
        "outcome": "answered",
        "status": 201,
        "charge_id": "ch_1",
    }
    return SeenRequest(**{**seen, **fields})


def attempt(ordinal: int = 1, started: float = 0.0, **fields: Any) -> Any:
    plain = row(
        effect_id=EFFECT,
        ordinal=ordinal,
        worker="w",
        started_at=at(started),
        send_deadline=at(started + 1.5),
        key_generation=1,
        ended_at=at(started + 0.3),
        kind="committed",
        late=False,
        reason="",
    )
    return changed(plain, **fields)


def history(*steps: tuple[EventType, EffectStatus | None, EffectStatus]) -> list[Any]:
    events, head = [], FIRST_HEAD
    for sequence, (kind, old, new) in enumerate(steps, start=1):
        digest = event_digest(
            head,
            effect_id=EFFECT,
            sequence=sequence,
            at=at(sequence / 10),
            type=kind,
            old=old,
            new=new,
            actor="test",
            metadata="{}",
        )
        events.append(
            row(
                effect_id=EFFECT,
                sequence=sequence,
                type=str(kind),
                old_status=old and str(old),
                new_status=str(new),
                actor="test",
                at=at(sequence / 10),
                metadata="{}",
                digest=digest,
            )
        )
        head = digest
    return events


S, E = EffectStatus, EventType
RESERVED = (E.EFFECT_RESERVED, None, S.PREPARED)
STARTED = (E.ATTEMPT_STARTED, S.PREPARED, S.DISPATCHING)
RECEIVED = (E.RECEIPT_RECORDED, S.DISPATCHING, S.SUCCEEDED)
LOST = (E.OUTCOME_LOST, S.DISPATCHING, S.OUTCOME_UNKNOWN)
FAILED = (E.ATTEMPT_REJECTED, S.DISPATCHING, S.FAILED_FINAL)


def effect(**fields: Any) -> Any:
    plain = row(
        effect_id=EFFECT,
        operation_key="o",
        contract_id=1,
        tenant_id=EFFECT,
        live_status=None,
        claim_token=None,
        ended_as="succeeded",
        contradictions=0,
    )
    return changed(plain, **fields)


RECEIPT = row(
    receipt_id=1,
    effect_id=EFFECT,
    kind="succeeded",
    external_id="ch_1",
    transaction="700",
)
GOOD = Evidence(
    effects=[effect()],
    attempts=[attempt()],
    events=history(RESERVED, STARTED, RECEIVED),
    receipts=[RECEIPT],
    holds=[],
    charges=[charge()],
    requests=[post()],
)
UNKNOWN = replace(
    GOOD,
    effects=[effect(live_status="outcome_unknown", ended_as=None)],
    events=history(RESERVED, STARTED, LOST),
    receipts=[],
)


def test_what_is_well_is_found_well() -> None:
    for scenario in Scenario:
        assert broken_promises(scenario, GOOD) == []
    assert broken_promises(C, UNKNOWN) == []
    assert broken_promises(C, replace(UNKNOWN, charges=[], requests=[])) == []


@pytest.mark.parametrize(
    ("scenario", "lie", "said"),
    [
        (A, {"effects": [effect(), effect()]}, "2 effects"),
        (A, {"charges": [charge(1), charge(2)]}, "2 charges"),
        (A, {"charges": []}, "no charge"),
        (C, {"charges": []}, "succeeded, with 0 charges"),
        (A, {"receipts": []}, "0 receipts"),
        (A, {"receipts": [RECEIPT, RECEIPT]}, "2 receipts"),
        (A, {"receipts": [changed(RECEIPT, external_id="ch_9")]}, "does not have"),
        (T, {"charges": [local_charge("701")]}, "without its receipt"),
        (A, {"effects": [effect(contradictions=1)]}, "contradiction"),
        (A, {"holds": [row(reason="clock")]}, "dispatch was held"),
        (A, {"requests": [post(), post()]}, "2 requests under 1 attempts"),
        (C, {"requests": [post(), post()]}, "can prove nothing"),
        (A, {"requests": [post(idempotency_key="other"), post()]}, "2 keys"),
        (A, {"requests": [post(body_sha256="other"), post()]}, "2 bodies"),
        (A, {"requests": [post(2.5)]}, "no attempt covers"),
        (A, {"requests": [post(-0.1)]}, "no attempt covers"),
        (A, {"events": history(RESERVED, STARTED)}, "does not end in the state"),
    ],
)
def test_a_planted_lie_is_named(
    scenario: Scenario, lie: dict[str, Any], said: str
) -> None:
    assert any(
        said in broken for broken in broken_promises(scenario, replace(GOOD, **lie))
    )


@pytest.mark.parametrize(
    ("scenario", "attempts", "said"),
    [
        (A, [attempt(ended_at=None), attempt(2, 2.4)], "while 1 was under way"),
        (A, [attempt(ended_at=at(9), late=True), attempt(2, 2.4)], "under way"),
        (B, [attempt(kind="ambiguous"), attempt(2, 1.9)], "before 1 had settled"),
        (B, [attempt(kind="not_sent"), attempt(2, 1.9)], None),
        (A, [attempt(kind="ambiguous"), attempt(2, 1.9)], None),
        (A, [attempt(ended_at=None), attempt(2, 2.6)], None),
    ],
)
def test_an_attempt_waits_for_the_one_before(
    scenario: Scenario, attempts: Sequence[Any], said: str | None
) -> None:
    found = broken_promises(scenario, replace(GOOD, attempts=attempts))
    assert (found == []) if said is None else any(said in broken for broken in found)


@pytest.mark.parametrize("scenario", Scenario)
def test_a_lost_effect_that_is_called_failed_is_named(scenario: Scenario) -> None:
    lie = replace(
        GOOD,
        effects=[effect(ended_as="failed_final")],
        events=history(RESERVED, STARTED, FAILED),
    )
    found = broken_promises(scenario, lie)
    assert any("failed_final" in broken for broken in found)


@pytest.mark.parametrize("scenario", [A, B])
def test_an_unknown_that_could_have_been_proved_is_named(scenario: Scenario) -> None:
    found = broken_promises(scenario, UNKNOWN)
    assert found == ["it ends outcome_unknown, not succeeded"]


def test_an_edited_history_is_named() -> None:
    events = history(RESERVED, STARTED, RECEIVED)
    events[1] = changed(events[1], actor="somebody else")
    found = broken_promises(A, replace(GOOD, events=events))
    assert found == ["the digest chain breaks at 2"]


def test_an_effect_that_somebody_still_holds_is_named() -> None:
    held = effect(live_status="dispatching", ended_as=None, claim_token=EFFECT)
    lie = replace(GOOD, effects=[held], events=history(RESERVED, STARTED), receipts=[])
    assert any("still held" in broken for broken in broken_promises(C, lie))


def test_a_process_that_breaks_is_named() -> None:
    well = {"killed": -9, "watchdog": 75, "done": 0, "runs": None}
    assert list(broken_by_processes({**well, "broken": 1})) == [
        "broken broke, with exit status 1"
    ]


def test_a_charge_with_its_receipt_in_one_transaction_is_found_well() -> None:
    assert broken_promises(T, replace(GOOD, charges=[local_charge("700")])) == []


def test_a_worker_that_does_not_end_in_good_order_is_named() -> None:
    assert list(broken_by_draining("w", 0, held=0)) == []
    assert list(broken_by_draining("w", 75, held=1)) == []
    assert len(list(broken_by_draining("w", 0, held=1))) == 1
    assert len(list(broken_by_draining("w", 1, held=0))) == 1


def test_a_caller_that_is_told_otherwise_is_named() -> None:
    answer = {"effect_id": "e", "replayed": True, "status": "succeeded"}
    assert list(broken_by_answers([answer], {"e"}, "succeeded")) == []
    assert len(list(broken_by_answers([answer], {"e", "f"}, "outcome_unknown"))) == 2
    fresh = {**answer, "replayed": False}
    assert len(list(broken_by_answers([fresh], {"e"}, "succeeded"))) == 1
