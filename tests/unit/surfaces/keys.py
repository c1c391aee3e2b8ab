"""Live API keys in memory, as a registry would answer for them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from effect_broker.ports import Credential
from effect_broker.surfaces.auth import new_api_key

TENANT = UUID("00000000-0000-4000-8000-000000000001")


class KeyStore:
    """Answers `key` and keeps uses; every other call of a registry counts as a write."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.written: list[str] = []
        self.noted: list[str] = []
        self._live: dict[str, tuple[Credential, bytes]] = {}
        self._forgotten: dict[str, tuple[Credential, bytes]] = {}

    def add(self, *scopes: str) -> str:
        made = new_api_key()
        credential = Credential(made.key_id, TENANT, "acme", frozenset(scopes))
        self._live[made.key_id] = (credential, made.secret_hash)
        return made.key

    def forget(self, key: str) -> None:
        key_id = key.split("_")[1]
        self._forgotten[key_id] = self._live.pop(key_id)

    def restore(self, key: str) -> None:
        key_id = key.split("_")[1]
        self._live[key_id] = self._forgotten.pop(key_id)

    async def key(self, key_id: str) -> tuple[Credential, bytes] | None:
        self.asked.append(key_id)
        return self._live.get(key_id)

    async def note_key_use(self, key_id: str) -> None:
        self.noted.append(key_id)

    def __getattr__(self, name: str) -> Any:
        self.written.append(name)
        raise AttributeError(name)
