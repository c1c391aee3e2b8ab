from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from pydantic import ValidationError

from effect_broker.domain.errors import InvalidRequest, PreconditionFailed
from effect_broker.domain.status import EffectStatus
from effect_broker.surfaces.http_parameters import (
    PageParameters,
    cursor_after,
)
from effect_broker.surfaces.http_preferences import Precondition, preferred_wait

EFFECT = UUID("0198c0de-0000-7000-8000-000000000001")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (["wait=5"], 5),
        (["respond-async, wait=5"], 5),
        (["respond-async", "WAIT = 5"], 5),
        (['wait="7"; foo=bar'], 7),
        (["wait=60"], 20),
        (["wait=0"], 0),
        (["wait=3, wait=9"], 3),
    ],
)
def test_wait_preference_is_read_and_capped(headers: list[str], seconds: int) -> None:
    assert preferred_wait(headers) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "headers", [[], [""], ["wait"], ["wait="], ["wait=-1"], ["wait=1.5"], ["awaits=5"]]
)
def test_preference_that_cannot_be_read_is_not_applied(headers: list[str]) -> None:
    assert preferred_wait(headers) is None


def test_outcome_unknown_lists_every_unproved_effect() -> None:
    query = PageParameters(status=EffectStatus.OUTCOME_UNKNOWN).query()
    assert (query.status, query.unknown) == (None, True)
    query = PageParameters(status=EffectStatus.RETRYABLE).query()
    assert (query.status, query.unknown) == (EffectStatus.RETRYABLE, False)


def test_cursor_continues_after_the_last_effect() -> None:
    assert PageParameters(cursor=cursor_after(EFFECT)).query().after == EFFECT


@pytest.mark.parametrize("cursor", ["", "!", "abc", "é", str(EFFECT)])
def test_foreign_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="cursor"):
        PageParameters(cursor=cursor).query()


def test_span_has_a_unit() -> None:
    assert PageParameters(older_than="5m").query().older_than == timedelta(minutes=5)
    with pytest.raises(InvalidRequest, match="older_than"):
        PageParameters(older_than="300").query()


@pytest.mark.parametrize(
    "parameters",
    [
        {"state": "prepared"},
        {"limit": 0},
        {"limit": 101},
        {"tool": "a\x00"},
        {"operation_prefix": ""},
        {"status": "failed"},
    ],
)
def test_misspelt_and_impossible_filters_are_refused(parameters: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        PageParameters.model_validate(parameters)


@pytest.mark.parametrize(
    ("header", "matches", "only"),
    [
        ([], True, None),
        (["*"], True, None),
        (['"3"'], True, 3),
        (['"2", "3"'], True, None),
        (['"2"', '"3"'], True, None),
        (['"2"'], False, 2),
        (['W/"3"'], False, None),
        (['"abc"'], False, None),
        (['"03"'], False, None),
    ],
)
def test_if_match_names_versions_and_weak_tags_match_none(
    header: list[str], matches: bool, only: int | None
) -> None:
    condition = Precondition.of(header)
    assert condition.names(3) is matches
    assert condition.only == only
    if not matches:
        with pytest.raises(PreconditionFailed) as refused:
            condition.check(3)
        assert refused.value.version == 3


@pytest.mark.parametrize("header", ["3", '"3', '"3" "4"', "'3'", '"3",'])
def test_if_match_that_is_no_list_of_tags_is_refused(header: str) -> None:
    with pytest.raises(InvalidRequest):
        Precondition.of([header])
