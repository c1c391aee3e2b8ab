from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import boto3
import pytest
from moto import mock_aws

from effect_broker.aws.secrets import SecretsManagerSecrets
from effect_broker.domain.errors import SecretNotFound

if TYPE_CHECKING:
    from types_boto3_secretsmanager import SecretsManagerClient


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[SecretsManagerClient]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        yield boto3.client("secretsmanager")


async def test_secret_is_read_below_the_prefix(manager: SecretsManagerClient) -> None:
    manager.create_secret(Name="prod/payments/token", SecretString="old")
    secrets = SecretsManagerSecrets("prod/")
    assert await secrets.secret("payments/token") == "old"
    manager.put_secret_value(SecretId="prod/payments/token", SecretString="new")
    assert await secrets.secret("payments/token") == "new"


async def test_missing_secret_names_the_reference_and_the_code(
    manager: SecretsManagerClient,
) -> None:
    with pytest.raises(SecretNotFound, match=r"payments/token .*ResourceNotFound"):
        await SecretsManagerSecrets("prod/").secret("payments/token")


async def test_binary_secret_is_no_text(manager: SecretsManagerClient) -> None:
    manager.create_secret(Name="b", SecretBinary=b"\x00")
    with pytest.raises(SecretNotFound, match="holds no text"):
        await SecretsManagerSecrets().secret("b")


async def test_unconfigured_client_is_a_missing_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(SecretNotFound, match="NoRegionError"):
        await SecretsManagerSecrets().secret("a")
