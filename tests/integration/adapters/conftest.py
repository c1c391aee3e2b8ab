from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from effect_broker.adapters.wire.connections import Connections
from effect_broker.clock import SystemClock
from tests.integration.adapters.fault_server import FaultServer, fault_server


@pytest.fixture
async def target() -> AsyncIterator[FaultServer]:
    async with fault_server() as server:
        yield server


@pytest.fixture
async def connections() -> AsyncIterator[Connections]:
    made = Connections(SystemClock())
    yield made
    await made.aclose()
