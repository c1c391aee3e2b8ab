"""Where a process finds its database, its keys and the credentials of targets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

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
    """Bring the ledger to this release's schema and return its revision."""
    from effect_broker.ledger.migrate import HEAD, upgrade

    info = conninfo(settings)
    upgrade(info if isinstance(info, str) else info())
    return HEAD


def conninfo(settings: Settings) -> str | Callable[[], str]:
    """Return the ledger's URL, or what reads it at each connect: passwords rotate."""
    if settings.database_url is not None:
        return settings.database_url

    def read() -> str:
        from effect_broker.aws.secrets import SecretsManagerSecrets

        try:
            text = SecretsManagerSecrets().read(str(settings.database_secret))
        except SecretNotFound as error:
            raise LedgerUnavailable("The ledger's credentials cannot be read.") from error
        return url_of_secret(text, host=settings.database_host)

    return read


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
