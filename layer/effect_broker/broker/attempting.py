"""One attempt: open the payload, prove it is the reserved one, hand it to the adapter
under a watchdog.
"""

from __future__ import annotations

from dataclasses import dataclass

from effect_broker.broker.effects import bound, deadline_after, effect_record
from effect_broker.broker.payload import open_arguments
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import EffectBrokerError
from effect_broker.domain.outcome import Ambiguous, NotSent, Outcome
from effect_broker.ports import AdapterSource, Cipher, Claim, Deadline, Watchdog


@dataclass(frozen=True, slots=True)
class Attempting:
    """Carries out claimed attempts."""

    adapters: AdapterSource
    cipher: Cipher
    watchdog: Watchdog

    async def run(
        self, claim: Claim, contract: EffectContract, read: Deadline
    ) -> Outcome:
        """Make the claim's one attempt and return what it proved.

        `read` holds the clocks as they stood before the claim was sent; the attempt may
        put bytes on the wire for `attempt_timeout` from there. What fails before the
        adapter is called is proof that nothing was sent; a payload that is not the
        reserved one is a violation, and is not sent either.
        """
        if claim.attempt is None:
            return NotSent("claim_without_attempt")
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
                return Ambiguous("payload_moved", contract_violated=True)
            adapter = await self.adapters.adapter(
                contract, scope_digest=claim.attempt.scope_digest, deadline=deadline
            )
        except EffectBrokerError as error:
            return NotSent(error.code)
        with self.watchdog.guard(deadline):
            return await adapter.dispatch(effect, attempt_id=claim.attempt.attempt_id)
