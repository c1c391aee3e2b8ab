"""What reaches targets: adapters, their deadlines, and mutations in the ledger's own
transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import Committed, Outcome, ProbeResult
from effect_broker.domain.work import WorkState
from effect_broker.ports.work import Claim, Step, StepResult


class TargetAdapter(Protocol):
    """Target-specific truth for one contract."""

    @property
    def contract(self) -> EffectContract:
        """The contract this adapter speaks for."""

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        """Make at most one mutating request and say what it proved."""

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        """Ask the target's authority about the effect; never mutates."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """Until when this attempt may put bytes on the wire, on every clock the host has.

    `monotonic`, `boottime` and `wall` are readings in seconds at which the send is over;
    any one past forbids the send (design rule 7).
    """

    monotonic: float
    boottime: float
    wall: float


class LocalMutation(Protocol):
    """One mutation of the ledger's own database, made inside the transaction that records
    it.
    """

    def seconds_left(self) -> float | None:
        """Return until when the mutation must have ended; None is without end."""

    async def apply(self, cursor: Any) -> Committed:
        """Mutate through `cursor`, and say what was done; commits nothing itself.

        Raises:
            Exception: nothing is to be done; `refused` tells what that proves.
        """

    def refused(self, error: BaseException) -> Outcome:
        """Say what an error proves whose transaction was rolled back."""


@runtime_checkable
class LocalMutating(Protocol):
    """What an adapter is besides whose target is the ledger's own database; its
    `dispatch` is not called.
    """

    def mutation(self, effect: EffectRecord) -> LocalMutation:
        """Return the effect's mutation, bound to the attempt's deadline."""


StepFor = Callable[[Committed, WorkState, datetime], Step]
"""The step that records a mutation, decided on the claim's row as it is locked."""


@dataclass(frozen=True, slots=True)
class Transacted:
    """A mutation that was committed together with its step."""

    outcome: Committed
    step: Step
    result: StepResult


class Transactor(Protocol):
    """Carries a mutation out in the ledger's own transaction."""

    async def transact(
        self, claim: Claim, mutation: LocalMutation, step_for: StepFor
    ) -> Transacted | Outcome:
        """Check the claim, mutate and record in one commit; an outcome says that nothing
        was done, or that nothing is known.
        """


class AdapterSource(Protocol):
    """Builds adapters for contracts and knows the target scope of each."""

    async def scope_digest(self, contract: EffectContract) -> bytes:
        """Digest base URL, account and mode as the credentials resolve to now."""

    async def adapter(
        self, contract: EffectContract, *, scope_digest: bytes, deadline: Deadline | None
    ) -> TargetAdapter:
        """Return an adapter bound to the scope that the attempt recorded, and to its
        deadline.
        """
