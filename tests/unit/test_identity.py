from __future__ import annotations

import hashlib
import hmac
import re
from typing import Any
from uuid import UUID

import pytest

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import InvalidJson, InvalidOperationKey
from effect_broker.domain.identity import (
    check_operation_key,
    differing_fields,
    downstream_key,
    request_hash,
    sub_key,
)
from tests.unit.test_contract import contract

TENANT = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
ALPHABET = {
    "base64url": re.compile(r"[A-Za-z0-9_-]{43}"),
    "hex": re.compile(r"[0-9a-f]{64}"),
    "uuid": re.compile(
        r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    ),
}


class Deriver:
    def __init__(self) -> None:
        self.messages: list[bytes] = []

    def mac(self, hmac_key_id: str, message: bytes) -> bytes:
        self.messages.append(message)
        return hmac.digest(hmac_key_id.encode() * 32, message, "sha256")


def key_of(
    operation_key: str,
    terms: EffectContract | None = None,
    *,
    tenant: UUID = TENANT,
    generation: int = 1,
) -> str:
    return downstream_key(
        Deriver(), "h1", tenant, operation_key, terms or contract(), generation
    )


@pytest.mark.parametrize(
    "key",
    [
        "a",
        "1",
        "order:ord_123:charge:v1",
        "agent-run:run_789:step:refund_03",
        "A b~!@#$%^&*()+=[]|;,.?/",
        "a" * 255,
        "none-such",
        "undefined-behaviour",
        "order:nullable",
        "test",
    ],
)
def test_documented_keys_are_accepted_as_they_are(key: str) -> None:
    assert check_operation_key(key) == key


@pytest.mark.parametrize(
    "key",
    [
        "",
        " ",
        "a ",
        " a",
        "\ta",
        "a\n",
        "a\nb",
        "a\x00b",
        "a\x7f",
        "\u0410",
        "caf\u00e9",
        "\U0001f600",
        "\ud800",
        "a\u00a0b",
        "a" * 256,
        "null",
        "NULL",
        "None",
        "undefined",
        "string",
        "operation_key",
        "---",
        "{operation_key}",
        "order:{order_id}:charge",
        "order:${order_id}",
        "<order_id>",
        "order:%(id)s",
        "order:None:charge:v1",
        "order:undefined:charge",
        "order/null/charge",
        "[object Object]",
        None,
        1,
        b"bytes",
        ["a"],
    ],
    ids=repr,
)
def test_every_other_key_is_refused_without_an_echo(key: Any) -> None:
    with pytest.raises(InvalidOperationKey) as refused:
        check_operation_key(key)
    if isinstance(key, str) and len(key) > 20:
        assert key not in refused.value.message


def test_accepted_keys_are_distinct_identities() -> None:
    keys = ["a", "A", "a b", "a  b", "a:b", "a/b", "a%20b"]
    assert len({key_of(check_operation_key(key)) for key in keys}) == len(keys)


def test_request_hash_does_not_depend_on_how_the_payload_was_written() -> None:
    one = request_hash("t", {"a": 1, "b": [2.0]}, "c", "1")
    assert one == request_hash("t", {"b": [2], "a": 1.0}, "c", "1")


@pytest.mark.parametrize(
    "other",
    [
        ("u", {"a": 1}, "c", "1"),
        ("t", {"a": 2}, "c", "1"),
        ("t", {"a": "1"}, "c", "1"),
        ("t", {"a": True}, "c", "1"),
        ("t", {"a": 1, "b": None}, "c", "1"),
        ("t", {"a": 1}, "d", "1"),
        ("t", {"a": 1}, "c", "2"),
    ],
)
def test_request_hash_differs_with_anything_that_was_meant(other: Any) -> None:
    assert request_hash(*other) != request_hash("t", {"a": 1}, "c", "1")


def test_accents_in_two_forms_are_two_payloads() -> None:
    composed = request_hash("t", {"a": "\u00e9"}, "c", "1")
    assert composed != request_hash("t", {"a": "e\u0301"}, "c", "1")


