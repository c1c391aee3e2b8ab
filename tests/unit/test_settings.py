from __future__ import annotations

from pathlib import Path

import pytest

from effect_broker.settings import Settings, SettingsInvalid

URL = {"EFFECT_BROKER_DATABASE_URL": "postgresql://user:canary@127.0.0.1/db"}


def test_defaults_are_local_and_only_the_database_is_required() -> None:
    settings = Settings.from_environment(URL)
    assert (settings.environment, settings.log_level, settings.secrets) == (
        "local",
        "INFO",
        "env",
    )
    assert settings.dispatch_queue_url is None
    with pytest.raises(SettingsInvalid, match="EFFECT_BROKER_DATABASE_URL"):
        Settings.from_environment({})


def test_everything_that_a_function_is_told_is_read() -> None:
    settings = Settings.from_environment(
        {
            "EFFECT_BROKER_ENVIRONMENT": "production",
            "EFFECT_BROKER_LOG_LEVEL": "warning",
            "EFFECT_BROKER_DATABASE_SECRET": "effect-broker/production/database",
            "EFFECT_BROKER_DATABASE_HOST": "proxy.example",
            "EFFECT_BROKER_KEYRING_SECRET": "effect-broker/production/keyring",
            "EFFECT_BROKER_SECRETS": "aws",
            "EFFECT_BROKER_SECRETS_PREFIX": "effect-broker/production/targets/",
            "EFFECT_BROKER_DISPATCH_QUEUE_URL": "https://sqs/dispatch",
            "EFFECT_BROKER_RECONCILE_QUEUE_URL": "https://sqs/reconcile",
            "EFFECT_BROKER_CONTRACTS": "/var/task/contracts",
        }
    )
    assert settings.log_level == "WARNING"
    assert settings.contracts == Path("/var/task/contracts")
    assert settings.secrets_prefix.endswith("targets/")


def test_way_in_of_the_application_is_named_once_and_shows_no_password() -> None:
    way_in = {"EFFECT_BROKER_APP_DATABASE_URL": "postgresql://app:canary@127.0.0.1/db"}
    settings = Settings.from_environment(URL | way_in)
    assert settings.app_database_url == way_in["EFFECT_BROKER_APP_DATABASE_URL"]
    assert "canary" not in repr(settings)
    both = URL | way_in | {"EFFECT_BROKER_APP_DATABASE_SECRET": "app"}
    with pytest.raises(SettingsInvalid, match="APP_DATABASE_SECRET are both set"):
        Settings.from_environment(both)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("20", (20.0, 20)), ("0.5", (0.5, 1)), ("20:100", (20.0, 100)), ("", None)],
)
def test_rate_is_a_second_and_at_once(text: str, rate: tuple[float, int] | None) -> None:
    told = Settings.from_environment(URL | {"EFFECT_BROKER_RATE_LIMIT": text})
    assert told.rate_limit == rate


def test_origins_are_a_list_that_is_empty_unless_told() -> None:
    assert Settings.from_environment(URL).cors_origins == ()
    origins = "https://console.example, http://127.0.0.1:8080"
    told = Settings.from_environment(URL | {"EFFECT_BROKER_CORS_ORIGINS": origins})
    assert told.cors_origins == ("https://console.example", "http://127.0.0.1:8080")


def test_secrets_never_stand_in_the_text_form() -> None:
    settings = Settings.from_environment(
        URL
        | {
            "EFFECT_BROKER_KEYRING": "canary",
            "EFFECT_BROKER_SECRET__PAYMENTS__TOKEN": "canary",
        }
    )
    assert settings.target_secrets == {"EFFECT_BROKER_SECRET__PAYMENTS__TOKEN": "canary"}
    assert "canary" not in repr(settings)


def test_empty_variable_counts_as_absent() -> None:
    settings = Settings.from_environment(URL | {"EFFECT_BROKER_CONTRACTS": ""})
    assert settings.contracts is None


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"EFFECT_BROKER_DATABASE_SECRET": "s"}, "DATABASE_SECRET"),
        ({"EFFECT_BROKER_KEYRING": "k", "EFFECT_BROKER_KEYRING_SECRET": "s"}, "KEYRING"),
        ({"EFFECT_BROKER_LOG_LEVEL": "canary"}, "LOG_LEVEL"),
        ({"EFFECT_BROKER_SECRETS": "canary"}, "SECRETS"),
        ({"EFFECT_BROKER_RATE_LIMIT": "canary"}, "RATE_LIMIT"),
        ({"EFFECT_BROKER_RATE_LIMIT": "0"}, "RATE_LIMIT"),
        ({"EFFECT_BROKER_RATE_LIMIT": "5:0"}, "RATE_LIMIT"),
        ({"EFFECT_BROKER_CORS_ORIGINS": "canary"}, "CORS_ORIGINS"),
        ({"EFFECT_BROKER_CORS_ORIGINS": "https://canary.example/"}, "CORS_ORIGINS"),
        ({"EFFECT_BROKER_SECRETS": "file:"}, "SECRETS"),
        ({"EFFECT_BROKER_SECRETS": "env:canary"}, "SECRETS"),
    ],
)
def test_setting_that_means_nothing_is_named_without_its_value(
    extra: dict[str, str], named: str
) -> None:
    with pytest.raises(SettingsInvalid, match=named) as refused:
        Settings.from_environment(URL | extra)
    assert "canary" not in refused.value.message


def test_secrets_file_is_a_path() -> None:
    settings = Settings.from_environment(
        URL | {"EFFECT_BROKER_SECRETS": "file:/run/secrets.json"}
    )
    assert (settings.secrets, settings.secrets_file) == (
        "file",
        Path("/run/secrets.json"),
    )
