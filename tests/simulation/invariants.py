"""What must hold after every step of a history, one rule a function; None is well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from effect_broker.domain.errors import PayloadDrift
from effect_broker.domain.intent import Reservation
from effect_broker.domain.status import TERMINAL, EffectStatus
from effect_broker.ledger.memory_effect import MemoryEffect
from effect_broker.ports import EffectQuery, Step, StepResult, StepStatus

if TYPE_CHECKING:
    from tests.simulation.target import Row
    from tests.simulation.world import Effect, Sent, World

S = EffectStatus


def of_a_row(world: World, row: Row) -> str | None:
    """At most one object for each operation key, in all accounts together."""
    name = row.operation_key
    count = sum(other.operation_key == name for other in world.target.rows)
    if count > 1:
        return f"{name}: {count} objects at the target"
    effect_id = world.ids.get(name)
    if (
        effect_id is not None
        and world.ledger._effects[effect_id].status is S.FAILED_FINAL
    ):
        return f"{name}: an object appears after the effect failed for good"
    return None


def of_a_send(world: World, effect_id: UUID, sends: Sequence[Sent]) -> str | None:
    """Rules 2, 3, 6, 7, 10 and 14: what a request needs before it may leave."""
    latest = sends[-1]
    request, name = latest.request, latest.request.operation_key
    effect = world.ledger._effects[effect_id]
    attempt = next(
        (it for it in effect.attempts if it.attempt_id == latest.attempt_id), None
    )
    if attempt is None:
        return f"{name}: a request without an attempt row"
    if sum(sent.attempt_id == latest.attempt_id for sent in sends) > 1:
        return f"{name}: a second request of one attempt"
    keys = [effect.intent.downstream_key, *effect.generations.values()]
    if request.key is not None and request.key not in keys:
        return f"{name}: a request under a key that is not the ledger's"
    others = [it.request.key for it in sends if it.request.key != request.key]
    if others and not effect.generations:
        return f"{name}: two keys without a new generation"
    deadline = (attempt.send_deadline - world.ledger_now()).total_seconds()
    if deadline < -1.5 and world.clock_off > -1.0:
        return f"{name}: a request leaves {-deadline:.1f} s after its deadline"
    if effect.intent.safety == "unsafe" and effect.work is not None:
        unproven = effect.work.unproven
        if unproven > 1:
            return f"{name}: unsafe, and {unproven} attempts may have been executed"
    if effect.work is not None and effect.work.attempts == attempt.ordinal:
        earlier = {
            it.request.account for it in sends[:-1] if effect.work.proven_through == 0
        }
        if earlier and earlier != {request.account}:
            return f"{name}: sent to another account than the attempts before"
    return None


def of_an_effect(world: World, effect: Effect, found: MemoryEffect) -> str | None:
    """What the ledger says is what the target's table shows."""
    name = effect.operation_key
    if world.ids.setdefault(name, found.intent.effect_id) != found.intent.effect_id:
        return f"{name}: two effects under one operation key"
    rows = [row for row in world.target.rows if row.operation_key == name]
    if found.status is S.SUCCEEDED and not rows:
        return f"{name}: succeeded, and no object at the target"
    if found.status is S.FAILED_FINAL and rows:
        return f"{name}: failed for good, and its object is there"
    if found.status in TERMINAL and found.receipt is None:
        return f"{name}: {found.status} without a receipt"
    if found.status in TERMINAL and found.work is not None:
        return f"{name}: {found.status}, and work is left"
    if found.status is S.SUCCEEDED and found.receipt is not None and rows:
        told = found.receipt.draft.external_id
        if told is not None and told != rows[0].row_id:
            return f"{name}: the receipt names {told}, the object is {rows[0].row_id}"
    sequences = [event.sequence for event in found.events]
    if sequences != list(range(1, len(sequences) + 1)):
        return f"{name}: the history has a gap"
    if found.events[-1].new_status is not found.status:
        return f"{name}: the last event says {found.events[-1].new_status}"
    return None


def of_listing(world: World) -> str | None:
    """Rule 5: whatever may have happened is listed as unknown, whatever its status."""
    for effect in world.effects:
        effect_id = world.ids.get(effect.operation_key)
        if effect_id is None:
            continue
        found = world.ledger._effects[effect_id]
        if not _is_listed(world, found):
            return (
                f"{effect.operation_key}: {found.status} with an unproved attempt, and"
                " not listed"
            )
    return None


def _is_listed(world: World, found: MemoryEffect) -> bool:
    """Whatever has an unproved attempt whose time is over is unknown to every reader."""
    work = found.work
    if work is None or work.unproven == 0:
        return True
    lapsed = work.settlement_at is not None and work.settlement_at < world.ledger_now()
    if found.status is S.DISPATCHING or not lapsed:
        return True
    return work.unknown_since is not None


def of_a_record(
    world: World, steps: Sequence[Step], results: Sequence[StepResult]
) -> str | None:
    """Rule 10: what a worker learned is kept with its attempt, also if it was late."""
    for step, result in zip(steps, results, strict=True):
        done = result.status in (StepStatus.APPLIED, StepStatus.FENCED)
        if not done or step.attempt is None or step.transition.ending is None:
            continue
        effect = world.ledger._effects[step.effect_id]
        if effect.attempts[step.attempt.ordinal - 1].ending is None:
            return f"{effect.intent.operation_key}: what an attempt learned is lost"
    return None


def of_an_answer(
    world: World, effect: Effect, made: Reservation, drifts: bool
) -> str | None:
    """A caller is told the one effect; changed arguments are never accepted."""
    name = effect.operation_key
    first = world.ledger._effects[made.effect.effect_id]
    asked = b'{"amount":%d}' % (effect.amount + drifts)
    if first.intent.arguments_ciphertext != asked:
        return f"{name}: changed arguments were answered as a replay"
    if world.ids.setdefault(name, first.intent.effect_id) != first.intent.effect_id:
        return f"{name}: two callers were told two effects"
    return None


def of_a_drift(
    world: World, effect: Effect, refused: PayloadDrift, drifts: bool
) -> str | None:
    """Equal arguments are no drift, whatever was deployed since."""
    stored = world.ledger._effects[refused.effect_id].intent
    if stored.arguments_ciphertext == b'{"amount":%d}' % (effect.amount + drifts):
        return f"{effect.operation_key}: equal arguments were refused as drift"
    return None


async def of_the_end(world: World) -> str | None:
    """Nothing is stuck; every effect ended as its class promises."""
    for effect in world.effects:
        name = effect.operation_key
        effect_id = world.ids.get(name)
        if effect_id is None:
            return f"{name}: never reserved"
        found = world.ledger._effects[effect_id]
        if found.status not in TERMINAL:
            listed = await world.ledger.page(
                world.tenant.tenant_id, EffectQuery(unknown=True)
            )
            ids = {it.intent.effect_id for it in listed}
            told = "listed" if effect_id in ids else "not even listed"
            return f"{name}: stuck in {found.status} ({told}) when the dust has settled"
        rows = sum(row.operation_key == name for row in world.target.rows)
        if rows != (found.status is S.SUCCEEDED):
            return f"{name}: {found.status}, and {rows} objects at the target"
        if found.contradicted:
            return f"{name}: a late answer contradicts {found.status}"
    return None
