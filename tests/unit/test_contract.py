"""What a contract may claim: a promise that its other fields cannot carry is refused."""

from __future__ import annotations

import copy
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from effect_broker.domain.contract import (
    ContractRulesBroken,
    EffectContract,
    KeyRecords,
    Meaning,
    SafetyClass,
)
from effect_broker.domain.errors import InvalidArguments

EXAMPLES = Path(__file__).parents[2] / "examples" / "contracts"
PAYMENTS: dict[str, Any] = tomllib.loads((EXAMPLES / "payments.toml").read_text())[
    "contracts"
][0]


class _Removed:
    """Marks a field that a test takes out; its name is the same in every process."""

    def __repr__(self) -> str:
        return "REMOVED"


REMOVED = _Removed()


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    """Return the example's table with `{"http.url": …}` put in, or taken out."""
    table = copy.deepcopy(PAYMENTS)
    for path, value in changes.items():
        *parents, name = path.split(".")
        place = table
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is REMOVED:
            place.pop(name, None)
        else:
            place[name] = value
    return table


def contract(**changes: Any) -> EffectContract:
    return EffectContract.model_validate(
        changed({path.replace("__", "."): value for path, value in changes.items()})
    )


def reasons(changes: dict[str, Any], **context: Any) -> list[str]:
    with pytest.raises(ValidationError) as refused:
        EffectContract.model_validate(changed(changes), context=context)
    found: list[str] = []
    for problem in refused.value.errors():
        broken = problem.get("ctx", {}).get("error")
        if isinstance(broken, ContractRulesBroken):
            found.extend(broken.reasons)
        else:
            found.append(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}")
    return found


