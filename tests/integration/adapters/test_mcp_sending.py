"""What leaves for an upstream: on which connection, how often, and until when."""

from __future__ import annotations

import json
import threading
from typing import Any

import httpx2
import pytest

from effect_broker.adapters.mcp_client import SecondCall, _OneCall
from effect_broker.adapters.wire.exchange import Exchange, WireRequest
from effect_broker.clock import SystemClock
from effect_broker.domain.outcome import Ambiguous, Committed
from effect_broker.watchdog import ThreadWatchdog
from tests.guarantees import guarantee
from tests.integration.adapters import fault_server as faults
from tests.integration.adapters.fault_server import FaultServer
from tests.integration.adapters.mcp_calls import contract, dispatched
from tests.integration.adapters.mcp_speaking import CHARGED, by_method, result, speak


def request(method: str, request_id: int = 1) -> httpx2.Request:
    message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return httpx2.Request("POST", "http://upstream/mcp", json=message)


@guarantee("unsafe-at-most-once")
@pytest.mark.parametrize("status", [200, 503, None])
async def test_tool_is_not_called_again_by_whatever_resends_a_request(
    status: int | None,
) -> None:
    sent: list[tuple[str, bool]] = []

    async def send(wire: WireRequest, calls: bool) -> Exchange:
        sent.append((json.loads(wire.body)["method"], calls))
        return Exchange(sent=True, status=status, failure="" if status else "reset")

    transport = _OneCall(send)
    await transport_answers(transport, request("initialize"), status)
    await transport_answers(transport, request("tools/call", 2), status)
    for again in (request("tools/call", 2), request("tools/call", 3), batch()):
        with pytest.raises(SecondCall):
            await transport.handle_async_request(again)
    await transport_answers(transport, request("ping", 4), status)
    assert sent == [("initialize", False), ("tools/call", True), ("ping", False)]


async def transport_answers(
    transport: _OneCall, asked: httpx2.Request, status: int | None
) -> None:
    """Send a request that may leave; what its exchange says is what comes back."""
    if status is None:
        with pytest.raises(httpx2.TransportError, match="reset"):
            await transport.handle_async_request(asked)
    else:
        assert (await transport.handle_async_request(asked)).status_code == status


def batch() -> httpx2.Request:
    messages = [json.loads(request(it).content) for it in ("ping", "tools/call")]
    return httpx2.Request("POST", "http://upstream/mcp", json=messages)


@guarantee("send-deadline-holds")
async def test_blocked_loop_does_not_keep_the_call_past_the_deadline(
    target: FaultServer,
) -> None:
    """The thread aborts while the loop stands still; then the socket is dead."""
    aborted = threading.Event()
    in_time: list[bool] = []

    class Telling(ThreadWatchdog):
        def look(self) -> float | None:
            wait = super().look()
            if any(guarded.aborted for guarded in self._guarded):
                aborted.set()
            return wait

    async def block_the_loop(peer: faults.Peer) -> bool:
        in_time.append(aborted.wait(5))
        return await faults.silence(peer)

    speak(target, block_the_loop)
    outcome = await dispatched(
        contract(f"{target.url}/mcp"),
        seconds=0.5,
        watchdog=Telling(SystemClock(), on_overrun=None),
    )
    assert outcome == Ambiguous("timed_out", evidence=outcome.evidence)
    assert in_time == [True]
    await target.until_left(by_method(target)["tools/call"])


@guarantee("unsafe-at-most-once")
@pytest.mark.parametrize("old", [False, True])
async def test_unsafe_tool_is_called_on_a_connection_that_carried_nothing_before(
    target: FaultServer, old: bool
) -> None:
    speak(target, old=old)
    outcome = await dispatched(contract(f"{target.url}/mcp"))
    assert isinstance(outcome, Committed), outcome
    asked = by_method(target)
    called = asked.pop("tools/call")
    assert asked
    assert called not in asked.values()
    assert outcome.evidence["reused_connection"] is False


async def test_keyed_tool_is_called_on_the_connection_of_the_handshake(
    target: FaultServer,
) -> None:
    speak(target)
    outcome = await dispatched(contract(f"{target.url}/mcp", "idempotent"))
    assert isinstance(outcome, Committed), outcome
    assert set(by_method(target).values()) == {0}
    assert outcome.evidence["reused_connection"] is True


@guarantee("lost-answer-is-unknown")
@pytest.mark.parametrize(
    "told",
    [
        CHARGED | {"resultType": "task"},
        CHARGED | {"resultType": "no_such_type"},
        CHARGED | {"resultType": "input_required"},
        {"resultType": "input_required", "inputRequests": {}, "requestState": "x"},
    ],
)
async def test_result_that_is_not_complete_is_no_commit(
    target: FaultServer, told: dict[str, Any]
) -> None:
    speak(target, result(told, target))
    outcome = await dispatched(contract(f"{target.url}/mcp"))
    assert isinstance(outcome, Ambiguous), outcome
    assert [b"tools/call" in seen.body for seen in target.seen].count(True) == 1
