"""What a process is told by its environment; no other module reads it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from effect_broker.domain.errors import EffectBrokerError

PREFIX: Final = "EFFECT_BROKER_"
LOCAL: Final = "local"
SECRET_SOURCES: Final = ("env", "file", "aws")
LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_RATE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(?::([1-9]\d{0,5}))?")
_ORIGIN: Final = re.compile(r"https?://[A-Za-z0-9.-]+(?::\d{1,5})?")

TARGET_SECRET: Final = f"{PREFIX}SECRET__"
"""What the names of target secrets start with where `SECRETS` is `env`."""


class SettingsInvalid(EffectBrokerError):
    """A setting is missing or means nothing; the message names it, never its value."""

    code = "settings_invalid"


@dataclass(frozen=True, slots=True)
class Settings:
    """One process's settings; whatever may hold a secret is left out of its repr.

    `database_host` replaces the host that the database's secret names: a proxy stands
    before the cluster, and the credentials are the cluster's. `secrets_file` is set where
    `secrets` is `file`; `target_secrets` holds the named values where it is `env`.
    `app_database_url` and `app_database_secret` are for the process that migrates: how
    the others, which run as the application's role, come in.
    `rate_limit` is how many requests a second a key may make of this process, and how
    many at once.
    `failpoints` names orders to stop or kill this very process, for proofs.
    """

    environment: str = LOCAL
    log_level: str = "INFO"
    database_url: str | None = field(default=None, repr=False)
    database_secret: str | None = None
    database_host: str | None = None
    app_database_url: str | None = field(default=None, repr=False)
    app_database_secret: str | None = None
    keyring: str | None = field(default=None, repr=False)
    keyring_secret: str | None = None
    secrets: str = "env"
    secrets_file: Path | None = None
    secrets_prefix: str = ""
    target_secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    dispatch_queue_url: str | None = None
    reconcile_queue_url: str | None = None
    contracts: Path | None = None
    mcp_upstreams: Path | None = None
    rate_limit: tuple[float, int] | None = None
    cors_origins: tuple[str, ...] = ()
    failpoints: Path | None = None

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str] | None = None, *, ledger: bool = True
    ) -> Settings:
        """Read the settings; an empty variable counts as absent.

        Without `ledger`, for what reaches targets alone, no database need be named.

        Raises:
            SettingsInvalid: neither a database URL nor the name of its secret, or a value
                outside its list. The message names the variable, never its value.
        """
        source = os.environ if environ is None else environ
        ours = {
            name.removeprefix(PREFIX): value
            for name, value in source.items()
            if name.startswith(PREFIX) and value
        }
        secrets, secrets_file = _secret_source(ours.get("SECRETS", "env"))
        contracts, failpoints = ours.get("CONTRACTS"), ours.get("FAILPOINTS")
        upstreams = ours.get("MCP_UPSTREAMS")
        settings = cls(
            environment=ours.get("ENVIRONMENT", LOCAL),
            log_level=_log_level(ours.get("LOG_LEVEL", "INFO")),
            database_url=ours.get("DATABASE_URL"),
            database_secret=ours.get("DATABASE_SECRET"),
            database_host=ours.get("DATABASE_HOST"),
            app_database_url=ours.get("APP_DATABASE_URL"),
            app_database_secret=ours.get("APP_DATABASE_SECRET"),
            keyring=ours.get("KEYRING"),
            keyring_secret=ours.get("KEYRING_SECRET"),
            secrets=secrets,
            secrets_file=secrets_file,
            secrets_prefix=ours.get("SECRETS_PREFIX", ""),
            target_secrets={
                name: value
                for name, value in source.items()
                if name.startswith(TARGET_SECRET)
            },
            dispatch_queue_url=ours.get("DISPATCH_QUEUE_URL"),
            reconcile_queue_url=ours.get("RECONCILE_QUEUE_URL"),
            contracts=Path(contracts) if contracts else None,
            mcp_upstreams=Path(upstreams) if upstreams else None,
            rate_limit=_rate(ours.get("RATE_LIMIT")),
            cors_origins=_origins(ours.get("CORS_ORIGINS", "")),
            failpoints=Path(failpoints) if failpoints else None,
        )
        settings._check(ledger=ledger)
        return settings

    def _check(self, *, ledger: bool) -> None:
        if ledger:
            _one_of(
                ("DATABASE_URL", self.database_url),
                ("DATABASE_SECRET", self.database_secret),
            )
        _not_both(("KEYRING", self.keyring), ("KEYRING_SECRET", self.keyring_secret))
        _not_both(
            ("APP_DATABASE_URL", self.app_database_url),
            ("APP_DATABASE_SECRET", self.app_database_secret),
        )
        if self.failpoints and (self.environment != LOCAL or self.database_secret):
            raise SettingsInvalid(
                f"{PREFIX}FAILPOINTS is for proofs on a local ledger: it is refused"
                f" unless {PREFIX}ENVIRONMENT is {LOCAL}, and with"
                f" {PREFIX}DATABASE_SECRET."
            )


def _rate(text: str | None) -> tuple[float, int] | None:
    """Read `20` (a second, and at once) or `20:100` (a second, and at once)."""
    if text is None:
        return None
    match = _RATE.fullmatch(text)
    per_second = float(match[1]) if match else 0.0
    if not match or not per_second:
        raise SettingsInvalid(
            f"{PREFIX}RATE_LIMIT is no rate such as 20 (requests a second) or 20:100 (and"
            " so many at once)."
        )
    return per_second, int(match[2] or max(1, round(per_second)))


def _origins(text: str) -> tuple[str, ...]:
    origins = tuple(origin.strip() for origin in text.split(",") if origin.strip())
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise SettingsInvalid(
                f"{PREFIX}CORS_ORIGINS holds what is no origin such as"
                " https://console.example."
            )
    return origins


def _one_of(first: tuple[str, str | None], second: tuple[str, str | None]) -> None:
    _not_both(first, second)
    if not first[1] and not second[1]:
        raise SettingsInvalid(
            f"One of {PREFIX}{first[0]} and {PREFIX}{second[0]} must be set: there is no"
            " broker without a ledger."
        )


def _not_both(first: tuple[str, str | None], second: tuple[str, str | None]) -> None:
    if first[1] and second[1]:
        raise SettingsInvalid(
            f"{PREFIX}{first[0]} and {PREFIX}{second[0]} are both set; which one counts"
            " would be a guess."
        )


def _log_level(value: str) -> str:
    level = value.upper()
    if level not in LOG_LEVELS:
        raise SettingsInvalid(f"{PREFIX}LOG_LEVEL is none of {', '.join(LOG_LEVELS)}.")
    return level


def _secret_source(value: str) -> tuple[str, Path | None]:
    source, _, path = value.partition(":")
    if source not in SECRET_SOURCES or bool(path) != (source == "file"):
        raise SettingsInvalid(f"{PREFIX}SECRETS is none of env, file:<path>, aws.")
    return source, Path(path) if path else None