UNSAFE = {
    "safety": "unsafe",
    "http.key_header": REMOVED,
    "key_retention": REMOVED,
    "key_records": REMOVED,
    "probe": REMOVED,
}
TRANSACTIONAL = {
    "safety": "transactional",
    "adapter": "sql",
    "sql": {"statement": "INSERT INTO charges VALUES (%(amount)s)"},
    "settlement_bound": REMOVED,
    "key_retention": REMOVED,
    "key_records": REMOVED,
    "http": REMOVED,
    "probe": REMOVED,
}


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"lease": "10s"}, ["lease", "attempt_timeout"]),
        ({"lease": "10999ms"}, ["lease", "attempt_timeout"]),
        ({"attempt_timeout": "60s"}, ["lease", "attempt_timeout"]),
        ({"probe.timeout": "30s"}, ["lease", "probe.timeout"]),
        ({"settlement_bound": REMOVED}, ["settlement_bound", "safety"]),
        ({"key_retention": REMOVED}, ["key_retention", "safety"]),
        ({"key_retention": "5s"}, ["key_retention", "attempt_timeout"]),
        ({"key_retention": "41s"}, ["key_retention", "settlement_bound"]),
        (
            {"key_retention": "41s", "short_horizon": True},
            ["key_retention", "settlement_bound"],
        ),
        ({"key_retention": "2m"}, ["key_retention", "retry_limit", "short_horizon"]),
        ({"unknown_alert_after": "25h"}, ["unknown_alert_after", "unknown_review_after"]),
        (
            {"backoff": {"initial": "10m", "max": "5m"}},
            ["backoff.initial", "backoff.max"],
        ),
        ({"safety": "reconcilable", "probe": REMOVED}, ["probe", "safety"]),
        ({"safety": "transactional"}, ["safety", "adapter"]),
        (TRANSACTIONAL | {"safety": "idempotent"}, ["adapter", "safety"]),
        (UNSAFE | {"http.key_header": "Idempotency-Key"}, ["safety", "http.key_header"]),
        (UNSAFE | {"http.key_body": "/key"}, ["safety", "http.key_body"]),
        (
            UNSAFE | {"http.url": "https://x.example/{downstream_key}"},
            ["safety", "http.url"],
        ),
        (
            UNSAFE | {"http.headers": {"idempotency-key": "abc"}},
            ["safety", "http.headers"],
        ),
        (UNSAFE | {"key_generations": 2}, ["key_generations", "safety"]),
        (UNSAFE | {"key_records": "all_answers"}, ["key_records", "safety"]),
        (
            {"key_generations": 2, "key_records": "commits", "probe": REMOVED},
            ["key_generations", "key_records", "probe"],
        ),
        (
            {
                "key_generations": 2,
                "key_records": "commits",
                "probe.consistency": "eventual",
            },
            ["key_generations", "key_records", "consistency"],
        ),
        ({"http.key_header": REMOVED}, ["http.key_header", "safety"]),
        ({"http.key_body": "/key"}, ["http.key_header", "http.key_body"]),
        ({"http.key_header": REMOVED, "http.key_body": "/amount"}, ["http.key_body"]),
        ({"http.key_header": REMOVED, "http.key_body": ""}, ["http.key_body"]),
        (
            {"http.key_header": REMOVED, "http.key_body": "/a/b", "http.body": "form"},
            ["http.key_body", "http.body"],
        ),
        (
            {"http.key_header": REMOVED, "http.key_body": "/a", "http.body": "none"},
            ["http.key_body", "http.body"],
        ),
        (
            {"key_quoted": True, "http.key_header": "", "http.key_body": "/k"},
            ["key_quoted", "http.key_header"],
        ),
        ({"key_max_length": 8}, ["key_format", "key_max_length"]),
        ({"key_max_length": 42}, ["key_format", "key_max_length"]),
        ({"key_format": "hex", "key_max_length": 63}, ["key_format", "key_max_length"]),
        ({"key_format": "uuid", "key_max_length": 35}, ["key_format", "key_max_length"]),
        ({"http": REMOVED, "probe": REMOVED}, ["adapter", "http"]),
        (TRANSACTIONAL | {"sql": REMOVED}, ["adapter", "sql"]),
        ({"simulated": {"script": []}}, ["simulated", "adapter"]),
        ({"options": {"a": 1}}, ["options", "http"]),
        ({"http.meaning": {}}, ["http.meaning"]),
        ({"probe.url": REMOVED}, ["adapter", "probe.url"]),
        ({"probe.url": "https://x.example/charges"}, ["probe.url", "downstream_key"]),
        ({"http.url": "/v1/charges"}, ["http.url"]),
        ({"http.url": "ftp://x.example/a"}, ["http.url"]),
        ({"http.url": "https://{arguments.currency}.example/a"}, ["http.url"]),
        ({"http.url": "https://x.example:{arguments.amount}/a"}, ["http.url"]),
        ({"http.url": "https://x.example{arguments.currency}"}, ["http.url"]),
        ({"http.url": "{arguments.currency}://x.example/a"}, ["http.url"]),
        ({"http.url": "https://user:pw@x.example/a"}, ["http.url"]),
        ({"http.url": "https://x.example/a#b"}, ["http.url"]),
        ({"http.url": "https://x.example/a b"}, ["http.url"]),
        ({"http.url": "https://x.example/{tenant}"}, ["http.url", "tenant"]),
        ({"http.url": "https://x.example/{arguments.other}"}, ["http.url", "arguments"]),
        ({"http.url": "https://x.example/{arguments"}, ["http.url"]),
        ({"http.base_url": "https://x.example"}, ["http.url", "base_url"]),
        (
            {"http.base_url": "https://x.example", "http.url": "//evil.example/a"},
            ["http.url", "base_url"],
        ),
        ({"non_intent_fields": ["note"]}, ["non_intent_fields", "arguments"]),
        ({"non_intent_fields": ["amount", "amount"]}, ["non_intent_fields"]),
        ({"redact.show": ["/other"]}, ["redact.show", "arguments"]),
        ({"redact.show": [""]}, ["redact.show"]),
        ({"arguments": {"type": "array"}}, ["arguments.type"]),
        (
            {"arguments.properties.operation_key": {"type": "string"}},
            ["arguments", "operation_key"],
        ),
        (
            {"http.headers": {"Idempotency-key": "x"}},
            ["http.key_header", "http.headers"],
        ),
        (
            {"http.target_enforces_deadline": "X-By", "http.headers": {"x-by": "1"}},
            ["http.target_enforces_deadline", "http.headers"],
        ),
    ],
    ids=repr,
)
def test_broken_rule_is_refused_and_names_its_fields(
    changes: dict[str, Any], fields: list[str]
) -> None:
    found = reasons(changes)
    assert any(all(field in reason for field in fields) for reason in found), found


