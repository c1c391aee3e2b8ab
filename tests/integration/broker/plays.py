"""Short words for what happens to one effect, for histories that name arrows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from effect_broker.broker.dispatch import DispatchReport
from effect_broker.broker.resolving import Finding
from effect_broker.domain.errors import DecisionRefused
from effect_broker.domain.receipt import ReceiptDraft
from effect_broker.domain.resolution import Decision
from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.domain.transition import transition
from effect_broker.ports import Step, StepResult
from tests.arrows import Told
from tests.integration.broker.holding import HoldingAdapters
from tests.integration.broker.world import World, contract

KEY: Final = "order:1:charge:v1"
LATE_SECONDS: Final = 120.0
"""Past lease and settlement of the contract that `world.contract` makes."""

_plays: Final = count(1)


@dataclass
class Play:
    """One effect in a world of its own."""

    world: World
    effect_id: UUID

    async def dispatch(self, *, after: float = 0.0) -> DispatchReport:
        """Send what is due, some time later."""
        await self.world.let_pass(after)
        return await self.world.dispatcher().run_once()

    async def reconcile(self, *, after: float = 2.0) -> None:
        """Sweep and reconcile what is due, some time later."""
        await self.world.let_pass(after)
        await self.world.sweeper.run_once()
        await self.world.reconciler().run_once()

    async def status(self) -> EffectStatus:
        return await self.world.status(self.effect_id)

    async def told(self) -> Told:
        """Be judged by the whole history."""
        return Told(self.effect_id)

    async def mark(self) -> Told:
        """Be judged by what happens from now on."""
        return Told(self.effect_id, len(await self.world.events(self.effect_id)))

    async def decide(self, decision: Decision, *, after: float = LATE_SECONDS) -> None:
        """Resolve as an operator would who looked at the target some time later."""
        await self.world.let_pass(after)
        await self.world.decide(self.effect_id, decision)

    async def commit_by_operator(self, external_id: str, *, behind: int = 0) -> None:
        """Resolve as committed under an id of the target, from so old a version."""
        snapshot = await self.world.ledger.get(
            self.world.tenant.tenant_id, self.effect_id
        )
        assert snapshot is not None
        finding = Finding(
            decision=Decision.COMMITTED,
            reason="found in the console",
            evidence={},
            expected_version=snapshot.version - behind,
            decision_id="found",
            actor="operator:ann",
            observed_at=snapshot.now,
            external_id=external_id,
        )
        await self.world.broker.resolve(
            self.world.tenant.tenant_id, self.effect_id, finding
        )

    async def compensate(self, *acts: str) -> None:
        """Link the effect to another one, which succeeds unless `acts` say otherwise."""
        refund = (await self.world.submit("order:1:refund:v1", *acts)).effect
        await self.dispatch()
        await self.world.broker.compensate(
            self.world.tenant.tenant_id,
            self.effect_id,
            refund.effect_id,
            actor="operator:ann",
            reason="asked",
        )

    async def refuse(self, decision: Decision, *, after: float = 0.0) -> None:
        """Have a decision refused."""
        with pytest.raises(DecisionRefused):
            await self.decide(decision, after=after)

    async def step(
        self,
        event: EventType,
        new: EffectStatus,
        *,
        behind: int = 0,
        receipt: ReceiptDraft | None = None,
    ) -> StepResult:
        """Write an arrow that any finder may take, from a version that is so far behind.

        Some arrows of the table are open to whoever finds a reason, and no part of the
        broker takes them today.
        """
        snapshot = await self.world.ledger.get(
            self.world.tenant.tenant_id, self.effect_id
        )
        assert snapshot is not None
        assert snapshot.work is not None
        written = Step(
            tenant_id=self.world.tenant.tenant_id,
            effect_id=self.effect_id,
            version=snapshot.version - behind,
            token=None,
            transition=transition(
                snapshot.work,
                event,
                new,
                reason="found by hand",
                unknown=True,
                receipt=receipt,
            ),
            actor="finder",
        )
        (result,) = await self.world.ledger.record([written])
        return result

    async def late_answer_again(self) -> StepResult:
        """Record the late answer of the first attempt once more."""
        tenant_id = self.world.tenant.tenant_id
        snapshot = await self.world.ledger.get(tenant_id, self.effect_id)
        assert snapshot is not None
        assert snapshot.work is not None
        first = (await self.world.ledger.attempts(tenant_id, self.effect_id))[0]
        repeated = transition(
            replace(snapshot.work, status=EffectStatus.DISPATCHING),
            EventType.OUTCOME_LOST,
            EffectStatus.OUTCOME_UNKNOWN,
            reason="again",
            ending=first.ending,
        )
        step = Step(
            tenant_id=tenant_id,
            effect_id=self.effect_id,
            version=first.version,
            token=uuid4(),
            transition=repeated,
            actor="dispatcher",
            attempt=first,
        )
        (result,) = await self.world.ledger.record([step])
        return result

    @asynccontextmanager
    async def paused(self, *, after_answer: bool = True) -> AsyncIterator[None]:
        """Dispatch, stop before or after the request, go on at the end of the block."""
        holding = HoldingAdapters(self.world.adapters, after_answer=after_answer)
        dispatcher = self.world.dispatcher(adapters=holding)
        async with _held(holding, dispatcher.run_once()):
            yield

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        """Reconcile and stop before the lookup; go on at the end of the block."""
        await self.world.sweeper.run_once()
        holding = HoldingAdapters(self.world.adapters, after_answer=False)
        reconciler = self.world.reconciler(adapters=holding)
        async with _held(holding, reconciler.run_once()):
            yield

    @asynccontextmanager
    async def given_up(self, *, after: float = LATE_SECONDS) -> AsyncIterator[None]:
        """Within the block the worker is thought dead, with its answer still to come."""
        async with self.paused():
            await self.world.let_pass(after)
            await self.world.sweeper.run_once()
            yield


@asynccontextmanager
async def _held(holding: HoldingAdapters, work: Any) -> AsyncIterator[None]:
    running = asyncio.ensure_future(work)
    await holding.reached.wait()
    try:
        yield
    finally:
        holding.go.set()
        await running


async def play(
    world: World, acts: Sequence[str] = (), safety: str = "idempotent", **terms: Any
) -> Play:
    """Open a world with one contract and submit one effect, whose requests are played by
    `acts`; tenant and contract are new, so that worlds may share a database.
    """
    number = next(_plays)
    made_contract = contract(safety, name=f"sim-charge-{number}", **terms)
    await world.open(made_contract, slug=f"acme-{number}")
    made = await world.submit(KEY, *acts)
    return Play(world, made.effect.effect_id)


async def dispatched(
    world: World, acts: Sequence[str] = (), safety: str = "idempotent", **terms: Any
) -> Play:
    """Submit one effect and make its first attempt."""
    it = await play(world, acts, safety, **terms)
    await it.dispatch()
    return it
