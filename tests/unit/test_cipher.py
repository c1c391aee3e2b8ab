from __future__ import annotations

import base64
import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from effect_broker.cipher import AesGcmCipher, Keyring
from effect_broker.domain.errors import CipherError
from effect_broker.ports import Cipher, KeyDeriver

TENANT, EFFECT = uuid4(), uuid4()


def encoded(byte: int, length: int = 32) -> str:
    return base64.b64encode(bytes([byte]) * length).decode()


def keyring(**changes: Any) -> str:
    fields: dict[str, Any] = {
        "data_keys": {"k1": encoded(1), "k2": encoded(2)},
        "active_data_key": "k1",
        "hmac_keys": {"h1": encoded(3), "h2": encoded(4)},
    }
    return json.dumps(fields | changes)


def cipher(**changes: Any) -> AesGcmCipher:
    return AesGcmCipher(Keyring.from_json(keyring(**changes)))


def opened(
    with_: Cipher,
    ciphertext: bytes,
    key_id: str = "k1",
    *,
    tenant_id: UUID = TENANT,
    effect_id: UUID = EFFECT,
    column: str = "arguments",
) -> bytes:
    return with_.open(
        ciphertext, key_id=key_id, tenant_id=tenant_id, effect_id=effect_id, column=column
    )


def sealed(with_: Cipher, plaintext: bytes = b"secret") -> bytes:
    return with_.seal(
        plaintext, tenant_id=TENANT, effect_id=EFFECT, column="arguments"
    ).ciphertext


@pytest.mark.parametrize("plaintext", [b"", b"x", b"\x00" * 100_000])
def test_what_was_sealed_opens_in_its_place(plaintext: bytes) -> None:
    box = cipher()
    result = box.seal(plaintext, tenant_id=TENANT, effect_id=EFFECT, column="result")
    assert result.key_id == "k1"
    assert opened(box, result.ciphertext, column="result") == plaintext


def test_ciphertext_hides_the_plaintext_and_never_repeats() -> None:
    box = cipher()
    texts = {sealed(box, b"canary-canary-canary") for _ in range(100)}
    assert len(texts) == 100
    assert not any(b"canary" in text for text in texts)


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"tenant_id": uuid4()},
        {"effect_id": uuid4()},
        {"column": "result"},
        {"key_id": "k2"},
    ],
    ids=lambda place: next(iter(place)),
)
def test_moved_ciphertext_does_not_open(elsewhere: dict[str, Any]) -> None:
    box = cipher()
    with pytest.raises(CipherError):
        opened(box, sealed(box), **elsewhere)


def test_each_changed_byte_is_found() -> None:
    box = cipher()
    text = sealed(box)
    for position in range(len(text)):
        damaged = bytearray(text)
        damaged[position] ^= 1
        with pytest.raises(CipherError):
            opened(box, bytes(damaged))


@pytest.mark.parametrize("length", [0, 1, 12, 13, 28])
def test_cut_ciphertext_does_not_open(length: int) -> None:
    box = cipher()
    with pytest.raises(CipherError):
        opened(box, sealed(box)[:length])


def test_rotation_seals_anew_and_still_opens_the_old() -> None:
    old = sealed(cipher())
    rotated = cipher(active_data_key="k2")
    assert (
        rotated.seal(b"", tenant_id=TENANT, effect_id=EFFECT, column="c").key_id == "k2"
    )
    assert opened(rotated, old) == b"secret"


def test_dropped_key_is_named_and_opens_nothing() -> None:
    old = sealed(cipher())
    without = cipher(data_keys={"k2": encoded(2)}, active_data_key="k2")
    with pytest.raises(CipherError, match="k1"):
        opened(without, old)


def test_lost_keys_are_found_before_they_are_missed() -> None:
    ring = Keyring.from_json(keyring())
    assert ring.missing(data_key_ids=["k1", "k0"], hmac_key_ids=["h2", "h9"]) == {
        "k0",
        "h9",
    }
    assert ring.missing(data_key_ids=["k1"], hmac_key_ids=["h1"]) == frozenset()


def test_mac_follows_its_key_and_nothing_else() -> None:
    deriver: KeyDeriver = cipher()
    assert deriver.mac("h1", b"m") == cipher(active_data_key="k2").mac("h1", b"m")
    assert deriver.mac("h1", b"m") != deriver.mac("h2", b"m")
    with pytest.raises(CipherError, match="h3"):
        deriver.mac("h3", b"m")


@pytest.mark.parametrize(
    "changes",
    [
        {"active_data_key": "k3"},
        {"active_data_key": None},
        {"active_data_key": ["k1"]},
        {"data_keys": {}},
        {"data_keys": {"k1": encoded(1, 16)}},
        {"data_keys": {"k1": encoded(1, 33)}},
        {"data_keys": {"k1": "not base64!"}},
        {"data_keys": {"k1": None}},
        {"data_keys": ["k1"]},
        {"data_keys": {"bad id": encoded(1)}},
        {"hmac_keys": {}},
        {"hmac_keys": {"h1": encoded(1, 31)}},
        {"hmac_key": {}},
    ],
    ids=repr,
)
def test_broken_keyring_is_refused_and_shows_no_key(changes: dict[str, Any]) -> None:
    with pytest.raises(CipherError) as refused:
        Keyring.from_json(keyring(**changes))
    assert encoded(1)[:8] not in refused.value.message


@pytest.mark.parametrize("text", ["", "[]", "nonsense", "{}", '"k1"'])
def test_what_is_no_keyring_is_refused(text: str) -> None:
    with pytest.raises(CipherError):
        Keyring.from_json(text)


def test_keyring_shows_no_key_material() -> None:
    shown = repr(Keyring.from_json(keyring()))
    assert "active_data_key='k1'" in shown
    assert "\\x01" not in shown
    assert encoded(1) not in shown
