"""From what an attempt proved to the step that records it, decided again where evidence
arrived.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from effect_broker.broker.effects import mint_key
from effect_broker.broker.payload import ending_of, receipt_of_ending
from effect_broker.broker.recording import Pending
from effect_broker.domain.attempt import AttemptEnding
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.intent import Intent
from effect_broker.domain.outcome import Committed, Outcome, Rejected
from effect_broker.domain.receipt import ReceiptSource
from effect_broker.domain.settle import after_outcome, speaks_for_all
from effect_broker.domain.transition import Transition
from effect_broker.domain.work import WorkState
from effect_broker.ports import Cipher, Claim, KeyDeriver, Step, StepResult


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt that is over, with what it proved.

    `recorded` is the step that stands in the ledger already, where attempt and record
    were one commit.
    """

    claim: Claim
    contract: EffectContract
    outcome: Outcome
    recorded: tuple[Step, StepResult] | None = None


@dataclass(frozen=True, slots=True)
class Settler:
    """Makes the pending step of an ended attempt; seals what the target answered."""

    cipher: Cipher
    deriver: KeyDeriver
    clock_margin: timedelta
    actor: str

    def pending(self, ended: Ended) -> Pending:
        """Return the step that records `ended`, and the way to decide it anew."""
        intent, claim = ended.claim.intent, ended.claim
        ending = ending_of(self.cipher, intent.tenant_id, intent.effect_id, ended.outcome)

        async def decide(work: WorkState, now: datetime) -> Transition:
            return self._decide(ended, ending, work, now)

        step = self._step(ended, ending, claim.work, claim.now)
        return Pending(step, decide)

    def step(self, ended: Ended, work: WorkState, now: datetime) -> Step:
        """Return the step that records `ended`, decided on a state that is locked."""
        intent = ended.claim.intent
        ending = ending_of(self.cipher, intent.tenant_id, intent.effect_id, ended.outcome)
        return self._step(ended, ending, work, now)

    def _step(
        self, ended: Ended, ending: AttemptEnding, work: WorkState, now: datetime
    ) -> Step:
        intent = ended.claim.intent
        return Step(
            tenant_id=intent.tenant_id,
            effect_id=intent.effect_id,
            version=work.version,
            token=ended.claim.token,
            transition=self._decide(ended, ending, work, now),
            actor=self.actor,
            tool=intent.tool,
            attempt=ended.claim.attempt,
            speaks_for_all=isinstance(ended.outcome, Rejected)
            and speaks_for_all(ended.contract, ended.outcome),
        )

    def _decide(
        self, ended: Ended, ending: AttemptEnding, work: WorkState, now: datetime
    ) -> Transition:
        decided = after_outcome(
            ended.contract, work, ended.outcome, now, clock_margin=self.clock_margin
        )
        if isinstance(ended.outcome, Committed):
            receipt = receipt_of_ending(
                ending,
                ReceiptSource.ATTEMPT,
                flags=ended.outcome.flags,
                target_time=ended.outcome.target_time,
            )
            return replace(decided, ending=ending, receipt=receipt)
        decided = replace(decided, ending=ending)
        return with_new_key(
            self.deriver, decided, ended.claim.intent, ended.contract, work
        )


def with_new_key(
    deriver: KeyDeriver,
    decided: Transition,
    intent: Intent,
    contract: EffectContract,
    work: WorkState,
) -> Transition:
    """Give a transition that starts a key generation its key; others pass unchanged."""
    if decided.key_generation == work.key_generation:
        return decided
    key = mint_key(deriver, intent, contract, decided.key_generation)
    return replace(decided, downstream_key=key)
