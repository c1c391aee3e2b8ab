"""What is planted in a request stands in no log line, no problem and no metric."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import psycopg
import pytest

from effect_broker.broker.facade import EffectBroker
from effect_broker.telemetry.logs import configure_logging
from tests.guarantees import guarantee
from tests.integration.http.api import Api, charge

CANARY = "canary-5ec4e7"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging("DEBUG", stream)
    yield stream
    root.handlers[:], root.level = handlers, level


@guarantee("nothing-in-the-clear")
async def test_canaries_appear_in_no_log_problem_or_metric(
    api: Api, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = {
        **charge(f"order:{CANARY}:charge:v1"),
        "arguments": {"amount": 1, "card": CANARY, "more": {"deep": [CANARY]}},
    }
    headers = {"X-Secret": CANARY, "Cookie": CANARY}
    first = await api.agent.post(f"/v1/effects?q={CANARY}", json=planted, headers=headers)
    assert first.status_code == 202
    effect_id = first.json()["effect_id"]
    await api.world.dispatcher().run_once()
    problems = [
        await api.agent.post(
            "/v1/effects",
            json={**planted, "arguments": {"amount": 2, "card": CANARY + "x"}},
        ),
        await api.agent.post(
            "/v1/effects", json={**planted, "arguments": {"amount": CANARY}}
        ),
        await api.agent.post(
            "/v1/effects", json={**planted, "operation_key": f"{CANARY} "}
        ),
        await api.agent.post("/v1/effects", content=f'{{"a":"{CANARY}",}}'.encode()),
        await api.agent.get(f"/v1/effects?status={CANARY}"),
        await api.agent.get(f"/v1/effects?cursor={CANARY}"),
        await api.agent.get(f"/v1/effects/{CANARY}"),
        await api.agent.post(
            f"/v1/effects/{effect_id}/reconcile", content=CANARY.encode()
        ),
        await api.anonymous.get(
            "/v1/effects", headers={"Authorization": f"Bearer ebk_{CANARY}"}
        ),
    ]

    async def breaks(*_: object) -> None:
        raise psycopg.errors.UniqueViolation(f"Key (operation_key)=({CANARY}) exists")

    monkeypatch.setattr(EffectBroker, "submit", breaks)
    problems.append(await api.agent.post("/v1/effects", json=planted))
    assert all(answer.status_code >= 400 for answer in problems)
    assert [answer.text for answer in problems if CANARY in answer.text] == []
    assert len(log.getvalue().splitlines()) >= len(problems)
    assert "UniqueViolation" in log.getvalue()
    assert CANARY not in log.getvalue()
    assert CANARY not in str(api.world.meter.counts)
    key = api.agent.headers["authorization"].removeprefix("Bearer ")
    assert key not in log.getvalue()
    assert key.split("_")[2] not in log.getvalue()
