"""The two books compared: what differs is named, and what the window cannot decide is
not.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from effect_broker.broker.auditing import MARGIN, Discrepancy, compare
from effect_broker.domain.status import EffectStatus
from effect_broker.ports import AuditedEffect, TargetObject

D = Discrepancy
S = EffectStatus
AFTER = datetime(2026, 3, 1, tzinfo=UTC)
BEFORE = datetime(2026, 3, 2, tzinfo=UTC)
NOON = AFTER + timedelta(hours=12)
EFFECT = AuditedEffect(
    effect_id=UUID(int=1),
    tenant="shop",
    operation_key="order:1:charge:v1",
    status=S.SUCCEEDED,
    unknown=False,
    downstream_keys=("k1",),
    external_id="ch_1",
    first_started_at=NOON,
    last_settled_at=NOON + timedelta(minutes=1),
)
MADE = TargetObject("ch_1", "k1")


def found(
    *objects: TargetObject, effect: AuditedEffect = EFFECT, keyed: bool = True
) -> list[tuple[Discrepancy, tuple[str, ...]]]:
    findings, _ = compare(
        [effect], objects, created_after=AFTER, created_before=BEFORE, keyed=keyed
    )
    return [(finding.discrepancy, finding.external_ids) for finding in findings]


def undecided(effect: AuditedEffect) -> int:
    return compare([effect], [], created_after=AFTER, created_before=BEFORE, keyed=True)[
        1
    ]


def test_equal_books_differ_in_nothing() -> None:
    assert found(MADE) == []


def test_succeeded_effect_without_its_object_is_found() -> None:
    assert found() == [(D.EFFECT_WITHOUT_OBJECT, ())]


def test_object_that_no_effect_made_is_found_where_keys_are_listed() -> None:
    stranger = TargetObject("ch_9", "another")
    assert found(MADE, stranger) == [(D.OBJECT_WITHOUT_EFFECT, ("ch_9",))]
    assert found(MADE, stranger, keyed=False) == []


def test_two_objects_for_one_key_are_found_together() -> None:
    twice = TargetObject("ch_2", "k1")
    assert found(MADE, twice) == [(D.OBJECTS_FOR_ONE_KEY, ("ch_1", "ch_2"))]


def test_objects_under_two_generations_of_one_effect_are_found() -> None:
    renewed = replace(EFFECT, downstream_keys=("k1", "k2"))
    second = TargetObject("ch_2", "k2")
    assert found(MADE, second, effect=renewed) == [
        (D.OBJECTS_FOR_ONE_KEY, ("ch_1", "ch_2"))
    ]


@pytest.mark.parametrize(
    ("status", "unknown", "expected"),
    [
        (S.FAILED_FINAL, False, D.FAILED_EFFECT_WITH_OBJECT),
        (S.OUTCOME_UNKNOWN, True, D.UNKNOWN_EFFECT_WITH_OBJECT),
        (S.MANUAL_REVIEW, True, D.UNKNOWN_EFFECT_WITH_OBJECT),
        (S.PREPARED, True, D.UNKNOWN_EFFECT_WITH_OBJECT),
        (S.PREPARED, False, D.PENDING_EFFECT_WITH_OBJECT),
        (S.RETRYABLE, False, D.PENDING_EFFECT_WITH_OBJECT),
        (S.MANUAL_REVIEW, False, D.PENDING_EFFECT_WITH_OBJECT),
        (S.DISPATCHING, False, None),
        (S.COMPENSATED, False, None),
    ],
)
def test_object_of_an_effect_that_says_otherwise_is_found(
    status: EffectStatus, unknown: bool, expected: Discrepancy | None
) -> None:
    effect = replace(EFFECT, status=status, unknown=unknown, external_id=None)
    kinds = [kind for kind, _ in found(MADE, effect=effect)]
    assert kinds == ([] if expected is None else [expected])


@pytest.mark.parametrize("status", [S.FAILED_FINAL, S.OUTCOME_UNKNOWN, S.RETRYABLE])
def test_effect_that_claims_no_object_needs_none(status: EffectStatus) -> None:
    assert found(effect=replace(EFFECT, status=status, external_id=None)) == []


def test_listing_without_keys_is_matched_by_the_receipts_id() -> None:
    assert found(TargetObject("ch_1", None), keyed=False) == []
    assert found(TargetObject("ch_2", None), keyed=False) == [
        (D.EFFECT_WITHOUT_OBJECT, ())
    ]


@pytest.mark.parametrize(
    ("started", "settled"),
    [
        (AFTER - timedelta(minutes=1), NOON),
        (NOON, BEFORE + timedelta(minutes=1)),
        (AFTER + MARGIN / 2, NOON),
        (NOON, BEFORE - MARGIN / 2),
    ],
)
def test_effect_at_the_edge_of_the_window_is_left_undecided(
    started: datetime, settled: datetime
) -> None:
    effect = replace(EFFECT, first_started_at=started, last_settled_at=settled)
    assert found(effect=effect) == []
    assert undecided(effect) == 1


def test_object_at_the_edge_belongs_to_its_effect_though_sent_before() -> None:
    effect = replace(EFFECT, first_started_at=AFTER - timedelta(hours=1))
    assert found(MADE, effect=effect) == []
