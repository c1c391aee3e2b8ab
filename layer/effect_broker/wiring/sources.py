"""Where a process finds its database, its keys and the credentials of targets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from effect_broker.domain.errors import LedgerUnavailable, SecretNotFound
from effect_broker.ports import SecretSource
from effect_broker.settings import Settings, SettingsInvalid


def secret_source(settings: Settings) -> SecretSource:
    """Return where the credentials of targets come from."""
    from effect_broker.secrets import EnvironmentSecrets, FileSecrets

    if settings.secrets == "aws":
        from effect_broker.aws.secrets import SecretsManagerSecrets

        return SecretsManagerSecrets(settings.secrets_prefix)
    if settings.secrets_file is not None:
        return FileSecrets(settings.secrets_file)
    return EnvironmentSecrets(settings.target_secrets)


def migrate(settings: Settings) -> str:
    """Bring the ledger to this release's schema and return its revision.

    Where the application's way in is named, its role gets the password that stands there.

    Raises:
        SettingsInvalid: the application's way in is another role's.
        LedgerUnavailable: the database cannot be reached, or its credentials not read.
    """
    from effect_broker.ledger.migrate import HEAD, set_application_password, upgrade

    info = conninfo(settings)
    url = info if isinstance(info, str) else info()
    password = _application_password(settings)
    upgrade(url)
    if password is not None:
        set_application_password(url, password)
    return HEAD


def conninfo(settings: Settings) -> str | Callable[[], str]:
    """Return the ledger's URL, or what reads it at each connect: passwords rotate."""
    if settings.database_url is not None:
        return settings.database_url
    return lambda: _read_url(str(settings.database_secret), settings.database_host)


def _read_url(secret: str, host: str | None) -> str:
    from effect_broker.aws.secrets import SecretsManagerSecrets

    try:
        text = SecretsManagerSecrets().read(secret)
    except SecretNotFound as error:
        raise LedgerUnavailable("The ledger's credentials cannot be read.") from error
    return url_of_secret(text, host=host)


def _application_password(settings: Settings) -> str | None:
    """Return the password that the application comes in with, where a way is named."""
    from effect_broker.ledger.migrate import APPLICATION

    url = settings.app_database_url
    if settings.app_database_secret is not None:
        url = _read_url(settings.app_database_secret, None)
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.username != APPLICATION or not parts.password:
        raise SettingsInvalid(
            f"EFFECT_BROKER_APP_DATABASE_URL or …_SECRET must name {APPLICATION} and its"
            " password."
        )
    return unquote(parts.password)


def url_of_secret(text: str, *, host: str | None = None) -> str:
    """Make a libpq URL of a database secret; `host` replaces the one it names.

    Raises:
        SettingsInvalid: the secret is not the JSON that the database's service writes.
    """
    try:
        secret = json.loads(text)
        user, password = quote(secret["username"], ""), quote(secret["password"], "")
        where = f"{host or secret['host']}:{int(secret['port'])}"
        name = quote(secret.get("dbname") or "effect_broker", "")
    except (KeyError, TypeError, ValueError):
        raise SettingsInvalid(
            "The database secret must be JSON with host, port, username and password."
        ) from None
    return f"postgresql://{user}:{password}@{where}/{name}?sslmode=require"


def keyring_text(settings: Settings) -> str:
    """Return the keyring's JSON.

    Raises:
        SettingsInvalid: none is named.
        SecretNotFound: the named secret cannot be read.
    """
    if settings.keyring_secret is not None:
        from effect_broker.aws.secrets import SecretsManagerSecrets

        return SecretsManagerSecrets().read(settings.keyring_secret)
    if settings.keyring is None:
        raise SettingsInvalid("EFFECT_BROKER_KEYRING or …_KEYRING_SECRET is needed.")
    if settings.keyring.startswith("file:"):
        return Path(settings.keyring.removeprefix("file:")).read_text()
    return settings.keyring
