from __future__ import annotations

import json
from pathlib import Path

import pytest

from effect_broker.domain.errors import SecretNotFound
from effect_broker.secrets import CachedSecrets, EnvironmentSecrets, FileSecrets
from tests.integration.adapters.given import GivenSecrets, ManualClock


async def test_name_becomes_a_variable() -> None:
    environment = {"EFFECT_BROKER_SECRET__PAYMENTS__TOKEN_2": "v"}
    secrets = EnvironmentSecrets(environment)
    assert await secrets.secret("payments/token-2") == "v"
    with pytest.raises(SecretNotFound, match="EFFECT_BROKER_SECRET__PAYMENTS__OTHER"):
        await secrets.secret("payments/other")


async def test_empty_variable_counts_as_absent() -> None:
    with pytest.raises(SecretNotFound):
        await EnvironmentSecrets({"EFFECT_BROKER_SECRET__A": ""}).secret("a")


async def test_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({"payments/token": "old"}))
    secrets = FileSecrets(path)
    assert await secrets.secret("payments/token") == "old"
    path.write_text(json.dumps({"payments/token": "new"}))
    assert await secrets.secret("payments/token") == "new"


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": ""}', '{"b": "CANARY"}'])
async def test_file_without_the_text_names_only_the_reference(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "secrets.json"
    path.write_text(text)
    with pytest.raises(SecretNotFound, match=r"The secret a .*secrets\.json") as caught:
        await FileSecrets(path).secret("a")
    assert "CANARY" not in str(caught.value)


async def test_missing_file_is_a_missing_secret(tmp_path: Path) -> None:
    with pytest.raises(SecretNotFound, match="FileNotFoundError"):
        await FileSecrets(tmp_path / "none.json").secret("a")


async def test_cache_asks_once_and_sees_a_rotation_after_its_time() -> None:
    clock, source = ManualClock(), GivenSecrets(a="old")
    cached = CachedSecrets(source, clock, seconds=60.0)
    assert [await cached.secret("a") for _ in range(3)] == ["old"] * 3
    source.values["a"] = "new"
    clock.advance(59.9)
    assert await cached.secret("a") == "old"
    clock.advance(0.1)
    assert await cached.secret("a") == "new"
    assert source.asked == ["a", "a"]


async def test_cache_keeps_neither_failures_nor_what_has_vanished() -> None:
    clock, source = ManualClock(), GivenSecrets()
    cached = CachedSecrets(source, clock, seconds=60.0)
    with pytest.raises(SecretNotFound):
        await cached.secret("a")
    source.values["a"] = "v"
    assert await cached.secret("a") == "v"
    del source.values["a"]
    clock.advance(60.0)
    with pytest.raises(SecretNotFound):
        await cached.secret("a")
