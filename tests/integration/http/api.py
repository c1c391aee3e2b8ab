"""Callers of the HTTP surface, each with a key of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from fastapi import FastAPI
from httpx2 import ASGITransport, AsyncClient, Response

from effect_broker.ports import Registry
from effect_broker.surfaces.admin import Administration
from effect_broker.surfaces.auth import Authenticator
from effect_broker.surfaces.http_api import HttpParts, create_app
from tests.integration.broker.world import World

KEY: Final = "order:1:charge:v1"


@dataclass
class Api:
    """One served broker and who may call it.

    `agent` may submit and read, `operator` everything, `reader` only read; `stranger` is
    an operator of another tenant; `anonymous` has no key.
    """

    world: World
    app: FastAPI
    agent: AsyncClient
    operator: AsyncClient
    reader: AsyncClient
    stranger: AsyncClient
    anonymous: AsyncClient

    @classmethod
    @asynccontextmanager
    async def over(cls, world: World) -> AsyncIterator[Api]:
        await world.registry.create_tenant("other", "Other", "h1")
        parts = HttpParts(world.broker, Authenticator(world.registry), ready=_ready)
        app = create_app(parts)
        everything = ["submit", "read", "operate"]
        yield cls(
            world=world,
            app=app,
            agent=await client(app, world.registry, "acme", ["submit", "read"]),
            operator=await client(app, world.registry, "acme", everything),
            reader=await client(app, world.registry, "acme", ["read"]),
            stranger=await client(app, world.registry, "other", everything),
            anonymous=AsyncClient(transport=ASGITransport(app), base_url="http://api"),
        )

    async def submit(self, key: str = KEY, *acts: str, **fields: Any) -> Response:
        """Post a charge as the agent; `acts` play the target."""
        if acts:
            self.world.acts[key] = list(acts)
        return await self.agent.post("/v1/effects", json=charge(key, **fields))

    async def effect_id(self, key: str = KEY, *acts: str) -> str:
        answer = await self.submit(key, *acts)
        assert answer.status_code in (200, 202), answer.text
        return str(answer.json()["effect_id"])

    async def settled(self, key: str = KEY, *acts: str) -> str:
        """Return the id of a charge that the target has answered."""
        effect_id = await self.effect_id(key, *acts)
        await self.world.dispatcher().run_once()
        return effect_id

    async def status(self, effect_id: str) -> str:
        return str(await self.world.status(UUID(effect_id)))


def charge(key: str = KEY, *, amount: int = 100, **fields: Any) -> dict[str, Any]:
    """Return a submission."""
    return {
        "operation_key": key,
        "tool": "sim.charge",
        "arguments": {"amount": amount},
        **fields,
    }


async def client(
    app: FastAPI, registry: Registry, slug: str, scopes: list[str]
) -> AsyncClient:
    """Return a caller with a fresh key."""
    made = await Administration(registry, ()).create_key(slug, scopes)
    return AsyncClient(
        transport=ASGITransport(app),
        base_url="http://api",
        headers={"Authorization": f"Bearer {made.key}"},
    )


def assert_problem(answer: Response, status: int, code: str) -> dict[str, Any]:
    """Assert a problem with its stable code, and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert document["code"] == code, document
    assert document["type"] == f"urn:effect-broker:problem:{code}"
    assert document["status"] == status
    assert document["title"]
    assert document["detail"]
    return document


async def _ready() -> None:
    """The tests' ledger is always there."""
