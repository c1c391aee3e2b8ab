"""Stripe's SDK over our wire: one request, one key, and one table for its errors."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import stripe
from stripe import _error, _util, oauth_error

from effect_broker.adapters.stripe import MEANINGS, StripeAdapters, meaning_of, told
from effect_broker.adapters.stripe_client import GatedClient
from effect_broker.adapters.wire.exchange import Exchange, WireRequest
from effect_broker.clock import SystemClock
from effect_broker.domain.contract import EffectContract, Meaning
from effect_broker.domain.errors import ContractInvalid, SecretNotFound
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import Ambiguous, Committed, NotSent, Outcome, Rejected
from effect_broker.ports import Deadline
from effect_broker.watchdog import ThreadWatchdog
from tests.conformance.stripe_target import API_KEY, stripe_contract
from tests.guarantees import guarantee
from tests.integration.adapters.fault_server import (
    FaultServer,
    answer,
    close,
    cut,
    silence,
)
from tests.integration.adapters.given import ATTEMPT, KEY, GivenSecrets, effect

SECRETS = {"stripe/key": API_KEY}
INTENT = {"id": "pi_1", "object": "payment_intent", "amount": 100}


@pytest_asyncio.fixture
async def adapters() -> AsyncIterator[StripeAdapters]:
    made = StripeAdapters(GivenSecrets(**SECRETS), SystemClock())
    yield made
    await made.aclose()


async def dispatch(
    adapters: StripeAdapters,
    contract: EffectContract,
    record: EffectRecord | None = None,
    *,
    scope: bytes | None = None,
    deadline: Deadline | None = None,
) -> Outcome:
    adapter = await adapters.adapter(
        contract,
        scope_digest=scope or await adapters.scope_digest(contract),
        deadline=deadline,
    )
    return await adapter.dispatch(record or effect(contract), attempt_id=ATTEMPT)


def deadline_in(seconds: float) -> Deadline:
    clock = SystemClock()
    return Deadline(
        clock.monotonic() + seconds, clock.boottime() + seconds, clock.wall() + seconds
    )


async def test_request_is_the_sdks_own_under_the_ledgers_key(
    adapters: StripeAdapters, target: FaultServer
) -> None:
    target.plan(answer(200, INTENT))
    outcome = await dispatch(adapters, stripe_contract(target.url))
    assert isinstance(outcome, Committed)
    assert (outcome.external_id, outcome.output) == ("pi_1", INTENT)
    (seen,) = target.seen
    assert (seen.method, seen.target) == ("POST", "/v1/payment_intents")
    assert seen.header("Idempotency-Key") == KEY
    assert seen.header("Authorization") == f"Bearer {API_KEY}"
    assert seen.body == b"amount=100&currency=eur"
    assert seen.header("X-Stripe-Client-Telemetry") is None
    assert "telemetry_id" not in (seen.header("X-Stripe-Client-User-Agent") or "")


async def test_identifiers_of_the_path_come_from_the_arguments(
    adapters: StripeAdapters, target: FaultServer
) -> None:
    target.plan(answer(200, INTENT))
    contract = stripe_contract(
        target.url,
        stripe={"operation": "payment_intents.capture"},
        arguments={"type": "object", "required": ["intent"]},
    )
    given = {"intent": "pi_1", "amount_to_capture": 5, "metadata": {"b": "2", "a": "1"}}
    await dispatch(adapters, contract, effect(contract, given))
    assert target.seen[0].target == "/v1/payment_intents/pi_1/capture"
    assert target.seen[0].body == b"amount_to_capture=5&metadata[a]=1&metadata[b]=2"


async def test_connected_account_is_named_in_each_request(
    adapters: StripeAdapters, target: FaultServer
) -> None:
    contract = stripe_contract(target.url, stripe={"account": "acct_1"})
    await dispatch(adapters, contract)
    assert target.seen[0].header("Stripe-Account") == "acct_1"


@guarantee("lost-answer-is-unknown")
async def test_lost_answer_is_one_request_and_ambiguous(
    adapters: StripeAdapters, target: FaultServer
) -> None:
    target.plan(close)
    outcome = await dispatch(adapters, stripe_contract(target.url))
    assert isinstance(outcome, Ambiguous)
    assert len(target.seen) == 1


@pytest.mark.parametrize("status", [409, 500, 503])
async def test_advice_to_retry_is_not_followed(
    adapters: StripeAdapters, target: FaultServer, status: int
) -> None:
    body = {"error": {"type": "api_error"}}
    target.plan(answer(status, body, {"Stripe-Should-Retry": "true"}))
    outcome = await dispatch(adapters, stripe_contract(target.url))
    assert isinstance(outcome, Ambiguous)
    assert len(target.seen) == 1


async def test_success_whose_body_broke_off_is_a_flagged_commit(
    adapters: StripeAdapters, target: FaultServer
) -> None:
    target.plan(cut(200, b'{"id": "pi_'))
    outcome = await dispatch(adapters, stripe_contract(target.url))
    assert isinstance(outcome, Committed)
    assert outcome.flags == ("output_unparsed",)
    assert outcome.raw == b'{"id": "pi_'


async def test_output_outside_its_schema_is_a_flagged_commit(
    adapters: StripeAdapters, target: FaultServer
) -> None:
    target.plan(answer(200, INTENT))
    output = {"type": "object", "required": ["missing"]}
    outcome = await dispatch(adapters, stripe_contract(target.url, output=output))
    assert isinstance(outcome, Committed)
    assert outcome.flags == ("output_schema_mismatch",)


TOLD: dict[str, tuple[int, dict[str, Any], type, dict[str, Any]]] = {
    "declined": (
        402,
        {"type": "card_error", "code": "card_declined"},
        Rejected,
        {"reason": "status_402/card_declined", "from_key_record": True, "final": False},
    ),
    "invalid": (
        400,
        {"type": "invalid_request_error", "code": "parameter_missing"},
        Rejected,
        {"final": True, "from_key_record": False, "not_executed": False},
    ),
    "not found": (404, {"type": "invalid_request_error"}, Rejected, {"final": True}),
    "no key": (401, {"type": "invalid_request_error"}, Rejected, {"not_executed": True}),
    "no right": (
        403,
        {"type": "invalid_request_error"},
        Rejected,
        {"not_executed": True},
    ),
    "too many": (429, {"code": "rate_limit"}, Rejected, {"not_executed": True}),
    "key in use": (
        409,
        {"type": "idempotency_error", "code": "idempotency_key_in_use"},
        Ambiguous,
        {"in_progress": True, "contract_violated": False},
    ),
    "key reused": (
        400,
        {"type": "idempotency_error"},
        Ambiguous,
        {"contract_violated": True},
    ),
    "another conflict": (
        409,
        {"type": "api_error"},
        Ambiguous,
        {"in_progress": False, "contract_violated": False},
    ),
    "server error": (500, {"type": "api_error"}, Ambiguous, {"reason": "status_500"}),
    "redirect": (302, {"type": "api_error"}, Ambiguous, {}),
    "a code that is none": (
        402,
        {"type": "card_error", "code": "4242 4242"},
        Rejected,
        {"reason": "status_402"},
    ),
}


@pytest.mark.parametrize(("status", "body", "kind", "fields"), TOLD.values(), ids=TOLD)
async def test_answer_is_told_by_the_table(
    adapters: StripeAdapters,
    target: FaultServer,
    status: int,
    body: dict[str, Any],
    kind: type,
    fields: dict[str, Any],
) -> None:
    target.plan(answer(status, {"error": {"message": "m", **body}}))
    outcome = await dispatch(adapters, stripe_contract(target.url))
    assert isinstance(outcome, kind)
    assert {name: getattr(outcome, name) for name in fields} == fields


async def test_patience_that_is_asked_for_is_kept(
    adapters: StripeAdapters, target: FaultServer
) -> None:
    target.plan(answer(429, {"error": {}}, {"Retry-After": "7"}))
    outcome = await dispatch(adapters, stripe_contract(target.url))
    assert isinstance(outcome, Rejected)
    assert outcome.retry_after is not None
    assert outcome.retry_after.total_seconds() == 7


def errors_of_the_sdk() -> list[type[BaseException]]:
    return sorted(
        {
            kind
            for module in (_error, oauth_error, stripe)
            for kind in vars(module).values()
            if inspect.isclass(kind) and issubclass(kind, BaseException)
        },
        key=lambda kind: kind.__qualname__,
    )


AMBIGUOUS = {
    "StripeError",
    "StripeErrorWithParamCode",
    "APIError",
    "APIConnectionError",
    "SignatureVerificationError",
    # of version 2 of the API, which no operation here can name
    "AlreadyCanceledError",
    "BlockedByStripeError",
    "CannotProceedError",
    "CapabilityNotEnabledError",
    "ControlledByAlternateResourceError",
    "FeatureNotEnabledError",
    "FinancialAccountNotOpenError",
    "FxQuoteNeedsRefreshError",
    "InsufficientFundsError",
    "InvalidPaymentMethodError",
    "InvalidPayoutMethodError",
    "InvalidVaultedCredentialError",
    "NotCancelableError",
    "QuotaExceededError",
    "RecipientNotNotifiableError",
    "TemporarySessionExpiredError",
    "VerificationAttemptFailedError",
    "VerificationExpiredError",
    "VerificationNotInitiatedError",
    # of OAuth, which no operation here can name
    "OAuthError",
    "InvalidClientError",
    "InvalidGrantError",
    "InvalidScopeError",
    "UnsupportedGrantTypeError",
    "UnsupportedResponseTypeError",
}


@guarantee("unclassified-error-is-unknown")
@pytest.mark.parametrize("kind", errors_of_the_sdk(), ids=lambda kind: kind.__name__)
def test_every_error_of_the_sdk_is_classified(kind: type[BaseException]) -> None:
    named = {*MEANINGS, *AMBIGUOUS}
    assert kind.__name__ in named, f"{kind.__name__} is in neither list"
    error = kind.__new__(kind)
    outcome = told(
        stripe_contract("http://127.0.0.1"),
        Exchange(sent=True, status=418),
        error,  # type: ignore[arg-type]
        {},
        0.0,
    )
    assert isinstance(outcome, Ambiguous) == (
        meaning_of(error) in {None, Meaning.KEY_CONFLICT}
    )


def test_error_of_another_library_with_a_known_name_is_ambiguous() -> None:
    kind = type("CardError", (Exception,), {})
    assert meaning_of(kind()) is None


def test_both_lists_name_what_the_sdk_has() -> None:
    known = {kind.__name__ for kind in errors_of_the_sdk()}
    assert {*MEANINGS, *AMBIGUOUS} <= known


async def test_nothing_is_sent_past_the_deadline(
    adapters: StripeAdapters, target: FaultServer
) -> None:
    outcome = await dispatch(
        adapters, stripe_contract(target.url), deadline=deadline_in(-1)
    )
    assert isinstance(outcome, NotSent)
    assert outcome.reason == "send_deadline_passed"
    assert target.seen == []


@guarantee("send-deadline-holds")
async def test_silence_ends_at_the_deadline_with_the_connection(
    target: FaultServer,
) -> None:
    clock = SystemClock()
    watchdog = ThreadWatchdog(clock, on_overrun=None)
    adapters = StripeAdapters(GivenSecrets(**SECRETS), clock, watchdog=watchdog)
    target.plan(silence)
    outcome = await dispatch(
        adapters, stripe_contract(target.url), deadline=deadline_in(0.2)
    )
    assert isinstance(outcome, Ambiguous)
    assert outcome.reason == "timed_out"
    await target.until_left(0)


async def test_cancelled_attempt_leaves_no_connection(
    adapters: StripeAdapters, target: FaultServer
) -> None:
    target.plan(silence)
    task = asyncio.create_task(dispatch(adapters, stripe_contract(target.url)))
    await target.until_seen(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await target.until_left(0)


async def test_second_request_of_one_attempt_is_refused() -> None:
    sent: list[WireRequest] = []

    async def send(request: WireRequest) -> Exchange:
        sent.append(request)
        return Exchange(sent=True, status=200)

    client = GatedClient(send)
    await client.request_async("post", "https://api.stripe.com/v1/x", {}, "a=1")
    with pytest.raises(stripe.APIConnectionError):
        await client.request_async("post", "https://api.stripe.com/v1/x", {}, "a=1")
    assert len(sent) == 1


async def test_arguments_that_the_sdk_cannot_write_are_not_sent(
    adapters: StripeAdapters, target: FaultServer
) -> None:
    contract = stripe_contract(
        target.url,
        stripe={"operation": "payment_intents.capture"},
        arguments={"type": "object", "required": ["intent"]},
    )
    outcome = await dispatch(adapters, contract, effect(contract, {"intent": 7}))
    assert isinstance(outcome, NotSent)
    assert target.seen == []


async def test_scope_is_base_mode_and_account(target: FaultServer) -> None:
    secrets = GivenSecrets(**SECRETS)
    adapters = StripeAdapters(secrets, SystemClock())
    plain = stripe_contract(target.url)
    named = stripe_contract(target.url, stripe={"account": "acct_1"})
    before = [await adapters.scope_digest(contract) for contract in (plain, named)]
    assert len({*before, await adapters.scope_digest(stripe_contract(API))}) == 3
    secrets.values["stripe/key"] = "sk_test_rotated"
    after = [await adapters.scope_digest(contract) for contract in (plain, named)]
    assert after[0] != before[0]  # another key may be another account's
    assert after[1] == before[1]  # the account is named: its key may rotate


API = "https://api.stripe.com"


async def test_changed_account_is_not_sent_to(
    adapters: StripeAdapters, target: FaultServer
) -> None:
    outcome = await dispatch(adapters, stripe_contract(target.url), scope=b"s" * 32)
    assert isinstance(outcome, Ambiguous)
    assert outcome.contract_violated
    assert target.seen == []


@pytest.mark.parametrize(
    ("mode", "key", "served"),
    [
        ("test", "sk_test_1", True),
        ("test", "rk_test_1", True),
        ("live", "sk_live_1", True),
        ("live", "sk_test_1", False),
        ("test", "sk_live_1", False),
        ("test", "pk_test_1", False),
    ],
)
async def test_key_of_another_mode_is_not_used(mode: str, key: str, served: bool) -> None:
    adapters = StripeAdapters(GivenSecrets(**{"stripe/key": key}), SystemClock())
    contract = stripe_contract(API, stripe={"mode": mode})
    if served:
        assert len(await adapters.scope_digest(contract)) == 32
        return
    with pytest.raises(ContractInvalid, match=f"not of mode {mode}") as refused:
        await adapters.scope_digest(contract)
    assert key not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"stripe": {"operation": "payment_intents.conjure"}}, "the SDK has no"),
        ({"stripe": {"operation": "no_such.create"}}, "the SDK has no"),
        ({"stripe": {"operation": "payment_intents.retrieve"}}, "only reads"),
        ({"stripe": {"operation": "customers.delete"}}, "no idempotency key"),
        ({"stripe": {"operation": "payment_intents.capture"}}, "must require intent"),
        ({"safety": "unsafe", "key_records": "successes"}, "idempotent by key"),
    ],
)
async def test_contract_that_cannot_be_served_is_refused(
    adapters: StripeAdapters, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(ContractInvalid, match=why):
        await adapters.scope_digest(stripe_contract(API, **changes))


async def test_missing_secret_is_said() -> None:
    adapters = StripeAdapters(GivenSecrets(), SystemClock())
    with pytest.raises(SecretNotFound):
        await adapters.scope_digest(stripe_contract(API))


@guarantee("nothing-in-the-clear")
async def test_sdk_logs_no_argument_whatever_it_was_told(
    adapters: StripeAdapters,
    target: FaultServer,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_util, "STRIPE_LOG", "debug")
    monkeypatch.setattr(stripe, "log", "debug")
    caplog.set_level(logging.DEBUG)
    logging.getLogger("stripe").setLevel(logging.DEBUG)
    canary = "canary-4242"
    target.plan(answer(402, {"error": {"type": "card_error", "message": canary}}))
    contract = stripe_contract(target.url)
    record = effect(contract, {"amount": 100, "description": canary})
    outcome = await dispatch(adapters, contract, record)
    printed = capsys.readouterr()
    assert canary not in printed.out + printed.err + caplog.text
    assert canary not in repr(outcome)
    assert canary in json.dumps(target.seen[0].body.decode())


def test_registry_imports_the_sdk_only_when_a_contract_asks_for_it() -> None:
    program = (
        "import sys\n"
        "from effect_broker.adapters.source import adapters\n"
        "from effect_broker.clock import SystemClock\n"
        "from effect_broker.secrets import EnvironmentSecrets\n"
        "adapters(EnvironmentSecrets({}), SystemClock())\n"
        "assert 'stripe' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
