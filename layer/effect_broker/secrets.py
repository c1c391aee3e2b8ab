"""Where target secrets come from on a plain machine: the environment, or a file."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from effect_broker.domain.errors import SecretNotFound
from effect_broker.ports import Clock, SecretSource

ENVIRONMENT_PREFIX: Final = "EFFECT_BROKER_SECRET__"

CACHE_SECONDS: Final = 60.0
"""How long a rotated secret may still be used; rotations keep the old one for longer."""


class EnvironmentSecrets:
    """Reads `payments/token` from `EFFECT_BROKER_SECRET__PAYMENTS__TOKEN`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    async def secret(self, name: str) -> str:
        """Return the variable's value; an empty one counts as absent.

        Raises:
            SecretNotFound: naming the reference and the variable.
        """
        variable = variable_of(name)
        value = self._environment.get(variable)
        if not value:
            raise SecretNotFound(f"The secret {name} is not set ({variable}).")
        return value


def variable_of(name: str) -> str:
    """Return the variable of a secret's name: `/` becomes `__`, other signs `_`."""
    steps = (re.sub(r"[^A-Za-z0-9]", "_", step) for step in name.split("/"))
    return ENVIRONMENT_PREFIX + "__".join(steps).upper()


class FileSecrets:
    """Reads a JSON object from names to values, anew each time: it may be rotated."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def secret(self, name: str) -> str:
        """Return the text under `name`.

        Raises:
            SecretNotFound: no such file, entry or text; values are never shown.
        """
        value = (await asyncio.to_thread(self._read, name)).get(name)
        if not isinstance(value, str) or not value:
            raise SecretNotFound(f"The secret {name} is not in {self._path.name}.")
        return value

    def _read(self, name: str) -> Mapping[str, object]:
        try:
            document = json.loads(self._path.read_bytes())
        except (OSError, ValueError) as error:
            raise SecretNotFound(
                f"The secret {name} cannot be read from {self._path.name}"
                f" ({type(error).__name__})."
            ) from None
        return document if isinstance(document, dict) else {}


class CachedSecrets:
    """Asks another source at most once in `seconds` for each name; keeps no failure."""

    def __init__(
        self, source: SecretSource, clock: Clock, *, seconds: float = CACHE_SECONDS
    ) -> None:
        self._source = source
        self._clock = clock
        self._seconds = seconds
        self._kept: dict[str, tuple[float, str]] = {}

    async def secret(self, name: str) -> str:
        """Return the value as it is, or was within the last `seconds`.

        Raises:
            SecretNotFound: the source has none.
        """
        now = self._clock.boottime()
        read_at, value = self._kept.get(name, (float("-inf"), ""))
        if now - read_at < self._seconds:
            return value
        self._kept.pop(name, None)
        value = await self._source.secret(name)
        self._kept[name] = (now, value)
        return value
