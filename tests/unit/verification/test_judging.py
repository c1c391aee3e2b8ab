from __future__ import annotations

import pytest

from effect_broker.domain.contract import SafetyClass
from effect_broker.domain.errors import InvalidRequest
from effect_broker.verification.judging import (
    Verdict,
    claims_too_much,
    judge,
    proposed_class,
)
from effect_broker.verification.report import earlier_keys
from effect_broker.verification.seen import Kept, Lookup, Repeat, Seen
from tests.integration.verification.given import contract

KEYED = contract("https://sandbox.invalid", "keyed", "idempotent")
LOOKED_UP = contract("https://sandbox.invalid", "lookup", "reconcilable")
PLAIN = contract("https://sandbox.invalid", "plain", "unsafe")
GOOD = Seen(
    repeat=Repeat.SAME_OBJECT,
    at_once=Repeat.IN_PROGRESS,
    drift=Repeat.REFUSED_AS_CONFLICT,
)
AT_ONCE = Lookup(seconds=0.1, looked_for=0.1, other_id=False, stranger=False)


def verdict(seen: Seen, about: str, tried: object = KEYED) -> Verdict:
    (row,) = [row for row in judge(tried, seen) if row.about == about]  # type: ignore[arg-type]
    return row.verdict


@pytest.mark.parametrize("repeat", Repeat)
def test_only_the_first_object_again_is_deduplication(repeat: Repeat) -> None:
    found = verdict(Seen(repeat=repeat), "the same key again")
    if repeat is Repeat.SAME_OBJECT:
        assert found is Verdict.HOLDS
    elif repeat is Repeat.UNCLEAR:
        assert found is Verdict.NOT_SEEN
    else:
        assert found is Verdict.CLAIMS_TOO_MUCH


@pytest.mark.parametrize("repeat", [it for it in Repeat if it is not Repeat.SAME_OBJECT])
def test_no_other_repeat_proposes_idempotent(repeat: Repeat) -> None:
    assert proposed_class(Seen(repeat=repeat)) is SafetyClass.UNSAFE


def test_second_object_of_two_at_once_is_no_deduplication() -> None:
    racing = Seen(repeat=Repeat.SAME_OBJECT, at_once=Repeat.ANOTHER_OBJECT)
    assert proposed_class(racing) is SafetyClass.UNSAFE
    assert verdict(racing, "the same key twice at once") is Verdict.CLAIMS_TOO_MUCH


def test_drift_that_is_answered_with_the_first_object_is_not_refused() -> None:
    seen = Seen(repeat=Repeat.SAME_OBJECT, drift=Repeat.SAME_OBJECT)
    about = "the same key with other arguments"
    assert verdict(seen, about) is Verdict.CLAIMS_TOO_MUCH


def test_what_was_not_tried_is_never_said_to_hold() -> None:
    rows = judge(KEYED, Seen())
    assert {row.verdict for row in rows} == {Verdict.NOT_SEEN}
    assert not claims_too_much(rows)


@pytest.mark.parametrize(
    ("age", "repeat", "expected"),
    [
        (3600.0, Repeat.SAME_OBJECT, Verdict.HOLDS),
        (3600.0, Repeat.ANOTHER_OBJECT, Verdict.CLAIMS_TOO_MUCH),
        (90_000.0, Repeat.SAME_OBJECT, Verdict.CLAIMS_LESS),
        (90_000.0, Repeat.ANOTHER_OBJECT, Verdict.HOLDS),
        (3600.0, Repeat.UNCLEAR, Verdict.NOT_SEEN),
    ],
)
def test_retention_is_judged_by_the_age_of_the_key(
    age: float, repeat: Repeat, expected: Verdict
) -> None:
    seen = Seen(kept=(Kept(age, repeat),))
    assert verdict(seen, "how long keys are kept") is expected


@pytest.mark.parametrize(
    ("lookup", "about", "expected"),
    [
        (AT_ONCE, "a lookup of a fresh object", Verdict.HOLDS),
        (
            Lookup(None, 2.0, other_id=False, stranger=False),
            "a lookup of a fresh object",
            Verdict.CLAIMS_TOO_MUCH,
        ),
        (
            Lookup(1.5, 1.5, other_id=False, stranger=False),
            "a lookup of a fresh object",
            Verdict.CLAIMS_TOO_MUCH,
        ),
        (
            Lookup(0.1, 0.1, other_id=True, stranger=False),
            "a lookup of a fresh object",
            Verdict.CLAIMS_TOO_MUCH,
        ),
        (
            Lookup(0.1, 0.1, other_id=False, stranger=True),
            "a lookup of a key that was never sent",
            Verdict.CLAIMS_TOO_MUCH,
        ),
    ],
)
def test_lookup_is_believed_only_if_it_finds_the_right_object_in_time(
    lookup: Lookup, about: str, expected: Verdict
) -> None:
    assert verdict(Seen(lookup=lookup), about, LOOKED_UP) is expected


def test_lookup_that_knows_strangers_proposes_nothing() -> None:
    lying = Lookup(0.1, 0.1, other_id=False, stranger=True)
    assert proposed_class(Seen(lookup=lying)) is SafetyClass.UNSAFE
    assert proposed_class(Seen(lookup=AT_ONCE)) is SafetyClass.RECONCILABLE


def test_contract_that_could_claim_more_is_told_so() -> None:
    about = "the safety class"
    assert verdict(GOOD, about, LOOKED_UP) is Verdict.CLAIMS_LESS
    assert verdict(Seen(lookup=AT_ONCE), about, PLAIN) is Verdict.CLAIMS_LESS
    assert verdict(Seen(), about, PLAIN) is Verdict.HOLDS


@pytest.mark.parametrize("text", ["no json", "[]", '{"format": 9, "keys": []}', "{}"])
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        earlier_keys(text)