@pytest.mark.parametrize(
    "changes",
    [
        {"leaze": "10s"},
        {"http.methode": "POST"},
        {"probe.until": 1},
        {"backoff.cap": "1s"},
        {"key_records": "everything"},
        {"safety": "safe"},
        {"adapter": "soap"},
        {"adapter": "os.system"},
        {"attempt_timeout": 10},
        {"attempt_timeout": "10"},
        {"attempt_timeout": "10 seconds"},
        {"attempt_timeout": "0s"},
        {"attempt_timeout": "-1s"},
        {"attempt_timeout": "0.5ms"},
        {"key_retention": "999999999d"},
        {"retry_limit": -1},
        {"retry_limit": "5"},
        {"retry_limit": True},
        {"short_horizon": "yes"},
        {"backoff.factor": 0.5},
        {"backoff.jitter": 2},
        {"tool": "a tool"},
        {"tool": ""},
        {"version": ""},
        {"redact.show": ["amount"]},
        {"http.external_id": "id"},
        {"http.method": "GET"},
        {"http.headers": {"Authorization": "Bearer abc"}},
        {"http.headers": {"X-Api-Key": "abc"}},
        {"http.headers": {"A": "1", "a": "2"}},
        {"http.headers": {"Host": "x.example"}},
        {"http.headers": {"X-A": "line\nbreak"}},
        {"http.headers": {"X A": "b"}},
        {"http.headers": {"Authorization": {"secret": "../etc"}}},
        {"http.headers": {"Authorization": {"secret": ""}}},
        {"http.key_header": "Bad Header"},
        {"http.meaning": {"2xx": "ok"}},
        {"http.meaning": {"200 OK": "committed"}},
        {"http.meaning": {"1xx": "committed"}},
        {"http.meaning": {"429": "not_executed"}},
        {"http.meaning": {"2xx": "committed", "5xx": "rejected"}},
        {"http.meaning": {"2xx": "committed", "409/x": "rejected"}},
        {"probe.consistency": "maybe"},
        {"probe.absent": ["500"]},
        {"arguments": {"type": "objekt"}},
        {"arguments": {"type": "object", "$ref": "https://x.example/schema"}},
        {"arguments": {"type": "object", "properties": {"a": {"$ref": "file:///x"}}}},
        {"arguments": {"type": "object", "maximum": 2**60}},
        {
            "arguments": {
                "type": "object",
                "$schema": "http://json-schema.org/draft-07/schema#",
            }
        },
        {"arguments": REMOVED},
        {"attempt_timeout": REMOVED},
        {"sql": {"statement": "x", "function": "a:b"}},
        {"sql": {}},
    ],
    ids=repr,
)
def test_malformed_field_is_refused(changes: dict[str, Any]) -> None:
    assert reasons(changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        UNSAFE,
        TRANSACTIONAL,
        {"lease": "11s"},
        {"key_retention": "41001ms", "short_horizon": True},
        {"key_generations": 2},
        {"key_generations": 2, "key_records": "commits"},
        {"safety": "reconcilable", "key_retention": REMOVED},
        {"safety": "reconcilable", "probe.consistency": "eventual"},
        {"key_records": "successes", "probe": REMOVED},
        {"http.key_header": "", "http.key_body": "/meta/key"},
        {"http.key_header": "", "http.url": "https://x.example/c/{downstream_key}"},
        {"http.method": "PUT"},
        {"http.url": "http://127.0.0.1:8080/{arguments.currency}?n={arguments.amount}"},
        {
            "http.base_url": {"secret": "a/b"},
            "http.url": "/c",
            "probe.url": "/c?r={downstream_key}",
        },
        {"key_format": "uuid", "key_max_length": 38},
        {"http.headers": {"Authorization": {"secret": "a", "prefix": "Bearer "}}},
        {"http.headers": {"Content-Type": "application/vnd.api+json"}},
        {"adapter": "my.module:Adapter", "http": REMOVED, "options": {"a": [1, 2.5]}},
        {"adapter": "simulated", "http": REMOVED, "probe": {"consistency": "strong"}},
        {"attempt_timeout": timedelta(seconds=5)},
        {"key_retention": "1d12h30m"},
        {"http.meaning": {"2xx": "committed", "503": "not_executed"}},
    ],
    ids=repr,
)
def test_honest_contract_loads_and_survives_its_document(changes: dict[str, Any]) -> None:
    loaded = EffectContract.model_validate(changed(changes))
    again = EffectContract.from_document(loaded.document())
    assert again == loaded
    assert again.document() == loaded.document()
    assert again.digest() == loaded.digest()