def test_fields_outside_the_intent_are_outside_the_hash() -> None:
    hashed = [
        request_hash("t", {"a": 1, "reason": reason}, "c", "1", ("reason",))
        for reason in ("late", "too late")
    ]
    assert hashed[0] == hashed[1] == request_hash("t", {"a": 1}, "c", "1")
    assert hashed[0] != request_hash(
        "t", {"a": 2, "reason": "late"}, "c", "1", ("reason",)
    )


def test_identical_retry_after_a_deploy_has_the_pinned_hash() -> None:
    stored = request_hash("t", {"a": 1}, "charge", "v1")
    assert request_hash("t", {"a": 1.0}, "charge", "v1") == stored
    assert request_hash("t", {"a": 1}, "charge", "v2") != stored


def test_arguments_that_are_no_json_have_no_hash() -> None:
    with pytest.raises(InvalidJson):
        request_hash("t", {"a": {1, 2}}, "c", "1")


def test_downstream_key_is_the_documented_mac() -> None:
    deriver = Deriver()
    downstream_key(deriver, "h1", UUID(str(TENANT).upper()), "op", contract())
    downstream_key(deriver, "h1", TENANT, "op", contract(), 2)
    assert deriver.messages == [f"{TENANT}\0op".encode(), f"{TENANT}\0op\0{2}".encode()]


@pytest.mark.parametrize("key_format", list(ALPHABET))
def test_downstream_key_fits_its_format_and_never_collides(key_format: str) -> None:
    terms = contract(key_format=key_format)
    keys = [key_of(f"order:{number}", terms) for number in range(2_000)]
    assert all(ALPHABET[key_format].fullmatch(key) for key in keys)
    assert all(len(key) == terms.key_format.length for key in keys)
    assert len(set(keys)) == len(keys)


def test_uuid_form_fits_38_characters_is_stable_and_does_not_collide() -> None:
    terms = contract(key_format="uuid", key_max_length=38)
    assert len({key_of("order:1", terms) for _ in range(1_000)}) == 1
    keys = {key_of(f"order:{number}", terms) for number in range(100_000)}
    assert len(keys) == 100_000
    assert not any("=" in key for key in keys)


def test_downstream_key_differs_by_tenant_operation_and_generation() -> None:
    keys = {
        key_of("a"),
        key_of("b"),
        key_of("a", tenant=UUID(int=1)),
        key_of("a", generation=2),
        key_of("a", generation=3),
    }
    assert len(keys) == 5


def test_equal_arguments_under_two_keys_are_two_effects() -> None:
    assert key_of("refund:1") != key_of("refund:2")


def test_sub_keys_are_stable_distinct_and_in_format() -> None:
    terms = contract(key_format="uuid")
    stored = key_of("order:1", terms)
    create, capture = sub_key(stored, "create", terms), sub_key(stored, "capture", terms)
    assert (
        len({stored, create, capture, sub_key(key_of("b", terms), "create", terms)}) == 4
    )
    assert create == sub_key(stored, "create", terms)
    assert ALPHABET["uuid"].fullmatch(create)


@pytest.mark.parametrize("step", ["", " ", "a\0b", "a b", "x" * 200])
def test_sub_step_must_be_a_name(step: str) -> None:
    with pytest.raises(ValueError, match="sub-step"):
        sub_key("key", step, contract())


def test_differing_fields_are_named_and_equal_ones_are_not() -> None:
    stored = {"tool": "t", "arguments": {"a": 1, "b": "x", "c": None, "d": {"e": 1}}}
    new = {"tool": "u", "arguments": {"a": 1.0, "b": "y", "d": {"e": 2}, "f": 0}}
    assert differing_fields(stored, new) == ["tool", "b", "c", "d", "f"]
    assert differing_fields(stored, stored) == []


def test_a_hash_is_32_bytes_of_sha256() -> None:
    written = (
        b'{"arguments":{"a":1},"contract_name":"c","contract_version":"1","tool":"t"}'
    )
    assert request_hash("t", {"a": 1}, "c", "1") == hashlib.sha256(written).digest()
