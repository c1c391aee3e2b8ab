"""The kit for adapters of one's own: what yours must do on the wire, and say of it.

    @pytest.mark.parametrize("check", CHECKS, ids=str)
    async def test_adapter_conforms(check: Check) -> None:
        target = MyTarget()
        if reason := check.why_not(target):
            pytest.skip(reason)
        await check.run(target)

`docs/adapters.md` shows a whole harness. A failure says what happened, where it was seen
and what to do about it.
"""

from typing import Final

from effect_broker.conformance import of_answers, of_lookups, of_recovery, on_the_wire
from effect_broker.conformance.check import Check
from effect_broker.conformance.failure import ConformanceFailure
from effect_broker.conformance.http_target import HttpTargetUnderTest
from effect_broker.conformance.recorder import CannedAnswer, Recorder
from effect_broker.conformance.target import Fault, SeenRequest, TargetUnderTest

__all__ = [
    "CHECKS",
    "CannedAnswer",
    "Check",
    "ConformanceFailure",
    "Fault",
    "HttpTargetUnderTest",
    "Recorder",
    "SeenRequest",
    "TargetUnderTest",
]

CHECKS: Final = (
    of_answers.answer_of_success_is_a_commit,
    on_the_wire.one_request_per_dispatch,
    on_the_wire.one_request_on_a_reused_connection,
    on_the_wire.stable_key_on_every_attempt,
    on_the_wire.equal_bytes_on_every_attempt,
    on_the_wire.reported_digest_is_the_wires,
    on_the_wire.nothing_is_sent_after_the_deadline,
    on_the_wire.attempt_ends_at_its_deadline,
    on_the_wire.changed_target_is_not_sent_to,
    of_answers.lost_answer_is_no_failure,
    of_answers.success_needs_an_answer,
    of_answers.cut_body_is_no_failure,
    of_answers.server_error_after_a_commit_is_no_failure,
    of_answers.request_in_progress_is_waited_for,
    of_answers.drift_is_refused_by_the_target,
    of_lookups.lookup_finds_a_commit,
    of_lookups.lookup_of_nothing_is_negative,
    of_lookups.lookup_changes_nothing,
    of_lookups.failed_lookup_is_unknown,
    of_lookups.negative_counts_only_after_settlement,
    of_recovery.lost_answer_converges_to_one_effect,
    of_recovery.hidden_commit_converges_to_one_effect,
    of_recovery.request_in_progress_converges_to_one_effect,
    of_recovery.nothing_is_sent_after_key_expiry,
)
"""Every check, in the order in which an adapter is best mended."""
