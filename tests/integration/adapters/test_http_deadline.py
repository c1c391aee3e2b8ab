"""Until when bytes may leave, and what remains when the time is over."""

from __future__ import annotations

import asyncio
import threading
from itertools import count

import pytest

from effect_broker.adapters.wire.connections import Connections
from effect_broker.adapters.wire.stream import SocketStream
from effect_broker.clock import SystemClock
from effect_broker.domain.outcome import Ambiguous, Committed, NotSent
from effect_broker.ports import Deadline
from effect_broker.watchdog import ThreadWatchdog
from tests.guarantees import guarantee
from tests.integration.adapters import fault_server as faults
from tests.integration.adapters.fault_server import FaultServer
from tests.integration.adapters.given import GivenSecrets, ManualClock, contract
from tests.integration.adapters.sending import Sender


def real_deadline(seconds: float) -> Deadline:
    clock = SystemClock()
    return Deadline(
        clock.monotonic() + seconds, clock.boottime() + seconds, clock.wall() + seconds
    )


@guarantee("send-deadline-holds")
@pytest.mark.parametrize("clock_name", ["monotonic_now", "boottime_now", "wall_now"])
async def test_pause_past_the_deadline_on_any_clock_sends_nothing(
    target: FaultServer, clock_name: str
) -> None:
    """The pause falls between the connection's opening and the write."""
    clock = ManualClock()

    async def resolve_slowly(host: str, port: int) -> list[str]:
        setattr(clock, clock_name, getattr(clock, clock_name) + 10.0)
        return [host]

    connections = Connections(clock, resolve=resolve_slowly)
    outcome = await Sender(connections, clock=clock).dispatch(
        contract(target.url), deadline=clock.deadline_in(10.0)
    )
    assert outcome == NotSent("send_deadline_passed", evidence=outcome.evidence)
    assert target.seen == []


async def test_request_inside_its_deadline_is_sent(target: FaultServer) -> None:
    clock = ManualClock()
    connections = Connections(clock)
    outcome = await Sender(connections, clock=clock).dispatch(
        contract(target.url), deadline=clock.deadline_in(0.5)
    )
    assert isinstance(outcome, Committed)
    await connections.aclose()


async def test_deadline_between_head_and_body_leaves_a_request_that_cannot_act(
    target: FaultServer,
) -> None:
    class PassesAfterTheHead(ManualClock):
        asked = 0

        def wall(self) -> float:
            self.asked += 1
            return super().wall() + (60.0 if self.asked > 2 else 0.0)

    clock = PassesAfterTheHead()
    deadline = clock.deadline_in(10.0)
    clock.asked = 0
    outcome = await Sender(Connections(clock), clock=clock).dispatch(
        contract(target.url), deadline=deadline
    )
    assert outcome == Ambiguous("send_deadline_passed", evidence=outcome.evidence)
    assert outcome.evidence["bytes_may_have_left"] is True
    await target.until_left(0)
    assert target.seen == []


async def test_other_account_than_the_attempt_recorded_gets_no_request(
    target: FaultServer, connections: Connections
) -> None:
    secrets = GivenSecrets(token="of-account-a")
    made = contract(target.url, http={"headers": {"Authorization": {"secret": "token"}}})
    sender = Sender(connections, secrets=secrets)
    recorded = await sender.adapters.scope_digest(made)
    secrets.values["token"] = "of-account-b"
    outcome = await sender.dispatch(made, scope=recorded)
    assert isinstance(outcome, Ambiguous)
    assert (outcome.reason, outcome.contract_violated) == ("target_scope_changed", True)
    assert outcome.evidence["bytes_may_have_left"] is False
    assert target.seen == []


async def test_declared_rotation_within_the_account_is_no_change_of_scope(
    target: FaultServer, connections: Connections
) -> None:
    secrets = GivenSecrets(token="old")
    headers = {"Authorization": {"secret": "token"}}
    http = {"headers": headers, "account": "acct_main", "rotates": True}
    made = contract(target.url, http=http)
    sender = Sender(connections, secrets=secrets)
    recorded = await sender.adapters.scope_digest(made)
    secrets.values["token"] = "new"
    assert isinstance(await sender.dispatch(made, scope=recorded), Committed)
    assert target.seen[0].header("Authorization") == "new"


@guarantee("send-deadline-holds")
async def test_blocked_loop_does_not_keep_the_connection_past_the_deadline(
    target: FaultServer, connections: Connections
) -> None:
    """The thread aborts while the loop stands still; then the socket is dead."""
    aborted = threading.Event()

    class Telling(ThreadWatchdog):
        def look(self) -> float | None:
            wait = super().look()
            if any(guarded.aborted for guarded in self._guarded):
                aborted.set()
            return wait

    async def block_the_loop(peer: faults.Peer) -> bool:
        assert aborted.wait(10)
        return await faults.silence(peer)

    target.plan(block_the_loop)
    outcome = await Sender(
        connections, watchdog=Telling(SystemClock(), on_overrun=None)
    ).dispatch(contract(target.url), deadline=real_deadline(0.2))
    assert outcome == Ambiguous("timed_out", evidence=outcome.evidence)
    await target.until_left(0)


async def test_cancelled_before_the_write_is_proof_that_nothing_was_sent(
    target: FaultServer,
) -> None:
    resolving = asyncio.Event()

    async def never(host: str, port: int) -> list[str]:
        resolving.set()
        await asyncio.Event().wait()
        raise AssertionError

    sender = Sender(Connections(SystemClock(), resolve=never))
    task = asyncio.create_task(sender.dispatch(contract(target.url)))
    await resolving.wait()
    task.cancel()
    outcome = await task
    assert outcome == NotSent("cancelled", evidence=outcome.evidence)


async def test_cancelled_after_the_write_proves_nothing_and_ends_the_connection(
    target: FaultServer, connections: Connections
) -> None:
    target.plan(faults.silence)
    task = asyncio.create_task(Sender(connections).dispatch(contract(target.url)))
    await target.until_seen(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await target.until_left(0)


async def test_cancelled_while_the_body_is_read_keeps_the_commit(
    target: FaultServer, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading_the_body = asyncio.Event()
    read, reads = SocketStream.read, count(1)

    async def telling_read(stream: SocketStream, size: int, **_: object) -> bytes:
        if next(reads) == 2:
            reading_the_body.set()
        return await read(stream, size)

    monkeypatch.setattr(SocketStream, "read", telling_read)
    target.plan(faults.stall(201, b""))
    task = asyncio.create_task(Sender(connections).dispatch(contract(target.url)))
    await reading_the_body.wait()
    task.cancel()
    outcome = await task
    assert isinstance(outcome, Committed)
    assert outcome.flags == ("output_unparsed",)
    assert outcome.evidence["failure"] == "cancelled"
