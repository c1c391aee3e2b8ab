"""What an answer, or the lack of one, proves."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from effect_broker.adapters.wire.connections import Connections
from effect_broker.adapters.wire.exchange import BODY_BYTES_MAX
from effect_broker.domain.outcome import Ambiguous, Committed, NotSent, Rejected
from tests.guarantees import guarantee
from tests.integration.adapters import fault_server as faults
from tests.integration.adapters.fault_server import FaultServer, answer, answer_bytes
from tests.integration.adapters.given import ManualClock, contract
from tests.integration.adapters.sending import Sender

SAFETY = ("idempotent", "reconcilable", "unsafe")
PROBE = {
    "url": "http://127.0.0.1:1/v1/charges?key={downstream_key}",
    "consistency": "strong",
    "found": "/data/0",
}


def of_class(target: FaultServer, safety: str, **changes: Any) -> Any:
    changes |= {"key_retention": "24h" if safety == "idempotent" else None}
    changes |= {"probe": PROBE} if safety == "reconcilable" else {}
    return contract(target.url, safety=safety, **changes)


@guarantee("lost-answer-is-unknown")
@pytest.mark.parametrize("safety", SAFETY)
@pytest.mark.parametrize(
    "fault", [faults.close, faults.reset, faults.garbage], ids=lambda act: act.__name__
)
async def test_lost_answer_is_ambiguous_after_exactly_one_request(
    target: FaultServer, connections: Connections, safety: str, fault: faults.Act
) -> None:
    target.plan(fault)
    outcome = await Sender(connections).dispatch(of_class(target, safety))
    assert isinstance(outcome, Ambiguous)
    assert not outcome.contract_violated
    assert outcome.evidence["bytes_may_have_left"] is True
    assert len(target.seen) == 1


@guarantee("lost-answer-is-unknown")
@pytest.mark.parametrize("safety", SAFETY)
async def test_silence_past_the_timeout_is_ambiguous_and_leaves_no_connection(
    target: FaultServer, connections: Connections, safety: str
) -> None:
    target.plan(faults.silence)
    outcome = await Sender(connections).dispatch(
        of_class(target, safety, attempt_timeout="500ms")
    )
    assert outcome == Ambiguous("timed_out", evidence=outcome.evidence)
    await target.until_left(0)
    assert len(target.seen) == 1


@pytest.mark.parametrize("fault", [faults.close, faults.reset])
async def test_reset_on_a_reused_connection_is_not_taken_for_never_processed(
    target: FaultServer, connections: Connections, fault: faults.Act
) -> None:
    target.plan(answer(201, {"id": "ch_1"}), fault)
    sender = Sender(connections)
    assert isinstance(await sender.dispatch(contract(target.url)), Committed)
    outcome = await sender.dispatch(contract(target.url))
    assert isinstance(outcome, Ambiguous)
    assert outcome.evidence["reused_connection"] is True
    assert [seen.connection for seen in target.seen] == [0, 0]


async def test_unsafe_request_never_travels_on_a_used_connection(
    target: FaultServer, connections: Connections
) -> None:
    sender = Sender(connections)
    for _ in range(2):
        await sender.dispatch(of_class(target, "unsafe"))
    assert [seen.connection for seen in target.seen] == [0, 1]


@pytest.mark.parametrize("safety", SAFETY)
@pytest.mark.parametrize(
    ("act", "flags"),
    [
        (faults.cut(201, b'{"id": "ch_1"'), ("output_unparsed",)),
        (faults.cut_chunks(201, b'{"id": "ch_1"}'), ("output_unparsed",)),
        (answer_bytes(201, b"<html>done</html>"), ("output_unparsed",)),
        (answer_bytes(201, b'{"id": NaN}'), ("output_unparsed",)),
        (answer_bytes(201, b'{"id": 1e400}'), ("output_unparsed",)),
        (answer_bytes(201, b'{"id": "\\ud800"}'), ("output_unparsed",)),
        (answer_bytes(201, b"[" * 100_000), ("output_unparsed",)),
        (answer_bytes(201, b"[" * 201 + b"]" * 201), ("output_unparsed",)),
        (answer_bytes(201, b'{"id": "ch_1", "id": "ch_2"}'), ("output_unparsed",)),
        (answer_bytes(201, b"\xff\xfe\xfd"), ("output_unparsed",)),
        (
            answer_bytes(201, b"x" * (BODY_BYTES_MAX + 1)),
            ("output_unparsed", "output_truncated"),
        ),
        (
            faults.zipped(201, b"x" * (64 * 1024 * 1024)),
            ("output_unparsed", "output_truncated"),
        ),
        (faults.zipped(201, b'{"id": "ch_1"}', "br"), ("output_unparsed",)),
        (
            answer_bytes(
                201, gzip.compress(b"{}" * 99)[:-9], {"Content-Encoding": "gzip"}
            ),
            ("output_unparsed",),
        ),
        (
            answer_bytes(201, b"not zipped", {"Content-Encoding": "gzip"}),
            ("output_unparsed",),
        ),
    ],
    ids=[
        "cut",
        "cut-chunks",
        "html",
        "nan",
        "overflow",
        "surrogate",
        "deep",
        "deeper-than-readers-bear",
        "doubled-name",
        "encoding",
        "huge",
        "gzip-bomb",
        "unknown-coding",
        "cut-gzip",
        "false-gzip",
    ],
)
async def test_committed_status_with_an_unreadable_body_is_a_flagged_commit(
    target: FaultServer,
    connections: Connections,
    safety: str,
    act: faults.Act,
    flags: tuple[str, ...],
) -> None:
    target.plan(act)
    outcome = await Sender(connections).dispatch(of_class(target, safety))
    assert isinstance(outcome, Committed)
    assert outcome.flags == flags
    assert outcome.output is None
    assert outcome.raw
    assert len(outcome.raw) <= BODY_BYTES_MAX
    assert len(target.seen) == 1


async def test_body_that_never_ends_does_not_cost_the_commit(
    target: FaultServer, connections: Connections
) -> None:
    target.plan(faults.stall(201, b'{"id": '))
    outcome = await Sender(connections).dispatch(
        contract(target.url, attempt_timeout="500ms")
    )
    assert isinstance(outcome, Committed)
    assert (outcome.flags, outcome.raw) == (("output_unparsed",), b'{"id": ')
    assert outcome.evidence["failure"] == "timed_out"
    await target.until_left(0)


async def test_bytes_that_were_not_read_do_not_reach_the_next_answer(
    target: FaultServer, connections: Connections
) -> None:
    target.plan(answer_bytes(201, b"x" * (BODY_BYTES_MAX + 1)))
    sender = Sender(connections)
    await sender.dispatch(contract(target.url))
    outcome = await sender.dispatch(contract(target.url))
    assert isinstance(outcome, Committed)
    assert outcome.output == {"id": "ch_1"}
    assert [seen.connection for seen in target.seen] == [0, 1]


async def test_unasked_compression_is_undone(
    target: FaultServer, connections: Connections
) -> None:
    target.plan(faults.zipped(201, b'{"id": 9007199254740993}'))
    outcome = await Sender(connections).dispatch(contract(target.url))
    assert isinstance(outcome, Committed)
    assert outcome.external_id == "9007199254740993"
    assert outcome.flags == ()


async def test_commit_without_a_body_is_a_plain_commit(
    target: FaultServer, connections: Connections
) -> None:
    target.plan(answer_bytes(204, b""))
    outcome = await Sender(connections).dispatch(contract(target.url))
    assert isinstance(outcome, Committed)
    assert (outcome.output, outcome.raw, outcome.flags) == (None, None, ())


async def test_output_outside_its_schema_flags_the_commit(
    target: FaultServer, connections: Connections
) -> None:
    schema = {"type": "object", "required": ["receipt"]}
    outcome = await Sender(connections).dispatch(contract(target.url, output=schema))
    assert isinstance(outcome, Committed)
    assert outcome.flags == ("output_schema_mismatch",)
    assert (outcome.output, outcome.external_id) == ({"id": "ch_1"}, "ch_1")


async def test_target_time_is_the_targets_own(
    target: FaultServer, connections: Connections
) -> None:
    target.plan(answer(201, {}, {"Date": "Thu, 01 Jan 2026 00:00:05 GMT"}))
    outcome = await Sender(connections).dispatch(contract(target.url))
    assert isinstance(outcome, Committed)
    assert outcome.target_time == datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["Fri, 31 Dec 9999 23:59:59 -2359", "Thu, 01 Jan 99999 00:00:00 GMT", "now"]
)
async def test_date_beyond_every_calendar_does_not_cost_the_commit(
    target: FaultServer, connections: Connections, text: str
) -> None:
    target.plan(answer(201, {}, {"Date": text, "Retry-After": text}))
    outcome = await Sender(connections).dispatch(contract(target.url))
    assert isinstance(outcome, Committed)
    assert outcome.target_time is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", timedelta(seconds=7)),
        ("0", timedelta(0)),
        ("999999999999", timedelta(hours=1)),
        ("Thu, 01 Jan 2026 00:00:30 GMT", timedelta(seconds=30)),
        ("Wed, 31 Dec 2025 00:00:00 GMT", timedelta(0)),
        ("Fri, 01 Jan 2027 00:00:00 GMT", timedelta(hours=1)),
        ("-5", None),
        ("soon", None),
        ("Thu, 01 Jan 20261 00:00:30 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 -2300", None),
    ],
)
async def test_retry_after_is_read_and_capped(
    target: FaultServer,
    connections: Connections,
    text: str,
    expected: timedelta | None,
) -> None:
    target.plan(answer(429, {}, {"Retry-After": text}))
    outcome = await Sender(connections, clock=ManualClock()).dispatch(
        contract(target.url)
    )
    assert isinstance(outcome, Rejected)
    assert outcome.not_executed
    assert outcome.retry_after == expected


async def test_in_use_twice_then_success_is_three_requests_under_one_key(
    target: FaultServer, connections: Connections
) -> None:
    busy = answer(409, {"error": {"code": "in_use"}}, {"Retry-After": "1"})
    target.plan(busy, busy)
    sender = Sender(connections)
    outcomes = [await sender.dispatch(contract(target.url)) for _ in range(3)]
    waiting = outcomes[0]
    assert isinstance(waiting, Ambiguous)
    assert (waiting.in_progress, waiting.contract_violated) == (True, False)
    assert waiting.retry_after == timedelta(seconds=1)
    assert isinstance(outcomes[2], Committed)
    assert len({seen.header("Idempotency-Key") for seen in target.seen}) == 1


async def test_key_reused_with_other_parameters_is_a_violation(
    target: FaultServer, connections: Connections
) -> None:
    target.plan(answer(409, {"error": {"code": "key_reused"}}))
    outcome = await Sender(connections).dispatch(contract(target.url))
    assert isinstance(outcome, Ambiguous)
    assert outcome.contract_violated
    assert outcome.reason == "status_409/key_reused"


async def test_code_that_the_contract_does_not_list_is_not_repeated(
    target: FaultServer, connections: Connections
) -> None:
    target.plan(answer(409, {"error": {"code": "CANARY"}}))
    outcome = await Sender(connections).dispatch(contract(target.url))
    assert isinstance(outcome, Ambiguous)
    assert outcome.reason == "status_409"
    assert "CANARY" not in repr(outcome)


async def test_status_alone_proves_nothing_where_a_lost_code_would_decide(
    target: FaultServer, connections: Connections
) -> None:
    meaning = {
        "2xx": "committed",
        "202/pending": "in_progress",
        "402": "rejected",
        "402/processing": "in_progress",
        "code": "/code",
    }
    body = json.dumps({"code": "pending"}).encode()
    two = b'{"code": "processing", "code": "declined"}'
    target.plan(
        faults.cut(402, body),
        answer_bytes(402, two),
        faults.cut(202, body),
        faults.cut(201, body),
    )
    sender = Sender(connections)
    made = contract(target.url, http={"meaning": meaning})
    declined, torn, accepted, created = [await sender.dispatch(made) for _ in range(4)]
    assert isinstance(declined, Ambiguous)
    assert isinstance(torn, Ambiguous)
    assert isinstance(accepted, Ambiguous)
    assert isinstance(created, Committed)


@pytest.mark.parametrize(
    ("key_records", "http", "kept"),
    [
        ("all_answers", {}, True),
        ("commits", {}, False),
        ("successes", {}, False),
    ],
)
async def test_only_an_answer_from_the_keys_own_record_speaks_for_every_attempt(
    target: FaultServer,
    connections: Connections,
    key_records: str,
    http: dict[str, Any],
    kept: bool,
) -> None:
    target.plan(answer(402, {}), answer(400, {}), answer(429, {}))
    sender = Sender(connections)
    made = contract(target.url, key_records=key_records, http=http)
    declined, final, limited = [await sender.dispatch(made) for _ in range(3)]
    assert isinstance(declined, Rejected)
    assert isinstance(final, Rejected)
    assert isinstance(limited, Rejected)
    assert (declined.final, declined.from_key_record) == (False, kept)
    assert (final.final, final.from_key_record) == (True, kept)
    assert (limited.not_executed, limited.from_key_record) == (True, False)


async def test_read_back_that_fails_cannot_happen_since_there_is_one_call(
    target: FaultServer, connections: Connections
) -> None:
    target.plan(answer(201, {"id": "ch_1"}), answer(429, {}))
    outcome = await Sender(connections).dispatch(contract(target.url))
    assert isinstance(outcome, Committed)
    assert len(target.seen) == 1


async def test_nobody_listening_is_proof_that_nothing_was_sent(
    connections: Connections, unused_tcp_port: int
) -> None:
    outcome = await Sender(connections).dispatch(
        contract(f"http://127.0.0.1:{unused_tcp_port}")
    )
    assert outcome == NotSent("connect_failed", evidence=outcome.evidence)
    assert outcome.evidence["bytes_may_have_left"] is False
