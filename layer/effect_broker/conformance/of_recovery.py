"""What a whole broker makes of the adapter and its contract after a lost answer."""

from __future__ import annotations

from datetime import timedelta

from effect_broker.conformance.check import check, deduplicated, forgets_keys, needs
from effect_broker.conformance.failure import listed
from effect_broker.conformance.rehearsal import Rehearsal, rehearsal
from effect_broker.conformance.target import Fault
from effect_broker.conformance.trial import Trial
from effect_broker.domain.contract import EffectContract, SafetyClass
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.status import EffectStatus


def _end_of_a_lost_answer(contract: EffectContract) -> EffectStatus:
    """Say where a committed effect without an answer must end under this contract."""
    if contract.safety is SafetyClass.UNSAFE:
        return EffectStatus.OUTCOME_UNKNOWN
    if contract.redispatches_under_key or contract.probe is not None:
        return EffectStatus.SUCCEEDED
    return EffectStatus.MANUAL_REVIEW


async def _one_effect(
    trial: Trial, stage: Rehearsal, effect: EffectRecord, *expected: EffectStatus
) -> None:
    """Let recovery run to its end, and compare with the target's books."""
    ended = await stage.settle(effect.effect_id)
    held = await trial.target.effects()
    made = trial.target.requests()
    keys = {trial.target.key_of(seen) for seen in made}
    if ended in expected and held == 1 and len(keys) == 1:
        return
    trial.fail(
        f"the effect ended {ended}, where {' or '.join(expected)} was due; the target"
        f" holds {held} effects, asked for under {len(keys)} keys.",
        where=listed(made),
        todo="If the target made a second effect under the same key, the contract claims"
        " more than it keeps: lower key_records or the safety class. If the effect is"
        " not found, look at the probe.",
    )


@check(needs(Fault.LOSE_ANSWER))
async def lost_answer_converges_to_one_effect(trial: Trial) -> None:
    """After a commit whose answer was lost, recovery ends with one effect, and where the
    contract can prove it, with success.
    """
    stage = await rehearsal(trial)
    trial.target.plan(Fault.LOSE_ANSWER)
    effect = await stage.submit()
    await stage.attempt()
    await _one_effect(trial, stage, effect, _end_of_a_lost_answer(trial.contract))


@check(needs(Fault.HIDE_COMMIT))
async def hidden_commit_converges_to_one_effect(trial: Trial) -> None:
    """After a commit behind a server error, recovery ends with one effect, and never
    with a failure; a target that replays the error leaves it to a person.

    An error that the recorder puts in the place of an answer leaves the target's record
    of it alone; a harness whose target can hide its own commits should let it.
    """
    stage = await rehearsal(trial)
    trial.target.plan(Fault.HIDE_COMMIT)
    effect = await stage.submit()
    await stage.attempt()
    proved = _end_of_a_lost_answer(trial.contract)
    await _one_effect(trial, stage, effect, proved, EffectStatus.MANUAL_REVIEW)


@check(deduplicated, needs(Fault.LOSE_ANSWER, Fault.IN_PROGRESS))
async def request_in_progress_converges_to_one_effect(trial: Trial) -> None:
    """A target that is still busy with the first request is asked again under the same
    key, and ends with one effect.
    """
    stage = await rehearsal(trial)
    trial.target.plan(Fault.LOSE_ANSWER, Fault.IN_PROGRESS, Fault.IN_PROGRESS)
    effect = await stage.submit()
    await stage.attempt()
    await _one_effect(trial, stage, effect, _end_of_a_lost_answer(trial.contract))


@check(deduplicated, forgets_keys, needs(Fault.LOSE_ANSWER))
async def nothing_is_sent_after_key_expiry(trial: Trial) -> None:
    """Once the target may have forgotten the key, nothing is sent under it again."""
    stage = await rehearsal(trial)
    trial.target.plan(Fault.LOSE_ANSWER)
    effect = await stage.submit()
    await stage.attempt()
    assert trial.contract.key_retention is not None
    stage.let_pass(trial.contract.key_retention + timedelta(seconds=1))
    await trial.target.forget_keys()
    ended = await stage.settle(effect.effect_id)
    held, made = await trial.target.effects(), trial.target.requests()
    if held != 1 or len(made) != 1:
        trial.fail(
            f"{len(made)} requests, and the target holds {held} effects; the effect ended"
            f" {ended}.",
            where=listed(made),
            todo="Say in key_retention how long the target knows a key, not how long you"
            " hope that it does.",
        )
