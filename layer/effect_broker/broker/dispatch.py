"""Dispatch: claim what can be finished, make at most one request an attempt, record what
it proved.

The claim authorises the send, never the event that woke this process.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from effect_broker.broker.attempting import Attempting
from effect_broker.broker.catalog import Catalog
from effect_broker.broker.clock_watch import ClockWatch
from effect_broker.broker.measuring import Measuring
from effect_broker.broker.nudging import nudge
from effect_broker.broker.recording import Pending, Recorder
from effect_broker.broker.scopes import Scopes
from effect_broker.broker.settling import Ended, Settler
from effect_broker.broker.uninterrupted import uninterrupted
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import (
    DispatchHeld,
    EffectBrokerError,
    LedgerUnavailable,
)
from effect_broker.domain.intent import Intent
from effect_broker.domain.outcome import Ambiguous, NotSent
from effect_broker.domain.resolution import forbid_send
from effect_broker.domain.status import SENDABLE
from effect_broker.domain.transition import Transition
from effect_broker.domain.work import WorkState
from effect_broker.ports import (
    Claim,
    ClaimOrder,
    Clock,
    ContractTerms,
    Deadline,
    Ledger,
    NewId,
    Nudger,
    Refused,
    Reserved,
    Step,
    StepResult,
    StepStatus,
)

BATCH_MAX: Final = 50
"""Attempts at once on one loop: more only lengthens the batch that one crash leaves
unknown.
"""

UNSAFE_MAX: Final = 2
"""Unsafe attempts at once: one crash makes each of them unknown for a person to resolve.
"""

HEARTBEATS_A_LEASE: Final = 3
"""Two may be lost before a lease ends; a contract's attempt fits its lease anyway."""

Results = Sequence[tuple[Step, StepResult]]

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DispatchReport:
    """What one pass did; `more` says that due work was left behind."""

    attempts: int = 0
    recorded: int = 0
    fenced: int = 0
    refused: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True)
class Leased:
    """What a reservation made, the claim on its first attempt if there is one, and the
    clocks as they stood before it was sent.
    """

    reserved: Reserved
    claim: Claim | None
    read: Deadline


@dataclass(frozen=True, slots=True)
class _Running:
    claim: Claim
    contract: EffectContract


