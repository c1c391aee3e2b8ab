from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from effect_broker.domain.errors import DispatchHeld
from effect_broker.domain.resolution import SendRefusal
from effect_broker.ports import ContractTerms, StepStatus
from tests.conformance.ledgers import (
    MARGIN,
    OTHER_SCOPE,
    SCOPE,
    E,
    S,
    Store,
    contract,
    failed,
    lost,
    retryable,
    step,
    succeeded,
)
from tests.guarantees import guarantee

SECOND = timedelta(seconds=1)


async def test_a_claim_starts_an_attempt_with_its_deadlines(store: Store) -> None:
    reserved = await store.reserve()
    claim = await store.claim(reserved.intent.effect_id)
    attempt, work = claim.attempt, claim.work
    assert attempt is not None
    assert attempt.started_at == claim.now
    assert attempt.send_deadline == claim.now + timedelta(seconds=10)
    assert claim.lease_until == claim.now + timedelta(seconds=30)
    assert work.settlement_at == attempt.send_deadline + timedelta(seconds=60)
    assert work.horizon_at == claim.now + timedelta(hours=24)
    assert (work.status, work.version, work.attempts, work.unproven) == (
        S.DISPATCHING,
        2,
        1,
        1,
    )
    assert (attempt.ordinal, attempt.version, attempt.key_generation) == (1, 2, 1)
    assert (attempt.worker, attempt.scope_digest) == ("worker-1", SCOPE)
    assert claim.downstream_key == claim.intent.downstream_key
    assert claim.intent == reserved.intent
    assert await store.ledger.attempts(store.tenant_id, work.effect_id) == [attempt]
    events = await store.ledger.events(store.tenant_id, work.effect_id)
    assert [event.type for event in events] == [E.EFFECT_RESERVED, E.ATTEMPT_STARTED]
    assert await store.work(work.effect_id) == work


async def test_leased_work_is_not_claimed_twice(store: Store) -> None:
    claim = await store.dispatching()
    assert (await store.claims()).claims == []
    named = await store.ledger.claim(store.order(claim.work.effect_id))
    assert named.claims == []


async def test_a_claim_takes_no_more_than_its_limit_and_says_what_is_left(
    store: Store,
) -> None:
    await store.ledger.reserve([store.intent() for _ in range(5)])
    first = await store.claims(limit=3)
    second = await store.claims(limit=3)
    assert (len(first.claims), first.more) == (3, True)
    assert (len(second.claims), second.more) == (2, False)
    assert not {claim.work.effect_id for claim in first.claims} & {
        claim.work.effect_id for claim in second.claims
    }


async def test_work_that_is_not_due_waits(store: Store) -> None:
    claim = await store.dispatching()
    await store.ledger.record([retryable(claim, delay=timedelta(minutes=5))])
    assert (await store.claims()).claims == []
    assert (await store.ledger.claim(store.order(claim.work.effect_id))).claims == []
    await store.pass_time(timedelta(minutes=5, seconds=1))
    again = await store.claim(claim.work.effect_id)
    assert again.work.attempts == 2
    assert again.attempt is not None
    assert again.attempt.ordinal == 2


async def test_a_contract_that_the_process_cannot_dispatch_is_left_alone(
    store: Store,
) -> None:
    await store.reserve()
    claimed = await store.claims(terms=[ContractTerms(4711, SCOPE)])
    assert (claimed.claims, claimed.refused) == ([], [])


async def test_an_attempt_that_does_not_fit_the_budget_is_left_alone(
    store: Store,
) -> None:
    await store.reserve()
    assert (await store.claims(budget=timedelta(seconds=10))).claims == []
    fits = await store.claims(budget=timedelta(seconds=10) + MARGIN)
    assert len(fits.claims) == 1


async def test_one_tenant_with_much_work_does_not_starve_another(store: Store) -> None:
    await store.ledger.reserve([store.intent() for _ in range(50)])
    small, _ = await store.registry.create_tenant("small", "Small", "h1")
    await store.ledger.reserve([store.intent(tenant_id=small.tenant_id)])
    claimed = await store.claims(limit=10)
    assert small.tenant_id in {claim.work.tenant_id for claim in claimed.claims}
    assert len(claimed.claims) == 10


async def test_few_unsafe_effects_at_once_and_the_others_go_on(store: Store) -> None:
    unsafe, _ = await store.registry.publish(contract("unsafe", name="wire"))
    terms = [
        ContractTerms(unsafe.contract_id, SCOPE),
        ContractTerms(store.contract_id, SCOPE),
    ]
    await store.ledger.reserve(
        [store.intent(contract_id=unsafe.contract_id, safety="unsafe") for _ in range(6)]
    )
    await store.ledger.reserve([store.intent() for _ in range(3)])
    claimed = await store.claims(limit=5, unsafe_limit=2, terms=terms)
    safeties = [claim.intent.safety for claim in claimed.claims]
    assert safeties.count("unsafe") == 2
    assert safeties.count("idempotent") == 3
    assert claimed.more
    none = await store.claims(limit=5, unsafe_limit=0, terms=terms)
    assert none.claims == []


