"""How effects look in a terminal; programs get the same documents as over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from effect_broker.surfaces.cli.ground import print_json

if TYPE_CHECKING:
    from rich.console import Console

    from effect_broker.broker.inspecting import EffectView
    from effect_broker.surfaces.answers import (
        AttemptAnswer,
        EffectAnswer,
        EffectDetail,
        EventAnswer,
        ForkAnswer,
    )
    from effect_broker.surfaces.cli.inspecting import Inspected
    from effect_broker.surfaces.cli.reach import Found


def print_effects(found: Sequence[Found], *, more: bool, as_json: bool) -> None:
    """Print a list: for people two lines an effect, for programs one document."""
    if as_json:
        from effect_broker.surfaces.telling import effect_answer

        for one in found:
            told = effect_answer(one.view).model_dump(mode="json")
            print_json({"tenant": one.tenant, **told, "age_seconds": _age_seconds(one)})
        return
    if not found:
        print("No such effect.")
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("effect", "age", "state"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    table.add_column("what, why, and what may be done", overflow="fold")
    for one in found:
        table.add_row(*(Text("\n".join(cell)) for cell in _cells(one)))
    _console().print(table)
    if more:
        print("There are more; raise --limit, or narrow the list.")


def print_effect(tenant: str, answer: EffectAnswer, *, as_json: bool) -> None:
    """Print what became of one effect."""
    if as_json:
        print_json({"tenant": tenant, **answer.model_dump(mode="json")})
        return
    print(f"{answer.effect_id}  {answer.status}, version {answer.version}")
    print(answer.outcome)


def print_fork(answer: ForkAnswer, *, as_json: bool) -> None:
    """Print where the recorded answers lead to."""
    if as_json:
        print_json(answer.model_dump(mode="json"))
        return
    start, end = answer.start, answer.end
    print(f"From event {start.sequence}, {start.status}; nothing is sent:")
    for line in _history(answer.recorded, start.updated_at):
        print(line)
    settled = "with a receipt" if answer.receipt else "not settled"
    print(f"It ends at event {end.sequence}, {end.status}, {settled}.")


def print_timeline(inspected: Inspected, *, as_json: bool) -> None:
    """Draw an effect: what it is, what happened to it, its attempts, what may be done."""
    if as_json:
        print_json(inspected.document())
        return
    effect, state = inspected.effect, inspected.state
    for name, value in _facts(inspected):
        print(f"{name:<18}{value}")
    print()
    last = state.sequence if state else effect.version
    shown = [event for event in effect.history if event.sequence <= last]
    for line in _history(shown, effect.created_at):
        print(line)
    started = state.attempts if state else len(effect.attempts)
    if started:
        print()
        for attempt in effect.attempts[:started]:
            print(_attempt_line(attempt))
    if state is None:
        print()
        print(effect.outcome)
        print("; ".join(_may_be_done(effect)))


def _facts(inspected: Inspected) -> Iterator[tuple[str, str]]:
    effect, state = inspected.effect, inspected.state
    yield "effect", effect.effect_id
    yield "operation key", effect.operation_key
    yield "tenant", inspected.tenant
    contract = effect.contract
    yield "contract", f"{contract.name} {contract.version}, {contract.safety}"
    yield "tool", effect.tool
    yield "arguments", _shown(effect.arguments_preview)
    if state is not None:
        yield "state", f"{state.status} at event {state.sequence}"
        yield "now", f"{effect.status}, version {effect.version}"
        return
    yield "state", f"{effect.status}, version {effect.version}"
    if effect.unknown_since is not None:
        yield "unknown since", _instant(effect.unknown_since)
    for name, value in effect.deadlines:
        if value is not None:
            yield name.replace("_", " "), _instant(value)


def _history(events: Sequence[EventAnswer], before: datetime) -> Iterator[str]:
    """Yield a line an event: when, how long after the one before, and what it did."""
    for event in events:
        after = _span(event.at - before)
        before = event.at
        arrow = f"{event.old_status or '·'} → {event.new_status}"
        said = " ".join(f"{name}={_shown(it)}" for name, it in event.metadata.items())
        yield (
            f"{event.sequence:>4}  {_instant(event.at)}  {after:>7}  ● "
            f"{event.type:<25} {arrow:<33} {event.actor}  {said}"
        ).rstrip()


def _attempt_line(attempt: AttemptAnswer) -> str:
    took = (
        "…" if attempt.ended_at is None else _span(attempt.ended_at - attempt.started_at)
    )
    outcome = attempt.outcome or "no ending on record"
    why = f": {_shown(attempt.reason)}" if attempt.reason else ""
    left = "bytes may have left" if attempt.bytes_may_have_left else "nothing left"
    late = ", late" if attempt.late else ""
    return (
        f"attempt {attempt.ordinal}  key generation {attempt.key_generation}  {took}"
        f"  {outcome}{why} ({left}{late})"
    )


def _cells(found: Found) -> Iterator[tuple[str, ...]]:
    view, intent = found.view, found.view.snapshot.intent
    contract = f"{intent.contract_name} {intent.contract_version}"
    yield str(intent.effect_id), found.tenant
    yield (_span(timedelta(seconds=_age_seconds(found))),)
    yield str(view.snapshot.status), contract
    why = _shown(view.snapshot.reason or "·")
    yield intent.operation_key, f"{why}; {_next_of(view)}"


def _next_of(view: EffectView) -> str:
    from effect_broker.surfaces.telling import effect_answer

    return "; ".join(_may_be_done(effect_answer(view)))


def _may_be_done(effect: EffectAnswer | EffectDetail) -> Iterator[str]:
    """Yield what may be done, as the command that does it."""
    for step in effect.next:
        if step.action == "wait":
            due = effect.deadlines.next_step_at
            yield f"wait: the broker goes on at {_instant(due)}" if due else "wait"
        elif step.action == "request_reconciliation":
            yield "effects reconcile"
        elif step.action == "resolve":
            after = effect.deadlines.resolvable_after
            seen = f" (absence counts if seen after {_instant(after)})" if after else ""
            yield f"effects resolve{seen}"
        else:
            yield "read its receipt"


def _age_seconds(found: Found) -> float:
    """Return how long an effect has been unknown, or since when it exists."""
    snapshot = found.view.snapshot
    since = found.view.unknown_since or snapshot.intent.created_at or snapshot.now
    return round((snapshot.now - since).total_seconds(), 3)


def _span(span: timedelta) -> str:
    """Write a span with its largest unit, as people read ages."""
    seconds = span.total_seconds()
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s" if seconds >= 10 else f"{seconds:.2f}s"


def _instant(instant: datetime) -> str:
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _shown(value: Any) -> str:
    """Write a value without what would move the cursor: reasons come from targets too."""
    import json

    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return "".join(
        sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text
    )


def _console() -> Console:
    from rich.console import Console

    return Console()
