"""Every exception of the HTTP client has its place, and so has every way to meet it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any, cast

import httpcore2
import httpx2
import pytest

from effect_broker.adapters.http_outcome import outcome_of
from effect_broker.adapters.wire.connecting import ConnectFailed
from effect_broker.adapters.wire.connections import Connections
from effect_broker.adapters.wire.exchange import (
    TRANSPORT_FAILURES,
    Exchange,
    WireRequest,
    exchange,
)
from effect_broker.adapters.wire.failures import FAILURES, UNCLASSIFIED, failure_of
from effect_broker.adapters.wire.gate import SendGate
from effect_broker.domain.outcome import Ambiguous, NotSent
from tests.guarantees import guarantee
from tests.integration.adapters.given import ManualClock, contract

BEFORE = {
    "PoolTimeout",
    "ConnectionNotAvailable",
    "ConnectTimeout",
    "ConnectError",
    "UnsupportedProtocol",
    "InvalidURL",
}
"""The only failures that are proof by their class: no connection stood."""

REQUEST = WireRequest("POST", b"/", ((b"Host", b"x"),), b"{}")


def exceptions_of(module: ModuleType) -> Iterator[type[Exception]]:
    for name in dir(module):
        found = getattr(module, name)
        if isinstance(found, type) and issubclass(found, Exception):
            yield found


def every_exception() -> list[type[Exception]]:
    found = {*exceptions_of(httpx2), *exceptions_of(httpcore2)}
    pending = list(found)
    while pending:
        for below in pending.pop().__subclasses__():
            if (
                below.__module__.startswith(("httpx2", "httpcore2"))
                and below not in found
            ):
                found.add(below)
                pending.append(below)
    return sorted(found, key=lambda kind: (kind.__module__, kind.__name__))


def made(kind: type[Exception]) -> Exception:
    error = kind.__new__(kind)
    Exception.__init__(error, "CANARY")
    return error


def test_the_walk_sees_both_libraries() -> None:
    names = {f"{kind.__module__}.{kind.__name__}" for kind in every_exception()}
    assert {"httpx2.ReadTimeout", "httpcore2.ReadTimeout", "httpx2.InvalidURL"} <= names
    assert len(names) > 40


@guarantee("unclassified-error-is-unknown")
@pytest.mark.parametrize("kind", every_exception(), ids=lambda kind: str(kind))
def test_every_exception_of_the_client_is_classified(kind: type[Exception]) -> None:
    assert kind.__name__ in FAILURES
    assert failure_of(made(kind)).nothing_sent is (kind.__name__ in BEFORE)


@guarantee("unclassified-error-is-unknown")
def test_what_the_table_does_not_know_is_ambiguous() -> None:
    class NewError(Exception):
        pass

    class ReadError(Exception):
        """Somebody else's class of the same name."""

    class NewLeaf(httpx2.ReadError):
        pass

    assert failure_of(NewError()) is UNCLASSIFIED
    assert failure_of(ReadError()) is UNCLASSIFIED
    assert not UNCLASSIFIED.nothing_sent
    assert failure_of(made(NewLeaf)) is FAILURES["ReadError"]


class Raising:
    """Stands in for connections: raises before, at or after the gate's opening."""

    def __init__(self, error: BaseException, *, after_the_gate: bool) -> None:
        self._error = error
        self._after_the_gate = after_the_gate

    @asynccontextmanager
    async def lease(self, key: Any, gate: SendGate, *, fresh: bool) -> AsyncIterator[Any]:
        if self._after_the_gate:
            gate.permit()
        raise self._error
        yield


async def known_after(error: BaseException, *, after_the_gate: bool) -> Exchange:
    gate = SendGate(ManualClock(), None, scope=b"s", expected_scope=b"s")
    raising = cast(Connections, Raising(error, after_the_gate=after_the_gate))
    return await exchange(raising, cast(Any, None), REQUEST, gate)


TRANSPORT = list(exceptions_of(httpcore2))
TRANSPORT += [OSError, ConnectionResetError, BrokenPipeError]


@pytest.mark.parametrize("kind", TRANSPORT, ids=lambda kind: str(kind))
async def test_nothing_has_left_before_the_gate_opened(kind: type[Exception]) -> None:
    known = await known_after(made(kind), after_the_gate=False)
    outcome = outcome_of(contract(), REQUEST, known, 0.0)
    assert isinstance(outcome, NotSent)
    assert "CANARY" not in repr(outcome)


@pytest.mark.parametrize("kind", TRANSPORT, ids=lambda kind: str(kind))
async def test_anything_after_the_gate_opened_is_ambiguous(kind: type[Exception]) -> None:
    known = await known_after(made(kind), after_the_gate=True)
    outcome = outcome_of(contract(), REQUEST, known, 0.0)
    assert isinstance(outcome, Ambiguous)
    assert not outcome.contract_violated
    assert outcome.evidence["bytes_may_have_left"] is True
    assert "CANARY" not in repr(outcome)


async def test_connection_that_fails_to_stand_is_not_sent() -> None:
    known = await known_after(ConnectFailed("tls_failed"), after_the_gate=False)
    assert (known.sent, known.failure) == (False, "tls_failed")


async def test_defects_are_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        await known_after(ZeroDivisionError(), after_the_gate=True)


def test_everything_that_the_transport_raises_is_caught() -> None:
    missed = [
        kind
        for kind in exceptions_of(httpcore2)
        if not issubclass(kind, TRANSPORT_FAILURES)
    ]
    assert missed == []
