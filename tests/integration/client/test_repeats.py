"""When the client repeats by itself, and what it says when it gives up."""

from __future__ import annotations

import inspect
import time
from typing import Any

import httpx2
import pytest

from effect_broker import EffectBrokerClient, EffectRequest, SyncEffectBrokerClient
from effect_broker.client import BrokerDefect, Unreachable, calls, sending
from effect_broker.client.errors import refusal_of
from effect_broker.domain import errors
from effect_broker.domain.errors import (
    Forbidden,
    LedgerUnavailable,
    PayloadDrift,
    RateLimited,
    SchemaMismatch,
)
from effect_broker.surfaces.problem import ROWS, problem_of
from tests.guarantees import guarantee
from tests.integration.client.scripted import CLOSE, Scripted, answer, problem
from tests.unit.surfaces.test_problem import EXAMPLES

REQUEST = EffectRequest("order:1:charge:v1", "sim.charge", {"amount": 100, "f": 1.0})
KEY = "ebk_" + "0" * 16 + "_" + "0" * 64
EFFECT = "0198c0de-0000-7000-8000-000000000001"
SUBMISSION: dict[str, Any] = {
    "effect_id": EFFECT,
    "operation_key": REQUEST.operation_key,
    "tool": REQUEST.tool,
    "status": "prepared",
    "outcome": "Recorded and not sent yet; the broker will send it.",
    "unknown": False,
    "unknown_since": None,
    "terminal": False,
    "version": 1,
    "reason": None,
    "created_at": "2026-01-31T12:00:00+00:00",
    "updated_at": "2026-01-31T12:00:00+00:00",
    "contract": {"name": "c", "version": "1", "safety": "idempotent", "guarantee": "g"},
    "next": [{"action": "wait", "method": "GET", "href": "/", "scope": "read"}],
    "replayed": False,
    "first_recorded_at": "2026-01-31T12:00:00+00:00",
    "receipt": None,
    "a_field_of_tomorrow": {"x": 1},
}
GOOD = answer(202, SUBMISSION)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "LONGEST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(sending.Repeats, "__init__", _with_short_first_pause)


_made = sending.Repeats.__init__


def _with_short_first_pause(self: Any, *positional: Any, **named: Any) -> None:
    _made(self, *positional, **named)
    self.pause = 0.01


async def submitted(scripted: Scripted, **options: Any) -> Any:
    async with EffectBrokerClient(scripted.url, KEY, **options) as client:
        return await client.submit(REQUEST)


AWAY = problem(503, "ledger_unavailable", retry_after_seconds=0)


@pytest.mark.parametrize(
    "trouble",
    [
        CLOSE,
        AWAY,
        answer(502, b"<html>Bad Gateway</html>"),
        answer(503, {"message": "Service Unavailable"}),
        answer(504, {"message": "Endpoint request timed out"}),
        problem(429, "rate_limited", retry_after_seconds=0),
        answer(429, {"message": "Too Many Requests"}, headers={"Retry-After": "0"}),
        b"HTTP/1.1 202 Accepted\r\nContent-Length: 1000\r\n\r\n{",
    ],
)
async def test_undecided_submission_is_repeated_with_the_same_bytes(
    scripted: Scripted, trouble: bytes
) -> None:
    scripted.says(trouble, trouble, GOOD)
    effect = await submitted(scripted)
    assert str(effect.effect_id) == EFFECT
    assert effect.document["a_field_of_tomorrow"] == {"x": 1}
    assert len(scripted.requests) == 3
    bodies = {request.partition(b"\r\n\r\n")[2] for request in scripted.requests}
    assert len(bodies) == 1


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (problem(400, "invalid_request"), errors.InvalidRequest),
        (problem(401, "unauthenticated"), errors.Unauthenticated),
        (problem(403, "forbidden", scope="submit"), Forbidden),
        (answer(403, {"message": "Forbidden"}), Forbidden),
        (
            problem(
                409,
                "payload_drift",
                effect_id=EFFECT,
                effect_status="prepared",
                differing_fields=["amount"],
            ),
            PayloadDrift,
        ),
        (problem(409, "payload_drift"), errors.Conflict),
        (problem(409, "a_code_of_tomorrow"), errors.Conflict),
        (problem(500, "internal_error", instance="urn:uuid:1"), BrokerDefect),
        (problem(503, "schema_mismatch"), SchemaMismatch),
        (answer(200, b"nonsense"), BrokerDefect),
        (answer(200, {"effect_id": "x"}), BrokerDefect),
        (answer(302, b"", headers={"Location": "http://127.0.0.1:1/"}), BrokerDefect),
    ],
)
async def test_what_is_decided_is_raised_and_never_repeated(
    scripted: Scripted, said: bytes, error: type[Exception]
) -> None:
    scripted.says(said)
    with pytest.raises(error):
        await submitted(scripted)
    assert len(scripted.requests) == 1


