"""The judges: each looks at the rows and says in one sentence what it found broken.

None knows what was played, and none asks the broker: the target's table, the ledger's
rows and the digests are all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.ledger.chain import FIRST_HEAD, event_digest
from examples.crash_matrix.matrix.cells import Scenario
from examples.crash_matrix.matrix.evidence import Evidence, LocalCharge, instant

# The target writes an arrival down once the whole request is read, and this machine is
# busy with other cells: the byte that counts left earlier.
ARRIVAL_SLACK: Final = timedelta(seconds=0.5)

PROVED_ABSENT: Final = frozenset({"not_sent", "not_executed", "rejected"})
WORDS_OF_FAILURE: Final = frozenset({"failed_final", "compensated"})

Broken = Iterator[str]
Judge = Callable[[Scenario, Evidence], Broken]


def broken_promises(scenario: Scenario, evidence: Evidence) -> Sequence[str]:
    """Return every broken promise of a cell; none where all held."""
    return [broken for judge in JUDGES for broken in judge(scenario, evidence)]


def _one_intent(scenario: Scenario, found: Evidence) -> Broken:
    if len(found.effects) != 1:
        yield f"{len(found.effects)} effects stand under one operation key"


def _charges(scenario: Scenario, found: Evidence) -> Broken:
    count = len(found.charges)
    if count > 1:
        yield f"{count} charges"
    elif count == 0 and scenario is not Scenario.C:
        yield "no charge"


def _state(scenario: Scenario, found: Evidence) -> Broken:
    """A, B and T succeed; C does, or says outcome_unknown, and both are true."""
    if scenario is not Scenario.C and found.status != "succeeded":
        yield f"it ends {found.status}, not succeeded"
    if scenario is Scenario.C and found.status not in ("succeeded", "outcome_unknown"):
        yield f"it ends {found.status}, neither succeeded nor outcome_unknown"
    if found.status == "succeeded" and len(found.charges) != 1:
        yield f"succeeded, with {len(found.charges)} charges at the target"


def _receipts(scenario: Scenario, found: Evidence) -> Broken:
    expected = 1 if found.status == "succeeded" else 0
    if len(found.receipts) != expected:
        yield f"{len(found.receipts)} receipts for an effect that is {found.status}"
    charges = {charge.id for charge in found.charges}
    for receipt in found.receipts:
        # An answer that could not be read names no charge.
        if receipt.external_id is not None and receipt.external_id not in charges:
            yield "the receipt names a charge that the target does not have"


def _never_failed(scenario: Scenario, found: Evidence) -> Broken:
    """P6: nothing here was ever proved to have failed."""
    for event in found.events:
        if event.new_status in WORDS_OF_FAILURE:
            yield f"the history says {event.new_status} at {event.sequence}"


def _no_contradiction(scenario: Scenario, found: Evidence) -> Broken:
    if any(effect.contradictions for effect in found.effects):
        yield "a contradiction is recorded"
    if found.holds:
        yield f"dispatch was held: {found.holds[0].reason}"


def _sent_once_where_nothing_can_be_proved(scenario: Scenario, found: Evidence) -> Broken:
    if scenario is Scenario.C and len(found.posts) > 1:
        yield f"{len(found.posts)} requests at a target that can prove nothing"


def _one_key(scenario: Scenario, found: Evidence) -> Broken:
    keys = {(post.idempotency_key, post.reference) for post in found.posts}
    bodies = {post.body_sha256 for post in found.posts}
    if len(keys) > 1 or len(bodies) > 1:
        yield f"{len(keys)} keys and {len(bodies)} bodies in the requests of one effect"


def _every_request_was_permitted(scenario: Scenario, found: Evidence) -> Broken:
    """Rules 2 and 7: an attempt row stands before the request and covers its arrival."""
    if len(found.posts) > len(found.attempts):
        yield f"{len(found.posts)} requests under {len(found.attempts)} attempts"
    for post in found.posts:
        at = instant(post.arrived_at)
        if not any(
            attempt.started_at <= at <= attempt.send_deadline + ARRIVAL_SLACK
            for attempt in found.attempts
        ):
            yield f"a request arrived at {at:%H:%M:%S.%f}, which no attempt covers"


def _one_transaction(scenario: Scenario, found: Evidence) -> Broken:
    """T: whoever charged wrote its receipt in that transaction, or charged nothing."""
    receipts = {receipt.transaction for receipt in found.receipts}
    for charge in found.charges:
        if isinstance(charge, LocalCharge) and charge.transaction not in receipts:
            yield "a charge was committed without its receipt"


def _attempts_follow_proof(scenario: Scenario, found: Evidence) -> Broken:
    """The next attempt waits for the last one's ending or lease; where only a lookup can
    speak, also for settlement.
    """
    for earlier, later in zip(found.attempts, found.attempts[1:], strict=False):
        if later.started_at < _authority_ends(earlier, found.times.lease):
            yield f"attempt {later.ordinal} began while {earlier.ordinal} was under way"
        settled = earlier.send_deadline + found.times.settlement
        unproved = earlier.kind not in PROVED_ABSENT or earlier.late
        if scenario is Scenario.B and unproved and later.started_at <= settled:
            yield f"attempt {later.ordinal} began before {earlier.ordinal} had settled"


def _authority_ends(attempt: Any, lease: timedelta) -> datetime:
    lease_end: datetime = attempt.started_at + lease
    in_time = attempt.ended_at is not None and not attempt.late
    return min(lease_end, attempt.ended_at) if in_time else lease_end


def _chain(scenario: Scenario, found: Evidence) -> Broken:
    heads: dict[Any, tuple[int, bytes, Any]] = {}
    for event in found.events:
        place, previous, status = heads.get(event.effect_id, (0, FIRST_HEAD, None))
        digest = event_digest(
            previous,
            effect_id=event.effect_id,
            sequence=event.sequence,
            at=event.at,
            type=EventType(event.type),
            old=EffectStatus(event.old_status) if event.old_status else None,
            new=EffectStatus(event.new_status),
            actor=event.actor,
            metadata=event.metadata,
        )
        here = (event.sequence, event.old_status, event.digest)
        if here != (place + 1, status, digest):
            yield f"the digest chain breaks at {event.sequence}"
        heads[event.effect_id] = (event.sequence, event.digest, event.new_status)
    for effect in found.effects:
        status = heads.get(effect.effect_id, (0, b"", None))[2]
        if status != (effect.ended_as or effect.live_status):
            yield "the history does not end in the state that stands"


def _nothing_is_stuck(scenario: Scenario, found: Evidence) -> Broken:
    for effect in found.effects:
        if effect.live_status is not None and effect.claim_token is not None:
            yield f"it is still held by somebody, {effect.live_status}"


JUDGES: Final[Sequence[Judge]] = (
    _one_intent,
    _charges,
    _state,
    _receipts,
    _never_failed,
    _no_contradiction,
    _sent_once_where_nothing_can_be_proved,
    _one_key,
    _every_request_was_permitted,
    _one_transaction,
    _attempts_follow_proof,
    _chain,
    _nothing_is_stuck,
)


def broken_by_processes(statuses: Mapping[str, int | None]) -> Broken:
    """Say which process ended otherwise than by a signal, its watchdog or its work."""
    for name, status in statuses.items():
        if status not in (None, 0, -9, 75):
            yield f"{name} broke, with exit status {status}"


def broken_by_draining(name: str, status: int | None, held: int) -> Broken:
    """Look at a worker that was told to end: it did, and its attempts are recorded.

    One that its watchdog ended had something left that could not be stopped otherwise. A
    reconciliation changes nothing, and may be left to its lease.
    """
    if status not in (0, 75):
        yield f"{name} was told to end and ended with {status}"
    if status == 0 and held:
        yield f"{name} ended in good order and left {held} attempts to their leases"


def broken_by_answers(
    answers: Sequence[Mapping[str, Any]], effect_ids: set[str], status: str
) -> Broken:
    """Look at what callers were told: always the one effect, and its state at the end."""
    if len(effect_ids) > 1:
        yield f"callers were told of {len(effect_ids)} effects"
    for answer in answers:
        if not answer.get("replayed"):
            yield f"a repetition at the end was no replay: {dict(answer)}"
        elif answer["status"] != status:
            yield f"a repetition is told {answer['status']}, the ledger says {status}"
