"""Functions in one process: taking turns, starting at once, and never a loop too many."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.integration.functions.invoking import Lambdas, charge
from tests.integration.functions.test_mcp import call, posted

AT_ONCE = 4


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with every connection to the ledger that is opened."""
    made: list[str] = []
    connect = psycopg.AsyncConnection.connect

    async def counting(conninfo: str, **options: Any) -> Any:
        made.append(conninfo)
        return await connect(conninfo, **options)

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", counting)
    return made


def over_http(lambdas: Lambdas) -> dict[str, Any]:
    answer, effect = lambdas.http("POST", "/v1/effects", charge())
    assert answer["statusCode"] in (200, 202), answer
    return dict(effect)


def over_mcp(lambdas: Lambdas) -> dict[str, Any]:
    arguments = {"operation_key": charge()["operation_key"], "amount": 100}
    answer = posted(lambdas, call("sim.charge", arguments))
    assert answer["statusCode"] == 200, answer
    result = json.loads(answer["body"])["result"]
    assert result["isError"] is False, result
    return dict(result["structuredContent"])


def direct(lambdas: Lambdas) -> dict[str, Any]:
    return dict(lambdas.direct({"operation": "submit", **charge()}))


def test_http_and_mcp_events_in_turn_are_one_effect_on_a_connection_each(
    lambdas: Lambdas, opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    opened.clear()
    effects = [by(lambdas) for _ in range(5) for by in (over_http, over_mcp)]
    assert len({it["effect_id"] for it in effects}) == 1
    assert [it["replayed"] for it in effects] == [False] + [True] * 9
    assert len(opened) == 2
    assert '"ERROR"' not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "by"), [("submit", over_http), ("mcp", over_mcp), ("submit", direct)]
)
def test_first_calls_at_the_same_time_all_succeed_on_one_connection(
    lambdas: Lambdas,
    opened: list[str],
    capsys: pytest.CaptureFixture[str],
    name: str,
    by: Callable[[Lambdas], dict[str, Any]],
) -> None:
    start = threading.Barrier(AT_ONCE)

    def at_once(environment: Lambdas) -> dict[str, Any]:
        start.wait(10)
        return by(environment)

    with Lambdas(lambdas.keys) as cold, ThreadPoolExecutor(AT_ONCE) as threads:
        cold.environment(name)
        opened.clear()
        effects = list(threads.map(at_once, [cold] * AT_ONCE))
        assert len(opened) == 1
    assert len({it["effect_id"] for it in effects}) == 1
    assert sorted(it["replayed"] for it in effects) == [False] + [True] * (AT_ONCE - 1)
    assert '"ERROR"' not in capsys.readouterr().err
