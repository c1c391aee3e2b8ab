"""Planted cheats fail the kit, each by the check that names what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from effect_broker.conformance import CHECKS, ConformanceFailure
from effect_broker.domain.contract import KeyRecords
from effect_broker.ports import AdapterSource, Clock
from tests.conformance.booked_target import BookedTarget
from tests.conformance.cheats.cheats import UngatedSource
from tests.conformance.targets import BookedHttp
from tests.integration.adapters.given import GivenSecrets

BY_NAME = {check.name: check for check in CHECKS}
STRONG = {"consistency": "strong"}


class BookedUngated(BookedHttp):
    """The honest class, made by a source that binds it to nothing."""

    def sources(self, clock: Clock) -> AdapterSource:
        return UngatedSource(GivenSecrets(), clock)


def idempotent(cheat: str, **terms: Any) -> BookedHttp:
    adapter = f"tests.conformance.cheats.cheats:{cheat}"
    return BookedHttp(
        **{"key_records": "all_answers", "probe": STRONG, "adapter": adapter, **terms}
    )


def reconcilable(cheat: str) -> BookedHttp:
    adapter = f"tests.conformance.cheats.cheats:{cheat}"
    return BookedHttp("reconcilable", adapter=adapter, probe=STRONG)


def unkept(**target: Any) -> BookedHttp:
    """Make a target that keeps less than its contract claims."""
    return BookedHttp(target=BookedTarget(**target), key_records="commits")


CHEATS: Mapping[str, tuple[Callable[[], BookedHttp], Sequence[str]]] = {
    "hidden retry": (
        lambda: idempotent("HiddenRetry"),
        ["one_request_per_dispatch", "one_request_on_a_reused_connection"],
    ),
    "changed key": (
        lambda: idempotent("ChangedKey"),
        [
            "stable_key_on_every_attempt",
            "lost_answer_converges_to_one_effect",
            "request_in_progress_converges_to_one_effect",
        ],
    ),
    "cut key": (lambda: idempotent("CutKey"), ["stable_key_on_every_attempt"]),
    "key for an unsafe target": (
        lambda: BookedHttp(
            "unsafe", adapter="tests.conformance.cheats.honest:HonestAdapter"
        ),
        ["stable_key_on_every_attempt"],
    ),
    "changed body": (
        lambda: idempotent("ChangedBody"),
        ["equal_bytes_on_every_attempt", "lost_answer_converges_to_one_effect"],
    ),
    "other digest": (
        lambda: idempotent("OtherDigest"),
        ["reported_digest_is_the_wires"],
    ),
    "no gate": (
        lambda: BookedUngated(key_records="all_answers"),
        ["nothing_is_sent_after_the_deadline", "changed_target_is_not_sent_to"],
    ),
    "failure for silence": (
        lambda: idempotent("FailureForTimeout"),
        ["attempt_ends_at_its_deadline"],
    ),
    "failure for a lost answer": (
        lambda: idempotent("FailureForLostAnswer"),
        ["lost_answer_is_no_failure", "lost_answer_converges_to_one_effect"],
    ),
    "success without an answer": (
        lambda: idempotent("SuccessWithoutAnswer"),
        ["success_needs_an_answer"],
    ),
    "success without asking": (
        lambda: idempotent("SuccessWithoutAsking"),
        [
            "answer_of_success_is_a_commit",
            "one_request_per_dispatch",
            "success_needs_an_answer",
        ],
    ),
    "failure for a cut body": (
        lambda: idempotent("FailureForCutBody"),
        ["cut_body_is_no_failure"],
    ),
    "cut body without a flag": (
        lambda: idempotent("UnflaggedCutBody"),
        ["cut_body_is_no_failure"],
    ),
    "failure for a server error": (
        lambda: idempotent("FailureForServerError"),
        [
            "server_error_after_a_commit_is_no_failure",
            "hidden_commit_converges_to_one_effect",
        ],
    ),
    "failure for a busy target": (
        lambda: idempotent("FailureForBusyTarget"),
        ["request_in_progress_is_waited_for", "drift_is_refused_by_the_target"],
    ),
    "success told as unknown": (
        lambda: idempotent("NeverSure"),
        ["answer_of_success_is_a_commit"],
    ),
    "blind lookup": (lambda: idempotent("BlindLookup"), ["lookup_finds_a_commit"]),
    "hopeful lookup": (
        lambda: reconcilable("HopefulLookup"),
        ["lookup_of_nothing_is_negative", "negative_counts_only_after_settlement"],
    ),
    "failed lookup told as absent": (
        lambda: idempotent("FailedLookupTellsAbsent"),
        ["failed_lookup_is_unknown"],
    ),
    "lookup that sends": (
        lambda: idempotent("LookupThatMutates"),
        ["lookup_changes_nothing", "nothing_is_sent_after_key_expiry"],
    ),
    "target that compares no payload": (
        lambda: unkept(compares_bodies=False),
        ["drift_is_refused_by_the_target"],
    ),
    "target that honours no key": (
        lambda: unkept(honours_keys=False),
        ["lost_answer_converges_to_one_effect"],
    ),
    "target that keeps successes only": (
        lambda: unkept(keeps=KeyRecords.SUCCESSES),
        ["hidden_commit_converges_to_one_effect"],
    ),
}

PAIRS = [(cheat, name) for cheat, (_, names) in CHEATS.items() for name in names]


@pytest.mark.parametrize(("cheat", "name"), PAIRS)
async def test_cheat_fails_the_check_that_names_it(cheat: str, name: str) -> None:
    with pytest.raises(ConformanceFailure) as failed:
        await BY_NAME[name].run(CHEATS[cheat][0]())
    assert failed.value.check == name
    assert failed.value.what
    assert failed.value.where
    assert failed.value.todo


def test_every_check_is_failed_by_some_cheat() -> None:
    assert set(BY_NAME) == {name for _, name in PAIRS}


async def test_failure_says_what_happened_where_and_what_to_do() -> None:
    with pytest.raises(ConformanceFailure) as failed:
        await BY_NAME["one_request_per_dispatch"].run(idempotent("HiddenRetry"))
    told = str(failed.value)
    assert told.startswith("one_request_per_dispatch: 2 requests in one dispatch (reset)")
    assert "request 2: POST /v1/charges" in told
    assert "what to do: Send once" in told