@guarantee("no-ledger-no-dispatch")
async def test_giving_up_says_that_a_repeat_with_the_same_key_is_safe(
    scripted: Scripted,
) -> None:
    """P6, C50: no word of it means that nothing was done."""
    scripted.says(CLOSE)
    with pytest.raises(Unreachable) as lost:
        await submitted(scripted, patience_seconds=0.2)
    assert len(scripted.requests) > 1
    assert "may be recorded" in lost.value.message
    assert "same key" in lost.value.message
    scripted.says(AWAY)
    with pytest.raises(LedgerUnavailable):
        await submitted(scripted, patience_seconds=0.1)


async def test_no_patience_repeats_nothing(scripted: Scripted) -> None:
    scripted.says(CLOSE, GOOD)
    with pytest.raises(Unreachable):
        await submitted(scripted, patience_seconds=0)
    assert len(scripted.requests) == 1


async def test_retry_after_is_kept_to(scripted: Scripted) -> None:
    scripted.says(problem(429, "rate_limited", retry_after_seconds=1), GOOD)
    began = time.monotonic()
    await submitted(scripted)
    assert time.monotonic() - began >= 1
    scripted.says(problem(429, "rate_limited", retry_after_seconds=60), GOOD)
    began = time.monotonic()
    with pytest.raises(RateLimited) as limited:
        await submitted(scripted)
    assert limited.value.retry_after_seconds == 60
    assert time.monotonic() - began < 5


async def test_silence_is_a_lost_answer(scripted: Scripted) -> None:
    """A broker that does not answer in time may have recorded the effect."""
    silent = httpx2.MockTransport(_never)
    async with EffectBrokerClient(
        scripted.url, KEY, patience_seconds=0, transport=silent
    ) as client:
        with pytest.raises(Unreachable) as lost:
            await client.submit(REQUEST)
    assert "ReadTimeout" in lost.value.message


def _never(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ReadTimeout("no answer", request=request)


def test_wait_is_added_to_the_time_an_answer_may_take() -> None:
    call = calls.submit(REQUEST, 15)
    assert sending.timeout_of(call, 10) == 25
    assert call.headers["Prefer"] == "wait=15"


def test_every_call_that_is_made_says_why_it_is_safe_to_repeat() -> None:
    made = {
        calls.submit(REQUEST, 0).name,
        calls.get(EFFECT).name,
        calls.page(
            status=None,
            contradicted=False,
            tool=None,
            older_than=None,
            operation_prefix=None,
            limit=1,
            cursor=None,
        ).name,
        calls.history(EFFECT, None, None).name,
        calls.receipt(EFFECT).name,
        calls.tools().name,
        calls.fork(EFFECT, 1).name,
        calls.fork_live(EFFECT, "order:1:x").name,
        calls.reconcile(EFFECT).name,
        calls.compensate(EFFECT, EFFECT, "x", None).name,
        calls.resolve(
            EFFECT,
            decision="committed",
            reason="x",
            evidence="x",
            expected_version=1,
            decision_id="d",
            observed_at=None,
            external_id=None,
            output=None,
        ).name,
    }
    assert made == set(calls.REPEATS)


@pytest.mark.parametrize("name", sorted(it.__name__ for it in ROWS))
def test_every_refusal_of_the_broker_comes_back_as_itself(name: str) -> None:
    error, status, _ = EXAMPLES[name]
    document = problem_of(error).document()
    made = refusal_of(status, document)
    if status == 500:
        assert isinstance(made, BrokerDefect)
        return
    if document["code"] == error.code == made.code:
        assert type(made) is type(error)
        return
    assert isinstance(made, errors.EffectBrokerError)


def test_both_forms_have_the_same_methods_words_and_parameters() -> None:
    renamed = {"aclose": "close", "__aenter__": "__enter__", "__aexit__": "__exit__"}

    def shape(client: type) -> dict[str, tuple[Any, ...]]:
        return {
            renamed.get(name, name): (
                [
                    (it.name, it.kind, it.default)
                    for it in inspect.signature(function).parameters.values()
                ],
                inspect.getdoc(function),
            )
            for name, function in vars(client).items()
            if inspect.isfunction(function)
        }

    assert shape(EffectBrokerClient) == shape(SyncEffectBrokerClient)
