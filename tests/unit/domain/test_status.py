"""The table of arrows, against the design's own list: nothing more, nothing less."""

from __future__ import annotations

import pytest

from effect_broker.domain.errors import IllegalTransition
from effect_broker.domain.status import (
    LEASED,
    RESOLVABLE,
    SENDABLE,
    TERMINAL,
    TRANSITIONS,
    EffectStatus,
    EventType,
    check_transition,
)

ARROWS = """
(new)           EffectReserved           prepared
prepared        AttemptStarted           dispatching
prepared        ReceiptRecorded          succeeded
prepared        ContractViolated         manual_review
prepared        SendForbidden            manual_review failed_final
prepared        EvidenceRecorded         prepared
retryable       AttemptStarted           dispatching
retryable       ReceiptRecorded          succeeded
retryable       ContractViolated         manual_review
retryable       SendForbidden            manual_review failed_final
retryable       EvidenceRecorded         retryable
dispatching     ReceiptRecorded          succeeded
dispatching     AttemptRejected          retryable failed_final outcome_unknown
dispatching     AttemptNotExecuted       retryable outcome_unknown
dispatching     AttemptNotSent           retryable outcome_unknown
dispatching     OutcomeLost              outcome_unknown
dispatching     ContractViolated         manual_review
dispatching     EvidenceRecorded         dispatching
outcome_unknown ReconciliationStarted    reconciling
outcome_unknown ReceiptRecorded          succeeded
outcome_unknown ContractViolated         manual_review
outcome_unknown ReconciliationExhausted  manual_review
outcome_unknown ReconciliationRequested  outcome_unknown
outcome_unknown EvidenceRecorded         outcome_unknown
outcome_unknown ResolvedCommitted        succeeded
outcome_unknown ResolvedNotCommitted     prepared
outcome_unknown ResolvedFailed           failed_final
reconciling     ReceiptRecorded          succeeded
reconciling     RedispatchPermitted      prepared
reconciling     AttemptRejected          retryable failed_final
reconciling     AttemptNotExecuted       retryable
reconciling     AttemptNotSent           retryable
reconciling     ProbeInconclusive        outcome_unknown
reconciling     ReconciliationInterrupted outcome_unknown
reconciling     ReconciliationExhausted  manual_review
reconciling     ContractViolated         manual_review
reconciling     EvidenceRecorded         reconciling
manual_review   ReceiptRecorded          succeeded
manual_review   ReconciliationRequested  outcome_unknown
manual_review   EvidenceRecorded         manual_review
manual_review   ResolvedCommitted        succeeded
manual_review   ResolvedNotCommitted     prepared
manual_review   ResolvedFailed           failed_final
succeeded       CompensationLinked       compensated
succeeded       ContradictionRecorded    succeeded
failed_final    ContradictionRecorded    failed_final
compensated     ContradictionRecorded    compensated
"""

Arrow = tuple[EffectStatus | None, EventType, EffectStatus]
ALLOWED: set[Arrow] = {
    (None if old == "(new)" else EffectStatus(old), EventType(event), EffectStatus(new))
    for old, event, *targets in (line.split() for line in ARROWS.split("\n") if line)
    for new in targets
}
STATUSES = (None, *EffectStatus)


@pytest.mark.parametrize("old", STATUSES, ids=str)
@pytest.mark.parametrize("event", EventType)
def test_arrow_is_legal_exactly_where_the_design_draws_it(
    old: EffectStatus | None, event: EventType
) -> None:
    for new in EffectStatus:
        if (old, event, new) in ALLOWED:
            check_transition(old, event, new)
        else:
            with pytest.raises(IllegalTransition):
                check_transition(old, event, new)


def test_every_status_has_a_row_and_every_event_an_arrow() -> None:
    assert set(TRANSITIONS) == {None, *EffectStatus}
    drawn = {event for row in TRANSITIONS.values() for event in row}
    assert drawn == set(EventType)


def test_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        TRANSITIONS[None] = {}  # type: ignore[index]
    with pytest.raises(TypeError):
        TRANSITIONS[None][EventType.OUTCOME_LOST] = frozenset()  # type: ignore[index]


def test_groups_of_statuses_cover_the_life_of_an_effect() -> None:
    groups = [TERMINAL, SENDABLE, LEASED, RESOLVABLE]
    assert frozenset().union(*groups) == frozenset(EffectStatus)
    assert sum(map(len, groups)) == len(EffectStatus)


def test_nothing_leads_out_of_a_terminal_status_but_a_compensation() -> None:
    leaving = {
        (old, event, new)
        for old, event, new in ALLOWED
        if old in TERMINAL and new is not old
    }
    assert leaving == {
        (
            EffectStatus.SUCCEEDED,
            EventType.COMPENSATION_LINKED,
            EffectStatus.COMPENSATED,
        )
    }


def test_no_ambiguity_leads_to_a_word_that_means_failed() -> None:
    for event in (
        EventType.OUTCOME_LOST,
        EventType.PROBE_INCONCLUSIVE,
        EventType.RECONCILIATION_INTERRUPTED,
        EventType.RECONCILIATION_EXHAUSTED,
        EventType.CONTRACT_VIOLATED,
    ):
        targets = {new for row in TRANSITIONS.values() for new in row.get(event, ())}
        assert targets <= {EffectStatus.OUTCOME_UNKNOWN, EffectStatus.MANUAL_REVIEW}


def test_only_a_claim_leads_to_a_send() -> None:
    into = {(old, event) for old, event, new in ALLOWED if new == "dispatching"}
    assert into == {
        (EffectStatus.PREPARED, EventType.ATTEMPT_STARTED),
        (EffectStatus.RETRYABLE, EventType.ATTEMPT_STARTED),
        (EffectStatus.DISPATCHING, EventType.EVIDENCE_RECORDED),
    }
