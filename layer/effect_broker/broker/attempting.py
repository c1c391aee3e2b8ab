"""One attempt: open the payload, prove it is the reserved one, hand it to the adapter
under a watchdog, or to the ledger's own transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import cast

from effect_broker.broker.effects import bound, deadline_after, effect_record
from effect_broker.broker.keeping import kept
from effect_broker.broker.payload import open_arguments
from effect_broker.broker.settling import Ended, Settler
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import EffectBrokerError
from effect_broker.domain.outcome import Ambiguous, Committed, NotSent
from effect_broker.domain.work import WorkState
from effect_broker.ports import (
    AdapterSource,
    Cipher,
    Claim,
    Deadline,
    LocalMutating,
    LocalMutation,
    Step,
    Transacted,
    Transactor,
    Watchdog,
)


@dataclass(frozen=True, slots=True)
class Attempting:
    """Carries out claimed attempts; local mutations where there is a `transactor`."""

    adapters: AdapterSource
    cipher: Cipher
    watchdog: Watchdog
    transactor: Transactor | None = None

    async def run(
        self, claim: Claim, contract: EffectContract, read: Deadline, settler: Settler
    ) -> Ended:
        """Make the claim's one attempt and return what it proved.

        `read` holds the clocks as they stood before the claim was sent; the attempt may
        put bytes on the wire for `attempt_timeout` from there. What fails before the
        adapter is called is proof that nothing was sent; a payload that is not the
        reserved one is a violation, and is not sent either.
        """
        if claim.attempt is None:
            return Ended(claim, contract, NotSent("claim_without_attempt"))
        deadline = deadline_after(read, contract.attempt_timeout.total_seconds())
        try:
            effect = effect_record(
                claim.intent,
                contract,
                open_arguments(self.cipher, claim.intent),
                claim.downstream_key,
                claim.work,
                claim.now,
            )
            if not bound(claim.intent, effect):
                moved = Ambiguous("payload_moved", contract_violated=True)
                return Ended(claim, contract, moved)
            adapter = await self.adapters.adapter(
                contract, scope_digest=claim.attempt.scope_digest, deadline=deadline
            )
        except EffectBrokerError as error:
            return Ended(claim, contract, NotSent(error.code))
        with self.watchdog.guard(deadline):
            if _mutates_locally(type(adapter)):
                mutation = cast(LocalMutating, adapter).mutation(effect)
                return await self._transacted(claim, contract, mutation, settler)
            outcome = await adapter.dispatch(effect, attempt_id=claim.attempt.attempt_id)
        return Ended(claim, contract, kept(outcome))

    async def _transacted(
        self,
        claim: Claim,
        contract: EffectContract,
        mutation: LocalMutation,
        settler: Settler,
    ) -> Ended:
        """Let the ledger mutate and record in one commit."""
        if self.transactor is None:
            return Ended(claim, contract, NotSent("no_transactor"))

        def step_for(outcome: Committed, work: WorkState, now: datetime) -> Step:
            return settler.step(Ended(claim, contract, kept(outcome)), work, now)

        ended = await self.transactor.transact(claim, mutation, step_for)
        if isinstance(ended, Transacted):
            recorded = ended.step, ended.result
            return Ended(claim, contract, ended.outcome, recorded)
        return Ended(claim, contract, ended)


@cache
def _mutates_locally(kind: type) -> bool:
    """Say whether adapters of a class do; a protocol is slow to ask for each attempt."""
    return issubclass(kind, LocalMutating)
