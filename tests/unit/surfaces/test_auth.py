from __future__ import annotations

import hashlib
import hmac

import pytest

from effect_broker.domain.errors import Forbidden, InvalidRequest, Unauthenticated
from effect_broker.ports import Credential
from effect_broker.surfaces import auth
from effect_broker.surfaces.auth import Authenticator, check_scopes, new_api_key, require
from tests.unit.surfaces.keys import TENANT, KeyStore


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store() -> KeyStore:
    return KeyStore()


@pytest.fixture
def authenticator(store: KeyStore, clock: Clock) -> Authenticator:
    return Authenticator(store, monotonic=clock)


def test_new_keys_are_random_and_only_their_digest_is_for_storing() -> None:
    first, second = new_api_key(), new_api_key()
    assert first.key != second.key
    assert first.key_id != second.key_id
    prefix, key_id, secret = first.key.split("_")
    assert (prefix, key_id) == ("ebk", first.key_id)
    assert len(bytes.fromhex(secret)) * 8 == 256
    assert first.secret_hash == hashlib.sha256(secret.encode()).digest()


async def test_good_key_proves_its_tenant(
    authenticator: Authenticator, store: KeyStore
) -> None:
    key = store.add("submit", "read")
    credential = await authenticator.authenticate(f"Bearer {key}")
    assert credential.tenant_id == TENANT
    assert credential.scopes == {"submit", "read"}


async def test_use_of_a_key_is_noted_once_an_hour(
    authenticator: Authenticator, store: KeyStore, clock: Clock
) -> None:
    key = store.add("submit")
    for _ in range(3):
        await authenticator.authenticate(f"Bearer {key}")
        clock.now += auth.VERIFIED_SECONDS
    assert len(store.asked) == 3
    assert store.noted == [key.split("_")[1]]
    clock.now += auth.NOTED_SECONDS
    await authenticator.authenticate(f"Bearer {key}")
    assert len(store.noted) == 2


async def test_refused_key_is_noted_nowhere(
    authenticator: Authenticator, store: KeyStore
) -> None:
    key = store.add("submit")
    wrong = key[:-1] + ("0" if key[-1] != "0" else "1")
    with pytest.raises(Unauthenticated):
        await authenticator.authenticate(f"Bearer {wrong}")
    assert (store.noted, store.written) == ([], [])


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        "Bearer ebk_short_secret",
        "Bearer ebk_0123456789abcdef_",
        "Bearer " + "x" * 10_000,
        "Bearer ebk_0123456789abcdef_" + "é" * 64,
    ],
)
async def test_malformed_credentials_are_refused_alike_and_ask_nobody(
    authenticator: Authenticator, store: KeyStore, header: str | None
) -> None:
    with pytest.raises(Unauthenticated) as refused:
        await authenticator.authenticate(header)
    with pytest.raises(Unauthenticated) as unknown:
        await authenticator.authenticate(f"Bearer {new_api_key().key}")
    assert refused.value.message == unknown.value.message
    assert len(store.asked) == 1


async def test_unknown_and_wrong_keys_cost_the_same_look_up_and_comparison(
    authenticator: Authenticator, store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def counting(left: bytes, right: bytes) -> bool:
        compared.append((len(left), len(right)))
        return bool(real(left, right))

    monkeypatch.setattr("effect_broker.surfaces.auth.hmac.compare_digest", counting)
    known = store.add("read").split("_")[1]
    wrong = f"ebk_{known}_{new_api_key().key.split('_')[2]}"
    for key in (wrong, new_api_key().key):
        with pytest.raises(Unauthenticated):
            await authenticator.authenticate(f"Bearer {key}")
    assert compared == [(32, 32), (32, 32)]
    assert len(store.asked) == 2


async def test_authentication_writes_nothing(
    authenticator: Authenticator, store: KeyStore
) -> None:
    await authenticator.authenticate(f"Bearer {store.add('read')}")
    with pytest.raises(Unauthenticated):
        await authenticator.authenticate(f"Bearer {new_api_key().key}")
    assert store.written == []


async def test_revocation_reaches_a_warm_process_within_its_stated_bound(
    authenticator: Authenticator, store: KeyStore, clock: Clock
) -> None:
    key = store.add("read")
    await authenticator.authenticate(f"Bearer {key}")
    store.forget(key)
    clock.now += auth.VERIFIED_SECONDS - 0.01
    await authenticator.authenticate(f"Bearer {key}")
    clock.now += 0.01
    with pytest.raises(Unauthenticated):
        await authenticator.authenticate(f"Bearer {key}")


async def test_refused_key_is_asked_for_each_time_so_that_it_works_once_it_exists(
    authenticator: Authenticator, store: KeyStore
) -> None:
    key = store.add("read")
    store.forget(key)
    with pytest.raises(Unauthenticated):
        await authenticator.authenticate(f"Bearer {key}")
    store.restore(key)
    await authenticator.authenticate(f"Bearer {key}")


async def test_believed_key_does_not_vouch_for_another_secret_of_its_id(
    authenticator: Authenticator, store: KeyStore
) -> None:
    key = store.add("read")
    await authenticator.authenticate(f"Bearer {key}")
    forged = key[:-1] + ("0" if key[-1] != "0" else "1")
    with pytest.raises(Unauthenticated):
        await authenticator.authenticate(f"Bearer {forged}")


@pytest.mark.parametrize(
    ("held", "wanted", "allowed"),
    [
        ({"submit"}, ("submit",), True),
        ({"submit"}, ("read",), False),
        ({"submit", "read"}, ("operate",), False),
        ({"operate"}, ("read",), True),
        ({"operate"}, ("submit",), False),
        ({"submit"}, ("read", "submit"), True),
        (set(), ("read",), False),
    ],
)
def test_scopes_allow_what_they_name_and_operating_includes_reading(
    held: set[str], wanted: tuple[str, ...], allowed: bool
) -> None:
    credential = Credential("k", TENANT, "acme", frozenset(held))
    if allowed:
        require(credential, *wanted)
        return
    with pytest.raises(Forbidden) as refused:
        require(credential, *wanted)
    assert refused.value.scope == wanted[0]


@pytest.mark.parametrize("scopes", [[], ["admin"], ["read", "admin"]])
def test_key_without_known_scopes_is_not_made(scopes: list[str]) -> None:
    with pytest.raises(InvalidRequest):
        check_scopes(scopes)
