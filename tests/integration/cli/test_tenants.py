"""Tenants and keys from the shell: made, listed, rotated with an overlap, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest

from effect_broker.domain.errors import Unauthenticated
from effect_broker.ledger.connection import Connections
from effect_broker.ledger.registry import PostgresRegistry
from effect_broker.surfaces.auth import Authenticator
from tests.integration.cli.commands import Commands

T = TypeVar("T")


def registered(url: str, use: Callable[[PostgresRegistry], Awaitable[T]]) -> T:
    async def run() -> T:
        connections = Connections(url)
        try:
            return await use(PostgresRegistry(connections))
        finally:
            await connections.close()

    return asyncio.run(run())


def opens(url: str, key: str) -> bool:
    """Say whether a key opens a process that has just started."""

    async def asked(registry: PostgresRegistry) -> bool:
        try:
            await Authenticator(registry).authenticate(f"Bearer {key}")
        except Unauthenticated:
            return False
        return True

    return registered(url, asked)


@pytest.fixture
def acme(commands: Commands) -> Commands:
    commands.run("tenants", "create", "acme", "--name", "Acme")
    return commands


def test_tenants_are_listed_for_people_and_for_programs(acme: Commands) -> None:
    (row,) = acme.lines("tenants", "list", "--json")
    assert (row["slug"], row["name"], row["disabled"]) == ("acme", "Acme", False)
    printed = acme.text("tenants", "list")
    assert "hmac key id" in printed
    assert row["tenant_id"] in printed


def test_no_tenant_says_how_to_make_one(commands: Commands) -> None:
    assert "tenants create" in commands.text("tenants", "list")
    assert commands.lines("tenants", "list", "--json") == []
    assert "keys create" in commands.text("keys", "list")


def test_disabled_tenants_keys_open_nothing_until_it_is_enabled(acme: Commands) -> None:
    key = acme.line("keys", "create", "acme", "--scope", "read")["key"]
    assert opens(acme.url, key)
    assert acme.line("tenants", "disable", "acme")["disabled"] is True
    assert not opens(acme.url, key)
    (row,) = acme.lines("keys", "list", "--json")
    assert row["state"] == "tenant_disabled"
    assert acme.line("tenants", "enable", "acme")["disabled"] is False
    assert opens(acme.url, key)


def test_rotated_key_opens_beside_its_successor_and_keeps_its_scopes(
    acme: Commands,
) -> None:
    old = acme.line("keys", "create", "acme", "--scope", "read", "--scope", "submit")
    new = acme.line("keys", "rotate", old["key_id"], "--overlap", "1h")
    assert opens(acme.url, old["key"])
    assert opens(acme.url, new["key"])
    left = datetime.fromisoformat(new["old_key_ends_at"]) - datetime.now(UTC)
    assert timedelta(minutes=55) < left <= timedelta(hours=1)
    listed = {row["key_id"]: row for row in acme.lines("keys", "list", "--json")}
    assert listed[new["key_id"]]["scopes"] == listed[old["key_id"]]["scopes"]
    assert listed[new["key_id"]]["ends_at"] is None
    assert listed[old["key_id"]]["ends_at"] is not None


def test_rotation_without_an_overlap_ends_the_old_key_at_once(acme: Commands) -> None:
    old = acme.line("keys", "create", "acme", "--scope", "read")
    new = acme.line("keys", "rotate", old["key_id"], "--overlap", "0s")
    assert not opens(acme.url, old["key"])
    assert opens(acme.url, new["key"])


def test_key_ends_by_itself_or_when_it_is_revoked(acme: Commands) -> None:
    short = acme.line("keys", "create", "acme", "--scope", "read", "--expires-in", "0s")
    assert not opens(acme.url, short["key"])
    made = acme.line("keys", "create", "acme", "--scope", "read")
    assert acme.line("keys", "revoke", made["key_id"])["revoked"] is True
    assert not opens(acme.url, made["key"])
    states = {row["key_id"]: row["state"] for row in acme.lines("keys", "list", "--json")}
    assert states == {short["key_id"]: "expired", made["key_id"]: "revoked"}


def test_keys_of_one_tenant_are_listed_alone_and_never_with_a_secret(
    acme: Commands,
) -> None:
    acme.run("tenants", "create", "zoo")
    ours = acme.line("keys", "create", "acme", "--scope", "read")
    theirs = acme.line("keys", "create", "zoo", "--scope", "read")
    (row,) = acme.lines("keys", "list", "--tenant", "acme", "--json")
    assert row["key_id"] == ours["key_id"]
    printed = acme.text("keys", "list")
    for made in (ours, theirs):
        assert made["key_id"] in printed
        assert made["key"].split("_")[2] not in printed


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["keys", "list", "--tenant", "nobody"], 1, "no tenant"),
        (["keys", "rotate", "0" * 16], 1, "no live key"),
        (["keys", "revoke", "0" * 16], 1, "no key"),
        (["tenants", "disable", "nobody"], 1, "no tenant"),
        (["keys", "rotate", "0" * 16, "--overlap", "5"], 2, "duration"),
    ],
)
def test_refusal_is_a_line_and_a_status(
    acme: Commands, arguments: list[str], status: int, said: str
) -> None:
    assert said in acme.text(*arguments, status=status)