def test_design_example_means_what_it_says() -> None:
    payments = contract()
    assert payments.safety is SafetyClass.IDEMPOTENT
    assert payments.attempt_timeout == timedelta(seconds=10)
    assert payments.key_retention == timedelta(hours=24)
    assert payments.key_records is KeyRecords.ALL_ANSWERS
    assert payments.listing is None
    assert payments.sandbox is None
    assert payments.output is None
    assert payments.http is not None
    assert payments.http.target_enforces_deadline is None
    assert payments.redispatches_under_key
    assert payments.probe is not None
    assert payments.probe.strongly_consistent


def test_silence_about_key_records_is_read_carefully() -> None:
    assert contract(key_records=REMOVED).key_records is KeyRecords.SUCCESSES
    assert not contract(key_records=REMOVED).redispatches_under_key


@pytest.mark.parametrize("safety", [s for s in SafetyClass if s != "idempotent"])
def test_only_an_idempotent_contract_redispatches_under_its_key(safety: str) -> None:
    tables: dict[str, dict[str, Any]] = {
        "unsafe": UNSAFE,
        "transactional": TRANSACTIONAL,
        "reconcilable": {"safety": "reconcilable"},
    }
    assert not EffectContract.model_validate(
        changed(tables[safety])
    ).redispatches_under_key


def test_guarantee_of_an_eventual_lookup_promises_no_requeue() -> None:
    strong = contract(safety="reconcilable").guarantee
    eventual = contract(safety="reconcilable", probe__consistency="eventual").guarantee
    assert "Converges to one effect" in strong
    assert "Never sent again" in eventual


def test_no_guarantee_claims_exactly_once_without_a_condition() -> None:
    unsafe = EffectContract.model_validate(changed(UNSAFE)).guarantee
    assert "may be missing" in unsafe
    assert "xactly" not in unsafe


def test_document_leaves_defaults_out_and_spells_durations_one_way() -> None:
    one = contract(attempt_timeout="10s", retry_limit=5)
    other = contract(attempt_timeout="10000ms", retry_limit=REMOVED)
    assert one.document() == other.document()
    assert b"retry_limit" not in one.document()


def test_document_changes_with_every_claim() -> None:
    assert contract(key_records="commits").digest() != contract().digest()
    assert contract(http__account="acct_other").digest() != contract().digest()


def test_defaults_stay_what_pinned_documents_rely_on() -> None:
    defaults = {
        name: field.get_default(call_default_factory=True)
        for name, field in EffectContract.model_fields.items()
        if not field.is_required()
    }
    assert {
        name: str(value)
        for name, value in defaults.items()
        if value is not None and name not in {"backoff", "redact", "options"}
    } == {
        "description": "",
        "lease": "0:00:30",
        "retry_limit": "5",
        "submit_deadline": "1:00:00",
        "short_horizon": "False",
        "probe_gap": "0:00:00",
        "redispatch_limit": "3",
        "key_records": "successes",
        "key_generations": "1",
        "requeue_after_operator_proof": "False",
        "unknown_alert_after": "0:05:00",
        "unknown_review_after": "1 day, 0:00:00",
        "non_intent_fields": "()",
        "key_format": "base64url",
        "key_max_length": "255",
        "key_quoted": "False",
    }
    assert defaults["backoff"].model_dump(mode="json") == {
        "initial": "1s",
        "factor": 2.0,
        "max": "300s",
        "jitter": 0.2,
    }


