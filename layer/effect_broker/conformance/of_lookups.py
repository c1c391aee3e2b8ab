"""What a lookup finds, does not find, and cannot say."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from effect_broker.conformance.check import check, needs, needs_lookup, where
from effect_broker.conformance.failure import listed
from effect_broker.conformance.rehearsal import rehearsal
from effect_broker.conformance.target import Fault
from effect_broker.conformance.trial import Trial
from effect_broker.domain.contract import CLOCK_MARGIN, EffectContract, SafetyClass
from effect_broker.domain.outcome import Committed, ProbeStatus
from effect_broker.domain.status import EffectStatus

_UNANSWERED: Final = (
    Fault.LOSE_REQUEST,
    Fault.LOSE_ANSWER,
    Fault.RESET,
    Fault.CUT_BODY,
    Fault.HIDE_COMMIT,
)


def _recovers_by_lookup(contract: EffectContract) -> bool:
    return (
        contract.probe is not None
        and contract.safety in {SafetyClass.IDEMPOTENT, SafetyClass.RECONCILABLE}
        and not contract.redispatches_under_key
    )


@check(needs_lookup())
async def lookup_finds_a_commit(trial: Trial) -> None:
    """A lookup finds what was committed, under the identity that the answer gave."""
    effect = trial.effect()
    outcome = await trial.dispatch(effect)
    found = await trial.probe(effect)
    answered = outcome.external_id if isinstance(outcome, Committed) else None
    agree = None in (answered, found.external_id) or answered == found.external_id
    if found.status is ProbeStatus.COMMITTED and agree:
        return
    trial.fail(
        f"the lookup said {found.status} ({found.external_id}) of an effect that the"
        f" target had answered with {answered}.",
        where=f"evidence of the lookup: {dict(found.evidence)}",
        todo="Look up by the downstream key, read `found` and `external_id` where the"
        " target puts them; an index that lags needs settlement_bound to cover it.",
    )


@check(needs_lookup())
async def lookup_of_nothing_is_negative(trial: Trial) -> None:
    """A lookup of what was never sent is a negative, not an error and not somebody
    else's effect.
    """
    await trial.dispatch(trial.effect("another"))
    found = await trial.probe(trial.effect("never-sent"))
    if found.status is not ProbeStatus.NOT_COMMITTED:
        trial.fail(
            f"the lookup said {found.status} ({found.external_id}) of an effect that was"
            " never sent.",
            where=f"evidence of the lookup: {dict(found.evidence)}",
            todo="Return NOT_COMMITTED from a whole, readable answer that finds nothing;"
            " check that the target filters by the key instead of ignoring it.",
        )


@check(needs_lookup())
async def lookup_changes_nothing(trial: Trial) -> None:
    """A lookup sends no mutating request and makes no effect."""
    await trial.probe(trial.effect())
    held, made = await trial.target.effects(), trial.target.requests()
    if held or made:
        trial.fail(
            f"one lookup was {len(made)} mutating requests, and the target holds {held}"
            " effects.",
            where=listed(made),
            todo="Ask by reading; a lookup that is a POST is named by `is_lookup` of the"
            " harness.",
        )


@check(needs_lookup(Fault.LOSE_ANSWER))
async def failed_lookup_is_unknown(trial: Trial) -> None:
    """A lookup that fails, is refused or breaks off is unknown, never a negative."""
    effect = trial.effect()
    await trial.dispatch(effect)
    for fault in _UNANSWERED:
        if fault not in trial.target.lookup_faults:
            continue
        trial.target.plan_lookups(fault)
        found = await trial.probe(effect)
        if found.status is not ProbeStatus.UNKNOWN:
            trial.fail(
                f"a lookup that got no readable answer ({fault}) was told as"
                f" {found.status}.",
                where=f"evidence of the lookup: {dict(found.evidence)}",
                todo="Return UNKNOWN unless a whole answer was read.",
            )


@check(
    where(_recovers_by_lookup, "recovery does not rest on a lookup"),
    needs(Fault.LOSE_REQUEST),
)
async def negative_counts_only_after_settlement(trial: Trial) -> None:
    """A negative lookup permits a second send only after the settlement bound, and only
    if the lookup is strongly consistent.
    """
    stage = await rehearsal(trial)
    trial.target.plan(Fault.LOSE_REQUEST)
    effect = await stage.submit()
    await stage.attempt()
    contract = trial.contract
    settled = contract.attempt_timeout + (contract.settlement_bound or timedelta(0))
    stage.let_pass(settled - timedelta(seconds=1))
    await stage.reconcile()
    early = (await stage.snapshot(effect.effect_id)).status
    await stage.attempt()
    if early is not EffectStatus.OUTCOME_UNKNOWN or len(trial.target.requests()) != 1:
        trial.fail(
            f"before settlement a negative led to {early}.",
            where=listed(trial.target.requests()),
            todo="Say in settlement_bound how long a request may stay on its way.",
        )
    stage.let_pass(timedelta(seconds=1) + CLOCK_MARGIN + timedelta(milliseconds=10))
    ended = await stage.settle(effect.effect_id)
    held, made = await trial.target.effects(), len(trial.target.requests())
    assert contract.probe is not None
    strong = contract.probe.strongly_consistent
    expected = EffectStatus.SUCCEEDED if strong else EffectStatus.MANUAL_REVIEW
    if ended is not expected or (held, made) != ((1, 2) if strong else (0, 1)):
        trial.fail(
            f"after settlement the effect is {ended} after {made} requests, and the"
            f" target holds {held} effects; {expected} was due.",
            where=listed(trial.target.requests()),
            todo="Return NOT_COMMITTED from a whole answer that finds nothing, so that a"
            " request that was lost can be sent again.",
        )
