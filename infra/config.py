"""What may differ between two deployments, read from the CDK context alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.layer import PLATFORMS, built_layer

LOCAL = "local"
PRODUCTION = "production"
TENANT_ALIAS_PREFIX = "tenant-"

_SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_KNOWN = frozenset(
    {
        "local",
        "environment",
        "databaseUrl",
        "appDatabaseUrl",
        "proxy",
        "tenants",
        "contracts",
        "revision",
        "layer",
        "architecture",
        "tracing",
        "logLevel",
        "alarmTopicArn",
        "rateLimit",
        "corsOrigins",
    }
)


class ConfigError(ValueError):
    """The CDK context asks for something that cannot be deployed."""


@dataclass(frozen=True)
class Config:
    """One deployment of the broker.

    `environment` names the deployment and prefixes its resources and secrets.
    `database_url` replaces network, Aurora and proxy; only a local deployment may set
    it, since a URL in a template is readable to whoever may read the template. It is the
    owner's; `app_database_url` is how every function but migrate comes in.
    `revision` is any string that changes with code that no asset carries; it makes a
    redeployment replace the functions and migrate again.
    `layer` is a built layer folder; without one the functions find the package on
    their own path, as they do in a local AWS that runs them in the checkout's venv.
    """

    environment: str = PRODUCTION
    local: bool = False
    database_url: str | None = None
    app_database_url: str | None = None
    proxy: bool = False
    tenants: tuple[str, ...] = ()
    contracts: Path | None = None
    revision: str = ""
    layer: Path | None = None
    architecture: str = "arm64"
    tracing: bool = False
    log_level: str = "INFO"
    alarm_topic_arn: str | None = None
    rate_limit: str = ""
    cors_origins: str = ""

    def __post_init__(self) -> None:
        for slug in (self.environment, *self.tenants):
            if not _SLUG.fullmatch(slug):
                raise ConfigError(
                    f"{slug!r} is no slug of lower-case letters, digits and dashes"
                )
        if self.local and not self.database_url:
            raise ConfigError("local=true needs databaseUrl: a local AWS has no Aurora")
        if self.local != (self.environment == LOCAL):
            raise ConfigError(f"the environment {LOCAL!r} and local=true belong together")
        if (self.database_url or self.app_database_url) and not self.local:
            raise ConfigError(
                "databaseUrl is for local=true only: a template keeps no password"
            )
        if self.architecture not in PLATFORMS:
            raise ConfigError(
                f"architecture {self.architecture!r} is neither arm64 nor x86_64"
            )
        if self.layer is None and not self.local:
            raise ConfigError("a deployment needs a layer: run `python -m infra layer`")

    @property
    def stack_name(self) -> str:
        return f"effect-broker-{self.environment}"

    @property
    def secrets_prefix(self) -> str:
        return f"effect-broker/{self.environment}/"

    @property
    def target_secrets_prefix(self) -> str:
        return f"{self.secrets_prefix}targets/"

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> Config:
        """Read a deployment from `-c key=value`.

        A misspelt key of ours would silently deploy the default, so that keys are
        checked: whoever adds one adds it to the list above. Keys with a namespace
        (`@aws-cdk/…`, `aws:…`) belong to CDK.

        Raises:
            ConfigError: an unknown key, or a value that cannot be deployed.
        """
        ours = {k for k in context if not k.startswith("@") and ":" not in k}
        if unknown := sorted(ours - _KNOWN):
            raise ConfigError(
                f"unknown context: {', '.join(unknown)} (known: {_list(_KNOWN)})"
            )
        local = _flag(context.get("local", False))
        architecture = str(context.get("architecture", "arm64"))
        layer = context.get("layer")
        contracts = context.get("contracts")
        return cls(
            environment=str(context.get("environment", LOCAL if local else PRODUCTION)),
            local=local,
            database_url=context.get("databaseUrl") or None,
            app_database_url=context.get("appDatabaseUrl") or None,
            proxy=_flag(context.get("proxy", False)),
            tenants=tuple(_words(context.get("tenants", ""))),
            contracts=Path(contracts).resolve() if contracts else None,
            revision=str(context.get("revision", "")),
            layer=Path(layer).resolve() if layer else _built(architecture, local=local),
            architecture=architecture,
            tracing=_flag(context.get("tracing", False)),
            log_level=str(context.get("logLevel", "INFO")),
            alarm_topic_arn=context.get("alarmTopicArn") or None,
            rate_limit=str(context.get("rateLimit", "")),
            cors_origins=str(context.get("corsOrigins", "")),
        )


def _built(architecture: str, *, local: bool) -> Path | None:
    return None if local or architecture not in PLATFORMS else built_layer(architecture)


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise ConfigError(f"{value!r} is neither true nor false")


def _words(value: str | list[str]) -> list[str]:
    return value.split(",") if isinstance(value, str) and value else list(value)


def _list(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))
