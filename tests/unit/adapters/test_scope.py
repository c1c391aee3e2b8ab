"""What makes a target the same target."""

from __future__ import annotations

from typing import Any

import pytest

from effect_broker.adapters.http_target import digest_of, resolve_target
from effect_broker.domain.errors import ContractInvalid, SecretNotFound
from tests.integration.adapters.given import GivenSecrets, contract

TOKEN = {"Authorization": {"secret": "token"}}


async def scope(secrets: GivenSecrets | None = None, **http: Any) -> bytes:
    made = contract(http={"headers": TOKEN} | http)
    return (await resolve_target(made, secrets or GivenSecrets(token="t"))).scope


async def test_scope_is_stable() -> None:
    assert await scope() == await scope()


@pytest.mark.parametrize(
    "http",
    [
        {"url": "https://other.example/v1/charges"},
        {"url": "https://payments.example:8443/v1/charges"},
        {"url": "http://payments.example/v1/charges"},
        {"account": "acct_1"},
        {"mode": "live"},
    ],
)
async def test_other_host_account_or_mode_is_another_scope(http: dict[str, Any]) -> None:
    assert await scope(**http) != await scope()


async def test_account_and_mode_are_not_confused() -> None:
    assert await scope(account="live") != await scope(mode="live")


@pytest.mark.parametrize("account", [None, "acct_1"])
async def test_other_credential_is_another_scope_unless_rotation_is_declared(
    account: str | None,
) -> None:
    first = await scope(GivenSecrets(token="a"), account=account)
    assert await scope(GivenSecrets(token="b"), account=account) != first


async def test_rotation_without_an_account_declares_nothing() -> None:
    first = await scope(GivenSecrets(token="a"), rotates=True)
    assert await scope(GivenSecrets(token="b"), rotates=True) != first


async def test_base_url_from_a_secret_is_part_of_the_scope() -> None:
    http = {"url": "/v1/charges", "base_url": {"secret": "base"}, "rotates": True}
    http |= {"account": "acct_1"}
    one = GivenSecrets(token="t", base="https://a.example")
    same = GivenSecrets(token="t", base="https://a.example/")
    other = GivenSecrets(token="t", base="https://b.example")
    assert await scope(one, **http) == await scope(same, **http)
    assert await scope(one, **http) != await scope(other, **http)


async def test_base_url_that_is_none_is_refused_without_being_shown() -> None:
    http = {"url": "/v1/charges", "base_url": {"secret": "base"}}
    with pytest.raises(ContractInvalid) as refused:
        await scope(GivenSecrets(token="t", base="ftp://CANARY"), **http)
    assert "CANARY" not in refused.value.message


async def test_missing_secret_is_named() -> None:
    with pytest.raises(SecretNotFound, match="token"):
        await scope(GivenSecrets())


def test_digest_does_not_depend_on_where_texts_are_split() -> None:
    assert digest_of("ab", "c") != digest_of("a", "bc")
    assert digest_of("a", "") != digest_of("a")
