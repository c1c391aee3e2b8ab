"""Brokers to talk to: a whole one, and one that says what a test tells it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from httpx2 import ASGITransport

from effect_broker import EffectBrokerClient
from tests.integration.client.scripted import Scripted
from tests.integration.http.api import Api
from tests.integration.http.conftest import api as api


@pytest_asyncio.fixture
async def agent(api: Api) -> AsyncIterator[EffectBrokerClient]:
    """Yield a client that may submit and read."""
    async with client_of(api, api.agent.headers["authorization"]) as client:
        yield client


@pytest_asyncio.fixture
async def operator(api: Api) -> AsyncIterator[EffectBrokerClient]:
    """Yield a client that may do everything."""
    async with client_of(api, api.operator.headers["authorization"]) as client:
        yield client


def client_of(api: Api, authorization: str) -> EffectBrokerClient:
    key = authorization.removeprefix("Bearer ")
    return EffectBrokerClient("http://api", key, transport=ASGITransport(api.app))


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    """Yield a server on a socket that answers as it is told."""
    with Scripted() as server:
        yield server