class Dispatcher:
    """Runs due attempts of any tenant; between passes it keeps only what time it was."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        catalog: Catalog,
        scopes: Scopes,
        attempting: Attempting,
        settler: Settler,
        recorder: Recorder,
        nudger: Nudger,
        clock: Clock,
        measuring: Measuring,
        worker: str,
        batch_max: int = BATCH_MAX,
        unsafe_max: int = UNSAFE_MAX,
        heartbeats_a_lease: int = HEARTBEATS_A_LEASE,
        new_id: NewId,
    ) -> None:
        self._ledger = ledger
        self._catalog = catalog
        self._scopes = scopes
        self._attempting = attempting
        self._settler = settler
        self._recorder = recorder
        self._nudger = nudger
        self._clock = clock
        self._measuring = measuring
        self._worker = worker
        self._batch_max = batch_max
        self._unsafe_max = unsafe_max
        self._heartbeats_a_lease = heartbeats_a_lease
        self._new_id = new_id
        self._clock_watch = ClockWatch(settler.clock_margin)

    async def run_once(
        self,
        *,
        effect_ids: Sequence[UUID] | None = None,
        budget: timedelta | None = None,
    ) -> DispatchReport:
        """Claim due effects once, attempt them, record every ending.

        `budget` is what is left of the invocation: an attempt that does not fit is not
        claimed. Cancelled work is recorded as what it then proved, mostly nothing, before
        the cancellation goes on.

        Raises:
            LedgerUnavailable: nothing was claimed, or an ending could not be recorded and
                its effect is left to its lease.
            DispatchHeld: an operator must release dispatch first; also when this pass
                found that the ledger's clock had stepped.
        """
        terms = await self._scopes.terms()
        read = self._read_clocks()
        order = self._order(terms, self._limit(effect_ids), budget, effect_ids)
        claimed = await self._ledger.claim(order)
        results = await self.carry_out(claimed.claims, read)
        await self._forbid(claimed.refused)
        return DispatchReport(
            attempts=len(claimed.claims),
            recorded=_count(results, StepStatus.APPLIED),
            fenced=_count(results, StepStatus.FENCED),
            refused=len(claimed.refused),
            more=claimed.more,
        )

    async def reserve(self, intent: Intent) -> Leased:
        """Reserve an intent with its first attempt already claimed by this process.

        There is no claim where the key is taken, where nothing may be sent now, or where
        this process cannot serve the intent's contract.

        Raises:
            LedgerUnavailable: nothing may be sent; repeat with the same operation key.
        """
        terms = [
            term
            for term in await self._scopes.terms()
            if term.contract_id == intent.contract_id
        ]
        read = self._read_clocks()
        if not terms:
            (reserved,) = await self._ledger.reserve([intent])
            return Leased(reserved, None, read)
        order = self._order(terms, 1)
        reserved, claim = await self._ledger.reserve_leased(intent, order)
        return Leased(reserved, claim, read)

    async def carry_out(self, claims: Sequence[Claim], read: Deadline) -> Results:
        """Make the attempts of claims and record every ending; see `run_once`.

        `read` are the clocks as they stood before the claims were sent.
        """
        stepped = self._stepped(claims, read)
        if stepped is not None:
            await self._hold(claims, stepped)
        return await self._attempt_all(claims, read)

    def _order(
        self,
        terms: Sequence[ContractTerms],
        limit: int,
        budget: timedelta | None = None,
        effect_ids: Sequence[UUID] | None = None,
    ) -> ClaimOrder:
        return ClaimOrder(
            token=self._new_id(),
            worker=self._worker,
            limit=limit,
            terms=terms,
            clock_margin=self._settler.clock_margin,
            budget=budget,
            effect_ids=effect_ids,
            unsafe_limit=self._unsafe_max,
        )

    def _limit(self, effect_ids: Sequence[UUID] | None) -> int:
        """A nudge of one asks for one: ids of attempts are made, sent and read for
        each.
        """
        if effect_ids is None:
            return self._batch_max
        return min(self._batch_max, len(effect_ids))

    def _read_clocks(self) -> Deadline:
        """Read every clock before the claim is sent: each attempt's deadline counts from
        here.
        """
        return Deadline(
            monotonic=self._clock.monotonic(),
            boottime=self._clock.boottime(),
            wall=self._clock.wall(),
        )

    def _stepped(self, claims: Sequence[Claim], read: Deadline) -> timedelta | None:
        """Say by how much the ledger's clock stepped since this process last claimed."""
        if not claims:
            return None
        return self._clock_watch.step(claims[0].now, read, self._read_clocks())

    async def _hold(self, claims: Sequence[Claim], stepped: timedelta) -> None:
        """Stop all dispatch and give back what was just claimed: nothing of it is sent.

        Raises:
            DispatchHeld: always; an operator must look at the clock and release dispatch.
        """
        seconds = stepped.total_seconds()
        reason = f"The ledger's clock stepped by {seconds:+.1f} s."
        await self._ledger.hold_dispatch(reason)
        outcome = NotSent("ledger_clock_stepped")
        held = await self._held(claims)
        await self._record([Ended(item.claim, item.contract, outcome) for item in held])
        raise DispatchHeld(reason)

    async def _attempt_all(self, claims: Sequence[Claim], read: Deadline) -> Results:
        running = {
            asyncio.create_task(
                self._attempting.run(item.claim, item.contract, read, self._settler)
            ): item
            for item in await self._held(claims)
        }
        try:
            return await self._record_as_they_end(running, read.monotonic)
        finally:
            if running:
                await uninterrupted(self._abandon(running, read.monotonic))

    async def _held(self, claims: Sequence[Claim]) -> Sequence[_Running]:
        """Pair each claim with the contract that its effect pinned."""
        return [
            _Running(claim, await self._catalog.pinned(claim.intent.contract_id))
            for claim in claims
        ]

    async def _record_as_they_end(
        self, running: dict[asyncio.Task[Ended], _Running], started: float
    ) -> Results:
        """Record endings together as they come; one lost record does not lose the
        others.
        """
        results: list[tuple[Step, StepResult]] = []
        lost: LedgerUnavailable | None = None
        while running:
            done, _ = await asyncio.wait(
                running,
                timeout=self._heartbeat_seconds(running.values()),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not done:
                await self._renew(running)
                continue
            ended = [_ended(task, running.pop(task)) for task in done]
            self._measuring.attempts(ended, self._clock.monotonic() - started)
            try:
                results.extend(await uninterrupted(self._record(ended)))
            except LedgerUnavailable as error:
                lost = error
        if lost is not None:
            raise lost
        return results

    def _heartbeat_seconds(self, held: Iterable[_Running]) -> float:
        shortest = min(item.contract.lease for item in held)
        return shortest.total_seconds() / self._heartbeats_a_lease

    async def _renew(self, running: Mapping[asyncio.Task[Ended], _Running]) -> None:
        """Extend the leases of what is still under way, and stop what is no longer ours.

        A renewal moves no send deadline. One that gets no answer changes nothing: the
        deadline bounds the attempt, and its record finds out whether the claim stands.
        """
        by_lease: dict[tuple[UUID, timedelta], list[UUID]] = defaultdict(list)
        for held in running.values():
            place = held.claim.token, held.contract.lease
            by_lease[place].append(held.claim.intent.effect_id)
        for (token, lease), effect_ids in by_lease.items():
            try:
                kept = await self._ledger.renew(token, effect_ids, lease)
            except LedgerUnavailable:
                continue
            for task, held in running.items():
                effect_id = held.claim.intent.effect_id
                if effect_id in effect_ids and effect_id not in kept:
                    task.cancel()

    async def _abandon(
        self, running: dict[asyncio.Task[Ended], _Running], started: float
    ) -> None:
        """Stop every attempt under way and record what each then proved.

        A pass that was cancelled, or broke off by a defect, leaves no request behind.
        """
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        ended = [_ended(task, held) for task, held in running.items()]
        self._measuring.attempts(ended, self._clock.monotonic() - started)
        await self._record(ended)

    async def _record(self, ended: Sequence[Ended]) -> Results:
        pending = self._pending(item for item in ended if not item.recorded)
        results = [item.recorded for item in ended if item.recorded]
        if pending:
            results.extend(await self._recorder.record(pending))
        self._measuring.steps(results)
        await nudge(self._nudger, results)
        return results

    def _pending(self, ended: Iterable[Ended]) -> Sequence[Pending]:
        """Make the steps; one that cannot be made leaves its own effect to its lease."""
        pending: list[Pending] = []
        for item in ended:
            try:
                pending.append(self._settler.pending(item))
            except EffectBrokerError as error:
                effect_id = item.claim.intent.effect_id
                _log.error("effect %s cannot be recorded: %s", effect_id, error)
        return pending

    async def _forbid(self, refused: Sequence[Refused]) -> None:
        if refused:
            results = await self._recorder.record(
                [forbidden(item, await self._generations(item)) for item in refused]
            )
            self._measuring.steps(results)

    async def _generations(self, item: Refused) -> int:
        return (await self._catalog.pinned(item.intent.contract_id)).key_generations


def forbidden(
    item: Refused, key_generations: int = 1, *, actor: str = "dispatcher"
) -> Pending:
    """Return the step that ends an effect which may not be sent.

    Nobody holds the effect: where somebody else has moved it out of the way of any send,
    there is nothing left to forbid.
    """

    async def decide(work: WorkState, now: datetime) -> Transition | None:
        if work.status not in SENDABLE:
            return None
        return forbid_send(work, item.refusal, key_generations=key_generations)

    step = Step(
        tenant_id=item.intent.tenant_id,
        effect_id=item.intent.effect_id,
        version=item.work.version,
        token=None,
        transition=forbid_send(item.work, item.refusal, key_generations=key_generations),
        actor=actor,
        tool=item.intent.tool,
    )
    return Pending(step, decide)


def _ended(task: asyncio.Task[Ended], held: _Running) -> Ended:
    """Read a finished task; what an adapter raised proves nothing, whatever it was."""
    if task.cancelled():
        return Ended(held.claim, held.contract, Ambiguous("cancelled"))
    if (error := task.exception()) is not None:
        reason = f"adapter_raised:{type(error).__name__}"
        return Ended(held.claim, held.contract, Ambiguous(reason))
    return task.result()


def _count(results: Results, status: StepStatus) -> int:
    return sum(result.status is status for _, result in results)
