"""What an answer, and the lack of one, is told as."""

from __future__ import annotations

from typing import Final

from effect_broker.conformance.check import check, deduplicated, needs
from effect_broker.conformance.failure import listed
from effect_broker.conformance.recorder import SERVER_ERROR
from effect_broker.conformance.target import Fault
from effect_broker.conformance.trial import Trial
from effect_broker.domain.outcome import Ambiguous, Committed, NotSent, Rejected

_LOST: Final = (Fault.LOSE_ANSWER, Fault.RESET, Fault.LOSE_REQUEST)


@check()
async def answer_of_success_is_a_commit(trial: Trial) -> None:
    """An answer that means success is told as committed, and the target holds one
    effect.
    """
    outcome = await trial.dispatch(trial.effect())
    held = await trial.target.effects()
    if not isinstance(outcome, Committed) or held != 1:
        trial.fail(
            f"the adapter said {type(outcome).__name__}, and the target holds {held}"
            " effects, where one was asked for.",
            where=listed(trial.target.requests()),
            todo="Look whether `http.meaning` lists this answer as committed, and whether"
            " the arguments of the kit are what the target accepts.",
        )


@check(needs(Fault.LOSE_ANSWER))
async def lost_answer_is_no_failure(trial: Trial) -> None:
    """A lost answer is ambiguous: it is never told as a refusal or as not sent."""
    for fault in _LOST:
        if fault not in trial.target.faults:
            continue
        before = len(trial.target.requests())
        trial.target.plan(fault)
        outcome = await trial.dispatch(trial.effect(f"lost-{fault}"))
        if isinstance(outcome, Rejected | NotSent):
            trial.fail(
                f"an answer that was lost ({fault}) was told as"
                f" {type(outcome).__name__}({outcome.reason!r}).",
                where=listed(trial.target.requests()[before:]),
                todo="Return Ambiguous once a byte may have left; only a connection that"
                " never stood proves that nothing was sent.",
            )


@check(needs(Fault.LOSE_ANSWER))
async def success_needs_an_answer(trial: Trial) -> None:
    """Nothing is told as committed that the target did not answer."""
    for fault in _LOST:
        if fault not in trial.target.faults:
            continue
        before = len(trial.target.requests())
        trial.target.plan(fault)
        outcome = await trial.dispatch(trial.effect(f"unanswered-{fault}"))
        made = trial.target.requests()[before:]
        if isinstance(outcome, Committed):
            trial.fail(
                f"a commit was told though no answer came ({fault}).",
                where=listed(made),
                todo="Return Committed from the target's own answer only.",
            )


@check(needs(Fault.CUT_BODY))
async def cut_body_is_no_failure(trial: Trial) -> None:
    """A success whose body breaks off is a flagged commit or ambiguous, never a
    failure.
    """
    trial.target.plan(Fault.CUT_BODY)
    outcome = await trial.dispatch(trial.effect())
    flagged = isinstance(outcome, Committed) and bool(outcome.flags)
    if flagged or isinstance(outcome, Ambiguous):
        return
    trial.fail(
        f"half a body was told as {type(outcome).__name__} without a flag.",
        where=listed(trial.target.requests()),
        todo="Keep status and headers before the body is read; then either return"
        ' Committed with the flag "output_unparsed" and the raw bytes, or Ambiguous.',
    )


@check(needs(Fault.HIDE_COMMIT))
async def server_error_after_a_commit_is_no_failure(trial: Trial) -> None:
    """A server error proves nothing, unless the contract lists that very status."""
    terms = trial.contract.http
    if terms is not None and str(SERVER_ERROR.status) in terms.meaning.entries:
        return
    trial.target.plan(Fault.HIDE_COMMIT)
    outcome = await trial.dispatch(trial.effect())
    if not isinstance(outcome, Ambiguous):
        trial.fail(
            f"a {SERVER_ERROR.status} that hid a commit was told as"
            f" {type(outcome).__name__}.",
            where=listed(trial.target.requests()),
            todo="Return Ambiguous for every answer that the target does not document as"
            " proof.",
        )


@check(deduplicated, needs(Fault.IN_PROGRESS))
async def request_in_progress_is_waited_for(trial: Trial) -> None:
    """A target that says "the first request still runs" is told as in progress."""
    trial.target.plan(Fault.IN_PROGRESS)
    outcome = await trial.dispatch(trial.effect())
    if not (isinstance(outcome, Ambiguous) and outcome.in_progress):
        trial.fail(
            f"it was told as {type(outcome).__name__}, or not marked in_progress.",
            where=listed(trial.target.requests()),
            todo="Return Ambiguous(…, in_progress=True): the first request may still"
            " commit. For HTTP, list the answer in `http.meaning`.",
        )


@check(deduplicated)
async def drift_is_refused_by_the_target(trial: Trial) -> None:
    """The same key with another payload is refused, told as a violated contract, and
    makes no second effect.
    """
    await trial.dispatch(trial.effect())
    drifted = trial.effect(arguments=trial.target.other_arguments)
    outcome = await trial.dispatch(drifted)
    held = await trial.target.effects()
    violated = isinstance(outcome, Ambiguous) and outcome.contract_violated
    if held == 1 and violated:
        return
    trial.fail(
        f"the adapter said {type(outcome).__name__}, and the target holds {held}"
        " effects.",
        where=listed(trial.target.requests()),
        todo="A target that answers a key with another payload's result is not"
        " idempotent in the broker's sense. If it does refuse, map that answer to"
        " key_conflict (Ambiguous with contract_violated).",
    )