@guarantee("horizon-forbids-send")
async def test_the_last_arrival_must_lie_inside_the_horizon(store: Store) -> None:
    await store.open(
        contract(
            name="short",
            key_retention="10m",
            submit_deadline="1h",
            retry_limit=0,
            short_horizon=True,
        )
    )
    first, second = await store.dispatching(), await store.dispatching()
    await store.ledger.record([retryable(first), retryable(second)])
    await store.pass_time(timedelta(minutes=10) - timedelta(seconds=72))
    inside = await store.claim(first.work.effect_id)
    assert inside.work.horizon_at is not None
    await store.pass_time(timedelta(seconds=2))
    claimed = await store.ledger.claim(store.order(second.work.effect_id))
    assert claimed.claims == []
    (refused,) = claimed.refused
    assert refused.refusal is SendRefusal.HORIZON_OVER
    assert refused.work.status is S.RETRYABLE
    assert await store.work(second.work.effect_id) == refused.work


async def test_effects_past_their_submit_deadline_are_refused_and_found(
    store: Store,
) -> None:
    reserved = await store.reserve()
    assert await store.ledger.overdue(10, clock_margin=MARGIN) == []
    await store.pass_time(timedelta(hours=1, seconds=1))
    claimed = await store.claims()
    assert [item.refusal for item in claimed.refused] == [SendRefusal.SUBMIT_DEADLINE]
    (overdue,) = await store.ledger.overdue(10, clock_margin=MARGIN)
    assert overdue.intent == reserved.intent
    assert overdue.refusal is SendRefusal.SUBMIT_DEADLINE
    assert await store.status(reserved.intent.effect_id) is S.PREPARED


async def test_another_scope_than_the_first_attempts_is_refused(store: Store) -> None:
    claim = await store.dispatching()
    await store.ledger.record([retryable(claim)])
    claimed = await store.claims(terms=[ContractTerms(store.contract_id, OTHER_SCOPE)])
    assert [item.refusal for item in claimed.refused] == [SendRefusal.SCOPE_CHANGED]
    assert claimed.claims == []


@guarantee("expired-lease-is-unknown")
async def test_expired_lease_becomes_outcome_unknown_not_retryable(store: Store) -> None:
    claim = await store.dispatching()
    assert await store.ledger.expire_leases(10, clock_margin=MARGIN) == []
    await store.pass_time(timedelta(seconds=31))
    (lapsed,) = await store.ledger.expire_leases(10, clock_margin=MARGIN)
    assert (lapsed.effect_id, lapsed.status) == (
        claim.work.effect_id,
        S.OUTCOME_UNKNOWN,
    )
    work = await store.work(claim.work.effect_id)
    assert (work.status, work.version, work.unproven) == (S.OUTCOME_UNKNOWN, 3, 1)
    assert work.unknown_since is not None
    assert (await store.claims()).claims == []
    (attempt,) = await store.ledger.attempts(store.tenant_id, claim.work.effect_id)
    assert attempt.ending is None


async def test_the_clock_margin_delays_the_end_of_a_lease(store: Store) -> None:
    await store.dispatching()
    await store.pass_time(timedelta(seconds=31))
    assert await store.ledger.expire_leases(10, clock_margin=timedelta(minutes=1)) == []


async def test_an_unsafe_effect_whose_lease_ended_waits_for_evidence(
    store: Store,
) -> None:
    await store.open(contract("unsafe", name="wire"))
    claim = await store.dispatching()
    await store.lapse(claim)
    work = await store.work(claim.work.effect_id)
    assert (work.status, work.due_at) == (S.OUTCOME_UNKNOWN, None)
    claimed = await store.ledger.claim_reconciliation(store.order())
    assert claimed.claims == []


async def test_a_renewed_lease_does_not_end_and_moves_no_send_deadline(
    store: Store,
) -> None:
    claim = await store.dispatching()
    effect_id = claim.work.effect_id
    await store.pass_time(timedelta(seconds=20))
    held = await store.ledger.renew(claim.token, [effect_id], timedelta(seconds=30))
    assert held == {effect_id}
    await store.pass_time(timedelta(seconds=20))
    assert await store.ledger.expire_leases(10, clock_margin=MARGIN) == []
    (attempt,) = await store.ledger.attempts(store.tenant_id, effect_id)
    assert claim.attempt is not None
    assert attempt.send_deadline == claim.attempt.send_deadline
    assert (await store.work(effect_id)).version == 2


