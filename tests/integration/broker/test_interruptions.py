"""Cancellation, exceptions and a ledger that goes away: what was sent is never
forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any
from uuid import UUID

import pytest

from effect_broker.broker.recording import RECORD_TRIES
from effect_broker.domain.errors import CipherError, EffectBrokerError, LedgerUnavailable
from effect_broker.domain.status import EffectStatus
from effect_broker.ports import Step, StepResult
from tests.guarantees import guarantee
from tests.integration.broker.holding import HoldingAdapters, RaisingAdapters
from tests.integration.broker.world import World, contract

UNDECIDED = {EffectStatus.OUTCOME_UNKNOWN, EffectStatus.SUCCEEDED}


class LosingLedger:
    """Passes everything on; `record` fails as often as it was told to."""

    def __init__(self, inner: Any, *, losses: float) -> None:
        self._inner = inner
        self.losses = losses

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def record(self, steps: Sequence[Step]) -> Sequence[StepResult]:
        if self.losses > 0:
            self.losses -= 1
            raise LedgerUnavailable("The ledger is away.")
        results: Sequence[StepResult] = await self._inner.record(steps)
        return results


@guarantee("lost-answer-is-unknown")
@pytest.mark.parametrize("after_answer", [False, True])
@pytest.mark.parametrize("safety", ["idempotent", "reconcilable", "unsafe"])
async def test_cancelled_dispatch_is_recorded_as_unknown(
    world: World, safety: str, after_answer: bool
) -> None:
    """C19: cancelled before the write, and after the answer."""
    await world.open(contract(safety))
    effect = (await world.submit()).effect
    holding = HoldingAdapters(world.adapters, after_answer=after_answer)
    running = asyncio.create_task(world.dispatcher(adapters=holding).run_once())
    await holding.reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await world.status(effect.effect_id) is EffectStatus.OUTCOME_UNKNOWN


class HaltedLedger:
    """Passes everything on; one call reports `reached` and waits, before or after it."""

    def __init__(self, inner: Any, call: str, *, done: bool) -> None:
        self._inner = inner
        self._call = call
        self._done = done
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)
        return self._halting(call) if name == self._call else call

    def _halting(self, call: Any) -> Any:
        async def halted(*given: Any, **more: Any) -> Any:
            found = await call(*given, **more) if self._done else None
            self.reached.set()
            await self.go.wait()
            return found if self._done else await call(*given, **more)

        return halted


POINTS = {
    "after the claim": ("claim", True),
    "before the record": ("record", False),
    "after the record": ("record", True),
}


@guarantee("lost-answer-is-unknown")
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("safety", ["idempotent", "reconcilable", "unsafe"])
async def test_cancellation_around_the_ledger_leaves_nothing_sendable(
    world: World, safety: str, point: str
) -> None:
    """C19: with the two points around the request these are five."""
    await world.open(contract(safety))
    effect = (await world.submit()).effect
    call, done = POINTS[point]
    halted = HaltedLedger(world.ledger, call, done=done)
    running = asyncio.create_task(world.dispatcher(ledger=halted).run_once())
    await halted.reached.wait()
    running.cancel()
    await asyncio.sleep(0)
    halted.go.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    await world.let_pass(31)
    await world.sweeper.run_once()
    assert await world.status(effect.effect_id) in UNDECIDED
    assert len(world.target.requests) == (0 if call == "claim" else 1)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@guarantee("unclassified-error-is-unknown")
async def test_adapter_that_raises_after_the_request_leaves_an_unknown_outcome(
    world: World,
) -> None:
    await world.open(contract("unsafe"))
    effect = (await world.submit()).effect
    raising = RaisingAdapters(world.adapters, RuntimeError("receipt mail failed"))
    await world.dispatcher(adapters=raising).run_once()
    assert await world.status(effect.effect_id) is EffectStatus.OUTCOME_UNKNOWN
    assert len(world.target.requests) == 1


async def test_one_raising_attempt_does_not_stop_its_batch(world: World) -> None:
    await world.open(contract())
    poisoned = (await world.submit("order:1:charge:v1", "no_such_act")).effect
    others = [(await world.submit(f"order:{n}:charge:v1")).effect for n in range(2, 6)]
    report = await world.dispatcher().run_once()
    assert report.attempts == 5
    for effect in others:
        assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert await world.status(poisoned.effect_id) is EffectStatus.OUTCOME_UNKNOWN


class FailingLedger:
    """Passes everything on; one call about one effect raises what it was told to."""

    def __init__(self, inner: Any, effect_id: UUID, error: Exception) -> None:
        self._inner = inner
        self._effect_id = effect_id
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def attempts(self, tenant_id: UUID, effect_id: UUID) -> Any:
        if effect_id == self._effect_id:
            raise self._error
        return await self._inner.attempts(tenant_id, effect_id)

    async def record(self, steps: Sequence[Step]) -> Any:
        if any(step.effect_id == self._effect_id for step in steps):
            raise self._error
        return await self._inner.record(steps)


async def test_defect_in_one_record_leaves_no_request_running(world: World) -> None:
    await world.open(contract())
    holding = HoldingAdapters(world.adapters, after_answer=False)
    held = (await world.submit("order:1:charge:v1")).effect
    failing = FailingLedger(world.ledger, held.effect_id, RuntimeError("a defect"))
    running = asyncio.create_task(
        world.dispatcher(ledger=failing, adapters=holding).run_once()
    )
    await holding.reached.wait()
    running.cancel()
    with pytest.raises(RuntimeError, match="a defect"):
        await running
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_attempts_beside_a_record_that_broke_off_are_stopped_and_recorded(
    world: World,
) -> None:
    await world.open(contract())
    broken = (await world.submit("order:1:charge:v1", "no_such_act")).effect
    beside = (await world.submit("order:2:charge:v1")).effect
    failing = FailingLedger(world.ledger, broken.effect_id, RuntimeError("a defect"))
    holding = HoldingAdapters(world.adapters, after_answer=True)
    with pytest.raises(RuntimeError, match="a defect"):
        await world.dispatcher(ledger=failing, adapters=holding).run_once()
    assert await world.status(beside.effect_id) is EffectStatus.OUTCOME_UNKNOWN
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize(
    "error", [LedgerUnavailable("away"), CipherError("its key is gone")]
)
async def test_effect_that_cannot_be_reconciled_stops_no_other(
    world: World, error: EffectBrokerError
) -> None:
    await world.open(contract("reconcilable"))
    effects = [
        (await world.submit(f"order:{n}:charge:v1", "lose_answer")).effect
        for n in range(3)
    ]
    await world.dispatcher().run_once()
    await world.let_pass(60)
    failing = FailingLedger(world.ledger, effects[1].effect_id, error)
    whole = isinstance(error, LedgerUnavailable)
    with pytest.raises(LedgerUnavailable) if whole else nullcontext():
        await world.reconciler(ledger=failing).run_once()
    found = [await world.status(effect.effect_id) for effect in effects]
    assert found == [
        EffectStatus.SUCCEEDED,
        EffectStatus.RECONCILING,
        EffectStatus.SUCCEEDED,
    ]


async def test_record_that_fails_for_a_while_is_repeated_without_the_call(
    world: World,
) -> None:
    await world.open(contract("unsafe"))
    effect = (await world.submit()).effect
    losing = LosingLedger(world.ledger, losses=RECORD_TRIES - 1)
    await world.dispatcher(ledger=losing).run_once()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert len(world.target.requests) == 1
    assert (await world.events(effect.effect_id)).count("ReceiptRecorded") == 1


async def test_record_that_fails_for_ever_leaves_the_effect_to_its_lease(
    world: World,
) -> None:
    await world.open(contract("unsafe"))
    effect = (await world.submit()).effect
    losing = LosingLedger(world.ledger, losses=float("inf"))
    with pytest.raises(LedgerUnavailable):
        await world.dispatcher(ledger=losing).run_once()
    assert await world.status(effect.effect_id) is EffectStatus.DISPATCHING
    await world.let_pass(31)
    await world.sweeper.run_once()
    assert await world.status(effect.effect_id) is EffectStatus.OUTCOME_UNKNOWN
    assert len(world.target.requests) == 1


@guarantee("expired-lease-is-unknown")
async def test_worker_that_died_leaves_an_unknown_outcome_at_its_lease_end(
    world: World,
) -> None:
    await world.open(contract("unsafe"))
    effect = (await world.submit()).effect
    await _die_after_claim(world)
    await world.let_pass(30)
    await world.sweeper.run_once()
    assert await world.status(effect.effect_id) is EffectStatus.DISPATCHING
    await world.let_pass(1)
    await world.sweeper.run_once()
    assert await world.status(effect.effect_id) is EffectStatus.OUTCOME_UNKNOWN
    assert (await world.events(effect.effect_id))[-1] == "OutcomeLost"


@pytest.mark.parametrize("deaths", [1, 2])
async def test_reconciler_that_died_is_followed_by_the_next_pass(
    world: World, deaths: int
) -> None:
    await world.open(contract("reconcilable"))
    effect = (await world.submit("order:1:charge:v1", "lose_answer")).effect
    await world.dispatcher().run_once()
    for _ in range(deaths):
        await world.let_pass(5)
        with pytest.raises(LedgerUnavailable):
            await world.reconciler(
                ledger=LosingLedger(world.ledger, losses=float("inf"))
            ).run_once()
        assert await world.status(effect.effect_id) is EffectStatus.RECONCILING
        await world.let_pass(31)
        await world.sweeper.run_once()
        assert await world.status(effect.effect_id) is EffectStatus.OUTCOME_UNKNOWN
    await world.settle()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert len(world.target.requests) == 1


async def test_death_inside_the_redispatch_after_a_reconciliation_converges(
    world: World,
) -> None:
    await world.open(contract())
    effect = (await world.submit("order:1:charge:v1", "lose_answer")).effect
    await world.dispatcher().run_once()
    for _ in range(2):
        await world.let_pass(2)
        await world.reconciler().run_once()
        assert await world.status(effect.effect_id) is EffectStatus.PREPARED
        await _die_after_claim(world)
        await world.let_pass(31)
        await world.sweeper.run_once()
    await world.settle()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert len(world.target.objects) == 1


async def _die_after_claim(world: World) -> None:
    """Claim as a dispatcher does, and do nothing more: what a killed process leaves."""

    class Killed(BaseException):
        pass

    class DyingLedger:
        async def claim(self, order: Any) -> Any:
            await world.ledger.claim(order)
            raise Killed

        def __getattr__(self, name: str) -> Any:
            return getattr(world.ledger, name)

    with pytest.raises(Killed):
        await world.dispatcher(ledger=DyingLedger()).run_once()


async def test_effect_whose_payload_moved_is_not_sent(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.open(contract())
    effect = (await world.submit()).effect

    def other_payload(cipher: Any, intent: Any) -> Any:
        return {"amount": 1_000_000}

    monkeypatch.setattr("effect_broker.broker.attempting.open_arguments", other_payload)
    await world.dispatcher().run_once()
    assert await world.status(effect.effect_id) is EffectStatus.MANUAL_REVIEW
    assert world.target.requests == []


async def test_target_of_another_account_gets_no_request(world: World) -> None:
    await world.open(contract())
    effect = (await world.submit("order:1:charge:v1", "lose_answer")).effect
    await world.dispatcher().run_once()
    world.target.account = "somebody else's"
    await world.settle()
    assert await world.status(effect.effect_id) is EffectStatus.MANUAL_REVIEW
    assert len(world.target.requests) == 1


async def test_lookup_at_another_account_proves_nothing(world: World) -> None:
    await world.open(contract("reconcilable"))
    effect = (await world.submit("order:1:charge:v1", "lose_request")).effect
    await world.dispatcher().run_once()
    world.target.account = "somebody else's"
    await world.settle()
    assert await world.status(effect.effect_id) is EffectStatus.MANUAL_REVIEW
    assert (await world.events(effect.effect_id))[-1] == "ContractViolated"
    assert len(world.target.requests) == 1


class OvertakenLedger:
    """Passes everything on; before the first record somebody else does the same."""

    def __init__(self, inner: Any, overtake: Any) -> None:
        self._inner = inner
        self._overtake = overtake

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def record(self, steps: Sequence[Step]) -> Any:
        overtake, self._overtake = self._overtake, None
        if overtake is not None:
            await overtake()
        return await self._inner.record(steps)


async def test_send_that_somebody_else_forbade_meanwhile_is_left_as_it_stands(
    world: World,
) -> None:
    await world.open(contract(submit_deadline="1m"))
    effect = (await world.submit("order:1:charge:v1", "lose_answer")).effect
    await world.dispatcher().run_once()
    await world.let_pass(5)
    await world.reconciler().run_once()
    assert await world.status(effect.effect_id) is EffectStatus.PREPARED
    await world.let_pass(62)
    overtaken = OvertakenLedger(world.ledger, world.sweeper.run_once)
    await world.dispatcher(ledger=overtaken).run_once()
    assert await world.status(effect.effect_id) is EffectStatus.MANUAL_REVIEW
    assert (await world.events(effect.effect_id)).count("SendForbidden") == 1


async def test_effect_that_nobody_could_send_in_time_failed_without_being_sent(
    world: World,
) -> None:
    await world.open(contract(submit_deadline="1m"))
    effect = (await world.submit()).effect
    await world.let_pass(62)
    await world.sweeper.run_once()
    assert await world.status(effect.effect_id) is EffectStatus.FAILED_FINAL
    assert world.target.requests == []
    receipt = await world.receipt(effect.effect_id)
    assert receipt["kind"] == "failed_final"


def test_ids_of_attempts_are_ordered_by_time() -> None:
    from effect_broker.ids import uuid7

    drawn: list[UUID] = [uuid7() for _ in range(100)]
    assert len(set(drawn)) == 100
