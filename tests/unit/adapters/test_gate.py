from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from effect_broker.adapters.wire.gate import NothingSent, SendForbidden, SendGate
from effect_broker.adapters.wire.stream import SocketStream
from tests.guarantees import guarantee
from tests.integration.adapters.given import ManualClock

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    yield ours, theirs
    ours.close()
    theirs.close()


def gate(clock: ManualClock, *, seconds: float = 10.0, scope: bytes = b"s") -> SendGate:
    return SendGate(clock, clock.deadline_in(seconds), scope=scope, expected_scope=b"s")


@pytest.mark.parametrize("name", ["monotonic_now", "boottime_now", "wall_now"])
def test_any_clock_past_the_deadline_forbids(name: str) -> None:
    clock = ManualClock()
    made = gate(clock)
    made.permit()
    setattr(clock, name, getattr(clock, name) + 10.0)
    with pytest.raises(SendForbidden, match="send_deadline_passed"):
        made.permit()


def test_gate_that_refused_has_not_opened() -> None:
    made = gate(ManualClock(), scope=b"other")
    with pytest.raises(SendForbidden, match="target_scope_changed"):
        made.permit()
    assert not made.opened


def test_aborted_gate_permits_nothing_and_tells_a_late_connection() -> None:
    made = gate(ManualClock())
    made.abort()
    told: list[bool] = []
    made.on_abort(lambda: told.append(True))
    assert told == [True]
    with pytest.raises(SendForbidden):
        made.permit()


@guarantee("send-deadline-holds")
async def test_every_write_asks_the_gate(pair: Pair) -> None:
    ours, theirs = pair
    clock = ManualClock()
    stream = SocketStream(ours)
    with pytest.raises(NothingSent, match="ungated"):
        await stream.write(b"early")
    stream.arm(gate(clock))
    await stream.write(b"head")
    clock.advance(10.0)
    with pytest.raises(SendForbidden):
        await stream.write(b"body")
    assert theirs.recv(100) == b"head"
    with pytest.raises(BlockingIOError):
        theirs.recv(100)


async def test_nothing_runs_between_the_gate_and_the_system_call(pair: Pair) -> None:
    """Another task that is ready gets no turn: the bytes are out when it runs."""
    ours, theirs = pair
    clock = ManualClock()
    stream = SocketStream(ours)
    stream.arm(gate(clock))
    seen: list[bytes] = []

    async def other() -> None:
        seen.append(theirs.recv(100))

    task = asyncio.create_task(other())
    await stream.write(b"request")
    await task
    assert seen == [b"request"]


async def test_abort_reaches_only_the_connection_that_serves_the_gate(pair: Pair) -> None:
    ours, theirs = pair
    clock = ManualClock()
    stream = SocketStream(ours)
    old, new = gate(clock), gate(clock)
    stream.arm(old)
    stream.disarm()
    stream.arm(new)
    old.abort()
    await stream.write(b"still open")
    assert theirs.recv(100) == b"still open"
    new.abort()
    assert theirs.recv(100) == b""
    await stream.aclose()
