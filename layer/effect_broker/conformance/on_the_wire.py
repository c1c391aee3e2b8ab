"""What stands on the wire: how many requests, which key, which bytes, until when."""

from __future__ import annotations

import hashlib
from typing import Final

from effect_broker.conformance.check import check, keyed, needs
from effect_broker.conformance.failure import listed
from effect_broker.conformance.target import Fault
from effect_broker.conformance.trial import Trial
from effect_broker.domain.contract import SafetyClass
from effect_broker.domain.outcome import Ambiguous, NotSent

_RETRIES_OFF: Final = (
    "Send once: switch the client's own retries, redirects and re-sends after a lost"
    " connection off (a library's `max_retries` is rarely all of them)."
)

_UPSETTING: Final = (
    Fault.NONE,
    Fault.RESET,
    Fault.LOSE_ANSWER,
    Fault.CUT_BODY,
    Fault.HIDE_COMMIT,
    Fault.IN_PROGRESS,
)


@check()
async def one_request_per_dispatch(trial: Trial) -> None:
    """One dispatch is exactly one request on the wire, whatever becomes of it."""
    for fault in _UPSETTING:
        if fault is not Fault.NONE and fault not in trial.target.faults:
            continue
        before = len(trial.target.requests())
        trial.target.plan(fault)
        outcome = await trial.dispatch(trial.effect(f"once-{fault}"))
        made = trial.target.requests()[before:]
        if len(made) == 1 and made[0].complete:
            continue
        trial.fail(
            f"{len(made)} requests in one dispatch ({fault}), where exactly one is due;"
            f" the adapter said {type(outcome).__name__}.",
            where=listed(made),
            todo=_RETRIES_OFF,
        )


@check(needs(Fault.RESET))
async def one_request_on_a_reused_connection(trial: Trial) -> None:
    """A reset on a connection that has served before proves nothing and repeats
    nothing.
    """
    await trial.dispatch(trial.effect("first"))
    trial.target.plan(Fault.RESET)
    outcome = await trial.dispatch(trial.effect("second"))
    made = trial.target.requests()[1:]
    if len(made) != 1:
        trial.fail(
            f"{len(made)} requests after a reset, where exactly one is due.",
            where=listed(made),
            todo=_RETRIES_OFF,
        )
    if not isinstance(outcome, Ambiguous):
        trial.fail(
            f"a reset was told as {type(outcome).__name__}; the target had committed.",
            where=listed(made),
            todo="Return Ambiguous: a reset, even before the first byte of an answer,"
            " says nothing about the request.",
        )


@check()
async def stable_key_on_every_attempt(trial: Trial) -> None:
    """Every attempt carries the downstream key of the ledger, byte for byte; to an
    unsafe target none goes out.
    """
    effect = trial.effect()
    if trial.contract.safety is SafetyClass.UNSAFE:
        await trial.dispatch(effect)
        carrying = [
            seen
            for seen in trial.target.requests()
            if effect.downstream_key.encode() in seen.body
            or effect.downstream_key in f"{seen.target} {seen.headers}"
            or trial.target.key_of(seen) is not None
        ]
        if carrying:
            trial.fail(
                "a key went to a target whose contract does not honour one.",
                where=listed(carrying),
                todo="Leave it out: it invites hops on the way to repeat the request.",
            )
        return
    if Fault.LOSE_REQUEST in trial.target.faults:
        trial.target.plan(Fault.LOSE_REQUEST)
    await trial.dispatch(effect)
    await trial.dispatch(effect)
    expected = effect.downstream_key
    if trial.contract.key_quoted:
        expected = f'"{expected}"'
    made = trial.target.requests()
    keys = [trial.target.key_of(seen) for seen in made]
    if len(keys) < 2 or set(keys) != {expected}:
        trial.fail(
            f"the attempts carried {keys}, where each must carry {expected!r}.",
            where=listed(made),
            todo="Send `effect.downstream_key` as it is, on every attempt: derive, cut,"
            " prefix or generate nothing.",
        )


@check(keyed)
async def equal_bytes_on_every_attempt(trial: Trial) -> None:
    """Every attempt of an effect sends the same method, target and body, byte for
    byte.
    """
    effect = trial.effect()
    await trial.dispatch(effect)
    await trial.dispatch(effect)
    made = trial.target.requests()
    if len({(seen.method, seen.target, seen.body) for seen in made}) == 1:
        return
    digests = [hashlib.sha256(seen.body).hexdigest()[:12] for seen in made]
    trial.fail(
        f"two attempts of one effect differ; the bodies' digests are {digests}.",
        where=listed(made),
        todo="Build the body from the effect alone: no clock, no random value, no"
        " attempt number, and a serialisation with a fixed order.",
    )


@check()
async def reported_digest_is_the_wires(trial: Trial) -> None:
    """Where an adapter reports `request_digest`, it is the SHA-256 of the body that was
    sent.
    """
    outcome = await trial.dispatch(trial.effect())
    reported = outcome.evidence.get("request_digest")
    made = trial.target.requests()
    sent = [hashlib.sha256(seen.body).hexdigest() for seen in made]
    if reported is not None and [reported] != sent:
        trial.fail(
            f"the evidence says {reported}, the wire says {', '.join(sent)}.",
            where=listed(made),
            todo="Digest the bytes that are written, or report no digest.",
        )


@check()
async def nothing_is_sent_after_the_deadline(trial: Trial) -> None:
    """An attempt whose send deadline has passed sends nothing, and says so."""
    outcome = await trial.dispatch(trial.effect(), seconds=-0.001)
    made = trial.target.requests()
    if made or not isinstance(outcome, NotSent):
        trial.fail(
            f"{len(made)} requests after the send deadline; the adapter said"
            f" {type(outcome).__name__}.",
            where=listed(made),
            todo="Call `context.permit()` right before the write, and let what it raises"
            " go on.",
        )


@check(needs(Fault.SILENCE))
async def attempt_ends_at_its_deadline(trial: Trial) -> None:
    """A target that never answers holds an attempt no longer than its deadline."""
    trial.target.plan(Fault.SILENCE)
    outcome = await trial.dispatch(trial.effect(), seconds=1.0)
    if not isinstance(outcome, Ambiguous):
        trial.fail(
            f"silence after the request was told as {type(outcome).__name__}.",
            where=listed(trial.target.requests()),
            todo="Return Ambiguous when the deadline ends the wait.",
        )


@check()
async def changed_target_is_not_sent_to(trial: Trial) -> None:
    """An attempt that recorded another account, mode or base URL is not sent."""
    other = hashlib.sha256(b"another account").digest()
    outcome = await trial.dispatch(trial.effect(), scope=other)
    made = trial.target.requests()
    if made or not (isinstance(outcome, Ambiguous) and outcome.contract_violated):
        trial.fail(
            f"{len(made)} requests to another target than the attempt recorded; the"
            f" adapter said {type(outcome).__name__}.",
            where=listed(made),
            todo="Build the adapter for the `scope_digest` it is given, behind a"
            " `SendGate`; `CustomAdapters` does it for a class of your own.",
        )