async def test_a_renewal_never_shortens_a_lease(store: Store) -> None:
    claim = await store.dispatching()
    before = (await store.work(claim.work.effect_id)).due_at
    await store.ledger.renew(claim.token, [claim.work.effect_id], SECOND)
    assert (await store.work(claim.work.effect_id)).due_at == before


@guarantee("every-transition-is-a-swap")
async def test_the_ghost_of_the_same_worker_touches_nothing(store: Store) -> None:
    ghost = await store.dispatching()
    effect_id = ghost.work.effect_id
    await store.ledger.record([retryable(ghost)])
    again = await store.claim(effect_id)
    assert again.work.version == 4
    assert await store.ledger.renew(ghost.token, [effect_id], SECOND) == frozenset()
    results = await store.ledger.record([lost(ghost)])
    results = [*results, *await store.ledger.record([failed(ghost)])]
    assert {result.status for result in results} == {StepStatus.FENCED}
    assert await store.work(effect_id) == again.work


async def test_a_reconciliation_is_leased_work(store: Store) -> None:
    claim = await store.dispatching()
    await store.lapse(claim)
    reconciling = await store.reconciling(claim.work.effect_id)
    assert reconciling.attempt is None
    assert reconciling.work.status is S.RECONCILING
    assert reconciling.work.version == 4
    assert reconciling.work.unknown_since is not None
    assert reconciling.lease_until == reconciling.now + timedelta(seconds=30)
    second = await store.ledger.claim_reconciliation(store.order())
    assert second.claims == []
    await store.pass_time(timedelta(seconds=31))
    await store.ledger.expire_leases(10, clock_margin=MARGIN)
    events = await store.ledger.events(store.tenant_id, claim.work.effect_id)
    assert [event.type for event in events[2:]] == [
        E.OUTCOME_LOST,
        E.RECONCILIATION_STARTED,
        E.RECONCILIATION_INTERRUPTED,
    ]
    assert await store.status(claim.work.effect_id) is S.OUTCOME_UNKNOWN


async def test_a_probe_that_does_not_fit_the_budget_is_left_alone(store: Store) -> None:
    claim = await store.dispatching()
    await store.lapse(claim)
    short = store.order(budget=timedelta(seconds=9))
    assert (await store.ledger.claim_reconciliation(short)).claims == []
    enough = store.order(budget=timedelta(seconds=11))
    assert len((await store.ledger.claim_reconciliation(enough)).claims) == 1


async def test_held_dispatch_claims_nothing_and_says_why(store: Store) -> None:
    reserved = await store.reserve()
    await store.ledger.hold_dispatch("a failover lost commits")
    await store.ledger.hold_dispatch("a later reason")
    with pytest.raises(DispatchHeld, match="a failover lost commits"):
        await store.claims()
    with pytest.raises(DispatchHeld):
        await store.ledger.claim(store.order(reserved.intent.effect_id))
    hold = await store.ledger.dispatch_hold()
    assert hold is not None
    assert hold.reason == "a failover lost commits"
    assert await store.ledger.release_dispatch("operator:1")
    assert not await store.ledger.release_dispatch("operator:1")
    assert await store.ledger.dispatch_hold() is None
    assert len((await store.claims()).claims) == 1


async def test_a_named_claim_ignores_what_does_not_exist_or_repeats(store: Store) -> None:
    reserved = await store.reserve()
    effect_id = reserved.intent.effect_id
    claimed = await store.ledger.claim(store.order(effect_id, uuid4(), effect_id))
    assert len(claimed.claims) == 1


async def test_a_new_key_generation_is_what_the_next_attempt_sends(store: Store) -> None:
    claim = await store.dispatching()
    await store.ledger.record(
        [
            step(
                claim,
                E.ATTEMPT_REJECTED,
                S.RETRYABLE,
                delay=timedelta(0),
                unproven=0,
                proven_through=1,
                key_generation=2,
                fresh_horizon=True,
                downstream_key="second-key",
            )
        ]
    )
    assert (await store.work(claim.work.effect_id)).horizon_at is None
    again = await store.claim(claim.work.effect_id)
    assert again.downstream_key == "second-key"
    assert again.intent.downstream_key == claim.intent.downstream_key
    assert again.attempt is not None
    assert again.attempt.key_generation == 2
    assert again.work.horizon_at == again.now + timedelta(hours=24)


async def test_what_has_ended_is_never_claimed(store: Store) -> None:
    claim = await store.dispatching()
    await store.ledger.record([succeeded(claim)])
    await store.pass_time(timedelta(days=2))
    assert (await store.claims()).claims == []
    assert (await store.ledger.claim_reconciliation(store.order())).claims == []
    assert await store.ledger.expire_leases(10, clock_margin=MARGIN) == []