def test_pinned_document_loads_though_a_rule_would_refuse_it_today() -> None:
    strict = reasons({}, clock_margin=timedelta(seconds=25))
    assert any("lease" in reason for reason in strict)
    assert EffectContract.from_document(contract().document()) == contract()
    broken = contract().document().replace(b'"86400s"', b'"1s"')
    assert EffectContract.from_document(broken).key_retention == timedelta(seconds=1)


def test_pinned_document_with_an_unknown_field_is_refused() -> None:
    newer = contract().document().replace(b'{"adapter"', b'{"aaa":1,"adapter"')
    with pytest.raises(ValidationError):
        EffectContract.from_document(newer)


def test_contract_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        contract().safety = SafetyClass.UNSAFE  # type: ignore[misc]


@pytest.mark.parametrize(
    ("status", "code", "meaning"),
    [
        (200, None, Meaning.COMMITTED),
        (201, "anything", Meaning.COMMITTED),
        (202, None, Meaning.IN_PROGRESS),
        (409, "in_use", Meaning.IN_PROGRESS),
        (409, "reused", Meaning.KEY_CONFLICT),
        (409, None, Meaning.REJECTED),
        (409, "other", Meaning.REJECTED),
        (429, None, Meaning.NOT_EXECUTED),
        (422, "card_declined", Meaning.REJECTED_FINAL),
        (418, "card_declined", Meaning.REJECTED_FINAL),
        (400, None, None),
        (408, None, None),
        (302, None, None),
        (500, None, None),
        (503, "in_use", None),
    ],
)
def test_meaning_is_the_most_specific_entry_and_else_ambiguous(
    status: int, code: str | None, meaning: Meaning | None
) -> None:
    http = contract(
        http__meaning={
            "code": "/error/code",
            "2xx": "committed",
            "202": "in_progress",
            "409": "rejected",
            "409/in_use": "in_progress",
            "409/reused": "key_conflict",
            "4xx/card_declined": "rejected_final",
            "429": "not_executed",
        }
    ).http
    assert http is not None
    assert http.meaning.of(status, code) is meaning


def test_arguments_are_refused_with_places_and_without_values() -> None:
    with pytest.raises(InvalidArguments) as refused:
        contract().check_arguments({"amount": 0, "currency": 4242})
    assert {pointer.split(":")[0] for pointer in refused.value.pointers} == {
        "/amount",
        "/currency",
    }
    assert "4242" not in refused.value.message + "".join(refused.value.pointers)


def test_missing_argument_is_refused() -> None:
    with pytest.raises(InvalidArguments):
        contract().check_arguments({"amount": 1})


@pytest.mark.parametrize("value", ["", ".", ".."])
def test_argument_that_would_name_another_resource_is_refused(value: str) -> None:
    addressed = contract(http__url="https://x.example/c/{arguments.currency}/charges")
    addressed.check_arguments({"amount": 1, "currency": "EUR"})
    with pytest.raises(InvalidArguments):
        addressed.check_arguments({"amount": 1, "currency": value})


def test_caller_cannot_take_the_place_of_the_key() -> None:
    keyed = contract(http__key_header="", http__key_body="/meta/key")
    keyed.check_arguments({"amount": 1, "currency": "EUR", "meta": {"a": 1}})
    with pytest.raises(InvalidArguments):
        keyed.check_arguments({"amount": 1, "currency": "EUR", "meta": {"key": "x"}})


@pytest.mark.parametrize("meta", [[], ["a"], "text", None, 7])
def test_arguments_that_leave_the_key_no_place_are_refused(meta: Any) -> None:
    keyed = contract(http__key_header="", http__key_body="/meta/key")
    with pytest.raises(InvalidArguments) as refused:
        keyed.check_arguments({"amount": 1, "currency": "EUR", "meta": meta})
    assert refused.value.pointers == ("/meta/key",)


def test_schema_is_never_fetched_from_elsewhere() -> None:
    local = contract(
        arguments={
            "type": "object",
            "$defs": {"n": {"type": "integer"}},
            "properties": {
                "amount": {"$ref": "#/$defs/n"},
                "currency": {"type": "string"},
            },
        }
    )
    with pytest.raises(InvalidArguments):
        local.check_arguments({"amount": "x"})
