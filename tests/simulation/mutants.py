"""Faults planted into the broker, each of which some seed must catch.

A mutant that no seed catches says that the world is too kind, not that the broker is
safe.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from effect_broker.adapters.wire.gate import SEND_DEADLINE_PASSED, SendGate
from effect_broker.broker import attempting, dispatch, reconcile, submit
from effect_broker.broker.effects import deadline_after
from effect_broker.broker.keeping import kept
from effect_broker.domain import recovery, resolution, settle, timing
from effect_broker.domain.contract import EffectContract, SafetyClass
from effect_broker.domain.contract_http import ProbeTerms
from effect_broker.domain.outcome import Ambiguous, NotSent, Rejected
from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.domain.transition import Transition
from effect_broker.ledger import memory_claims, memory_steps
from effect_broker.ledger.memory import MemoryLedger
from effect_broker.ports import StepResult, StepStatus
from tests.simulation.running import play

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutant:
    """One planted fault, by the name that reports use.

    `tools` are those that it concerns; the histories that look for it have no others.
    """

    name: str
    plant: Plant
    tools: tuple[str, ...] = ()


@dataclass(frozen=True)
class Caught:
    """Which seed catches a mutant, and what it says."""

    mutant: str
    seed: int
    complaint: str


SEEDS_MAX: Final = 4000
"""More histories than the rarest of the faults needs."""

CAUGHT: Final = Path(__file__).parent / "caught.json"
"""What `python -m tests.simulation --mutants` found last."""


def catch(mutant: Mutant, seeds: Iterable[int]) -> Caught | None:
    """Return the first of the seeds that catches the mutant."""
    with planted(mutant):
        for seed in seeds:
            complaint = play(seed, tools=mutant.tools).complaint
            if complaint is not None:
                return Caught(mutant.name, seed, complaint)
    return None


def last_caught() -> Mapping[str, Caught]:
    """Return what the last search found, by the mutant's name."""
    found = (Caught(**it) for it in json.loads(CAUGHT.read_text()))
    return {it.mutant: it for it in found}


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Run the block with the fault in place."""
    with pytest.MonkeyPatch.context() as patch:
        mutant.plant(patch)
        yield


def _horizon(patch: pytest.MonkeyPatch) -> None:
    for module in (recovery, resolution, memory_claims):
        patch.setattr(module, "horizon_over", lambda *_, **__: False)


def _timeout_is_not_sent(patch: pytest.MonkeyPatch) -> None:
    def mutated(outcome: object) -> Any:
        found = kept(outcome)
        if isinstance(found, Ambiguous) and found.reason == "timed_out":
            return NotSent(found.reason)
        return found

    patch.setattr(attempting, "kept", mutated)


def _no_claim_token(patch: pytest.MonkeyPatch) -> None:
    record = memory_steps.MemorySteps._record

    def mutated(self: Any, step: Any) -> Any:
        effect = self._owned(step.tenant_id, step.effect_id)
        if effect is not None and effect.work is not None and step.token is not None:
            step = replace(step, token=effect.token, version=effect.version)
        return record(self, step)

    patch.setattr(memory_steps.MemorySteps, "_record", mutated)


def _settlement_from_the_start(patch: pytest.MonkeyPatch) -> None:
    start = memory_claims.MemoryClaims._start

    def mutated(self: Any, effect: Any, *args: Any) -> Any:
        claim = start(self, effect, *args)
        contract = self._contract(effect)
        effect.move(settlement_at=claim.now + timedelta(seconds=1))
        assert contract.settlement_bound is None or effect.live.settlement_at
        return replace(claim, work=effect.live)

    patch.setattr(memory_claims.MemoryClaims, "_start", mutated)


def _settlement_at_the_answer(patch: pytest.MonkeyPatch) -> None:
    after = recovery.after_probe

    def mutated(
        contract: Any, work: Any, probe: Any, asked_at: Any, **margin: Any
    ) -> Any:
        handled_at = asked_at + contract.probe_timeout
        return after(contract, work, probe, handled_at, **margin)

    patch.setattr(reconcile, "after_probe", mutated)


def _deadline_moves(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        attempting,
        "deadline_after",
        lambda read, seconds: deadline_after(read, seconds + 60),
    )


def _one_answer_for_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settle, "_prove_current", settle._prove_all)


def _any_observation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(resolution, "_check_absence", lambda *_: None)


def _late_proof_is_lost(patch: pytest.MonkeyPatch) -> None:
    def mutated(self: Any, effect: Any, step: Any) -> StepResult:
        return StepResult(step.effect_id, StepStatus.FENCED, effect.version)

    patch.setattr(memory_steps.MemorySteps, "_fenced", mutated)


def _late_proof_bars_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(memory_steps, "_BARRED_BY_PROOF", frozenset())
    take = recovery.permitted_recovery

    def mutated(contract: Any, work: Any, *args: Any, **named: Any) -> Any:
        return take(contract, replace(work, proof_committed=False), *args, **named)

    patch.setattr(reconcile, "permitted_recovery", mutated)
    patch.setattr(
        reconcile.Reconciler,
        "_transition",
        _without_proof(reconcile.Reconciler._transition),
    )


def _without_proof(decide: Any) -> Any:
    def mutated(self: Any, case: Any, work: Any) -> Any:
        return decide(self, case, replace(work, proof_committed=False))

    return mutated


def _every_key_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        EffectContract,
        "redispatches_under_key",
        property(lambda self: self.safety is SafetyClass.IDEMPOTENT),
    )


def _scope_at_the_claim_alone(patch: pytest.MonkeyPatch) -> None:
    def mutated(self: SendGate) -> str | None:
        late = self.aborted or self.seconds_left() <= 0
        return SEND_DEADLINE_PASSED if late else None

    patch.setattr(SendGate, "refusal", mutated)


def _scope_never(patch: pytest.MonkeyPatch) -> None:
    _scope_at_the_claim_alone(patch)
    refusal = memory_claims.MemoryClaims._refusal

    def mutated(self: Any, effect: Any, scope: bytes, *args: Any) -> Any:
        effect.scope_digest = None
        return refusal(self, effect, scope, *args)

    patch.setattr(memory_claims.MemoryClaims, "_refusal", mutated)


def _unsafe_goes_again(patch: pytest.MonkeyPatch) -> None:
    permitted = recovery.permitted_recovery
    delay = settle.recovery_delay

    def mutated(contract: Any, work: Any, *args: Any, **named: Any) -> Any:
        if contract.safety is SafetyClass.UNSAFE and not work.proof_committed:
            return recovery._redispatch(contract, work, "mutant")
        return permitted(contract, work, *args, **named)

    def due(contract: Any, work: Any, *args: Any, **named: Any) -> Any:
        if contract.safety is SafetyClass.UNSAFE:
            return timedelta(seconds=1)
        return delay(contract, work, *args, **named)

    patch.setattr(reconcile, "permitted_recovery", mutated)
    patch.setattr(settle, "recovery_delay", due)


def _lapsed_is_sendable(patch: pytest.MonkeyPatch) -> None:
    lapse = memory_claims.MemoryClaims._lapse

    def mutated(self: Any, effect: Any) -> Any:
        dispatching = effect.live.status is EffectStatus.DISPATCHING
        unproven = effect.live.unproven
        lapsed = lapse(self, effect)
        if dispatching:
            now = effect.updated_at
            effect.append(
                EventType.ATTEMPT_NOT_SENT,
                EffectStatus.RETRYABLE,
                actor="sweep",
                at=now,
                metadata={},
            )
            effect.move(
                status=EffectStatus.RETRYABLE,
                due_at=now,
                unknown_since=None,
                unproven=unproven - 1,
            )
        return lapsed

    patch.setattr(memory_claims.MemoryClaims, "_lapse", mutated)


def _key_for_each_attempt(patch: pytest.MonkeyPatch) -> None:
    redispatch = recovery._redispatch

    def mutated(contract: Any, work: Any, reason: str) -> Any:
        found = redispatch(contract, work, reason)
        return replace(found, key_generation=work.key_generation + 1)

    patch.setattr(recovery, "_redispatch", mutated)


def _lagging_lookup_is_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProbeTerms, "strongly_consistent", property(lambda self: True))
    patch.setattr(timing, "settled", lambda *_, **__: True)
    patch.setattr(recovery, "settled", lambda *_, **__: True)


def _no_settlement(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "settled", lambda *_, **__: True)


def _operator_needs_no_settlement(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(resolution, "settled", lambda *_, **__: True)


def _earlier_attempts_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settle, "_still_unknown", lambda work: False)


def _every_rejection_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settle, "speaks_for_all", lambda contract, outcome: True)


def _key_after_ambiguity(patch: pytest.MonkeyPatch) -> None:
    exhausted = recovery._exhausted

    def mutated(work: Any, reason: str) -> Any:
        if reason in ("horizon_over", "no_lookup", "redispatch_limit"):
            found = exhausted(work, reason)
            return replace(
                found,
                event=EventType.REDISPATCH_PERMITTED,
                new=EffectStatus.PREPARED,
                delay=timedelta(0),
                key_generation=work.key_generation + 1,
                fresh_horizon=True,
                fresh_deadline=timedelta(minutes=1),
            )
        return exhausted(work, reason)

    patch.setattr(recovery, "_exhausted", mutated)


def _cancelled_is_not_sent(patch: pytest.MonkeyPatch) -> None:
    ended = dispatch._ended

    def mutated(task: Any, held: Any) -> Any:
        found = ended(task, held)
        if task.cancelled():
            return replace(found, outcome=NotSent("cancelled"))
        return found

    patch.setattr(dispatch, "_ended", mutated)


def _raised_is_not_sent(patch: pytest.MonkeyPatch) -> None:
    ended = dispatch._ended

    def mutated(task: Any, held: Any) -> Any:
        found = ended(task, held)
        if not task.cancelled() and task.exception() is not None:
            return replace(found, outcome=NotSent("raised"))
        return found

    patch.setattr(dispatch, "_ended", mutated)


def _drift_is_a_replay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(submit.Submitter, "_same_payload", lambda *_: True)


def _drift_under_the_new_version(patch: pytest.MonkeyPatch) -> None:
    def mutated(self: Any, intent: Any, contract: Any, request: Any) -> bool:
        deployed = self._catalog._by_tool[request.tool].contract
        return bool(intent.request_hash == submit._hash(deployed, request))

    patch.setattr(submit.Submitter, "_same_payload", mutated)


def _second_intent(patch: pytest.MonkeyPatch) -> None:
    reserve = MemoryLedger._reserve

    def mutated(self: Any, intent: Any) -> Any:
        self._keys.pop((intent.tenant_id, intent.operation_key), None)
        return reserve(self, intent)

    patch.setattr(MemoryLedger, "_reserve", mutated)


def _unknown_is_not_listed(patch: pytest.MonkeyPatch) -> None:
    permitted = recovery.permitted_recovery

    def mutated(*args: Any, **named: Any) -> Any:
        found = permitted(*args, **named)
        redispatched = EventType.REDISPATCH_PERMITTED
        if isinstance(found, Transition) and found.event is redispatched:
            return replace(found, unknown=False)
        return found

    patch.setattr(reconcile, "permitted_recovery", mutated)


def _unknown_is_failed(patch: pytest.MonkeyPatch) -> None:
    lost = settle._lost

    def mutated(contract: Any, work: Any, *args: Any) -> Any:
        outcome = args[0]
        if contract.safety is SafetyClass.UNSAFE:
            return settle.proven_rejection(
                contract,
                settle._prove_all(work),
                Rejected(outcome.reason, final=True),
                kept=False,
            )
        return lost(contract, work, *args)

    patch.setattr(settle, "_lost", mutated)


MUTANTS: Final = (
    Mutant("the horizon is not looked at", _horizon),
    Mutant("a read timeout counts as not sent", _timeout_is_not_sent),
    Mutant("a write needs no claim token", _no_claim_token),
    Mutant(
        "settlement counts from the start of the dispatch",
        _settlement_from_the_start,
        ("b.strong", "a.successes"),
    ),
    Mutant(
        "settlement is judged when the answer is handled",
        _settlement_at_the_answer,
        ("b.strong", "a.successes"),
    ),
    Mutant("a renewal moves the send deadline", _deadline_moves),
    Mutant(
        "an answer in front of the record speaks for all",
        _one_answer_for_all,
        ("a.commits", "a.short"),
    ),
    Mutant("an operator's finding needs no observed_at", _any_observation),
    Mutant("an operator's look needs no settlement", _operator_needs_no_settlement),
    Mutant("a fenced answer is thrown away", _late_proof_is_lost),
    Mutant(
        "stored late proof bars nothing",
        _late_proof_bars_nothing,
        ("a.commits", "a.all", "b.strong"),
    ),
    Mutant("a target that keeps successes is sent to again", _every_key_is_kept),
    Mutant(
        "the scope is compared at the claim alone",
        _scope_at_the_claim_alone,
        ("a.all", "a.commits"),
    ),
    Mutant("the scope is never compared", _scope_never),
    Mutant("an unsafe effect goes again", _unsafe_goes_again),
    Mutant("a lapsed lease makes an effect sendable", _lapsed_is_sendable),
    Mutant("each attempt has a key of its own", _key_for_each_attempt),
    Mutant(
        "a lagging lookup is believed",
        _lagging_lookup_is_believed,
        ("b.eventual", "b.strong"),
    ),
    Mutant("an absence needs no settlement", _no_settlement, ("b.strong", "a.successes")),
    Mutant("earlier attempts are forgotten", _earlier_attempts_are_forgotten),
    Mutant(
        "every rejection speaks for its key", _every_rejection_is_kept, ("a.commits",)
    ),
    Mutant("ambiguity starts a new key", _key_after_ambiguity),
    Mutant("cancelled work counts as not sent", _cancelled_is_not_sent),
    Mutant("an adapter that raised counts as not sent", _raised_is_not_sent),
    Mutant("changed arguments are a replay", _drift_is_a_replay),
    Mutant("a deploy makes an equal retry drift", _drift_under_the_new_version),
    Mutant("a key may be reserved twice", _second_intent),
    Mutant("a redispatched unknown is not listed", _unknown_is_not_listed),
    Mutant("an unsafe unknown is called failed", _unknown_is_failed),
)
