"""Tokens of waiting callers: kept until answered, taken by one at a time."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from effect_broker.ports import Callback, Sealed
from tests.conformance.ledgers import S, Store, failed, lost, retryable, succeeded

SEALED = Sealed(b"a sealed token", "k1")
HALF_A_MINUTE = timedelta(seconds=31)


async def keep(store: Store, effect_id: UUID, callback_id: UUID | None = None) -> bool:
    return await store.callbacks.keep(
        store.tenant_id, effect_id, callback_id or uuid4(), SEALED
    )


async def named(store: Store, effect_id: UUID) -> list[Callback]:
    return list(await store.callbacks.claim(uuid4(), 10, effect_ids=[effect_id]))


@pytest.mark.parametrize("settle", [succeeded, failed], ids=["succeeded", "failed"])
async def test_token_waits_for_its_effect_and_is_then_taken_with_what_was_sealed(
    store: Store, settle: object
) -> None:
    claim = await store.dispatching()
    effect_id = claim.work.effect_id
    assert await keep(store, effect_id) is False
    assert await named(store, effect_id) == []
    assert await store.callbacks.claim(uuid4(), 10) == []
    await store.ledger.record([settle(claim)])  # type: ignore[operator]
    (taken,) = await named(store, effect_id)
    assert (taken.effect_id, taken.tenant_id) == (effect_id, store.tenant_id)
    assert (taken.sealed, taken.deliveries) == (SEALED, 1)


async def test_token_of_a_settled_effect_can_be_answered_at_once(store: Store) -> None:
    claim = await store.dispatching()
    await store.ledger.record([succeeded(claim)])
    assert await keep(store, claim.work.effect_id) is True
    assert len(await store.callbacks.claim(uuid4(), 10)) == 1


async def test_same_token_again_is_one_callback(store: Store) -> None:
    claim = await store.dispatching()
    effect_id, callback_id = claim.work.effect_id, uuid4()
    for _ in range(3):
        await keep(store, effect_id, callback_id)
    await keep(store, effect_id)
    await store.ledger.record([succeeded(claim)])
    assert len(await named(store, effect_id)) == 2


async def test_taken_token_is_nobody_elses_until_its_lease_ends(store: Store) -> None:
    claim = await store.dispatching()
    effect_id, token = claim.work.effect_id, uuid4()
    await keep(store, effect_id)
    await store.ledger.record([succeeded(claim)])
    (first,) = await store.callbacks.claim(token, 10, effect_ids=[effect_id])
    assert await named(store, effect_id) == []
    assert await store.callbacks.claim(uuid4(), 10) == []
    await store.pass_time(HALF_A_MINUTE)
    (again,) = await named(store, effect_id)
    assert again.deliveries == 2
    assert await store.callbacks.end(first, token) is False
    await store.pass_time(HALF_A_MINUTE)
    assert await named(store, effect_id) == [], "each delivery waits longer"
    await store.pass_time(HALF_A_MINUTE)
    assert len(await named(store, effect_id)) == 1


async def test_answered_token_is_forgotten(store: Store) -> None:
    claim = await store.dispatching()
    effect_id, token = claim.work.effect_id, uuid4()
    await keep(store, effect_id)
    await store.ledger.record([succeeded(claim)])
    (taken,) = await store.callbacks.claim(token, 10)
    assert await store.callbacks.end(taken, token) is True
    assert await store.callbacks.end(taken, token) is False
    await store.pass_time(timedelta(hours=1))
    assert await store.callbacks.claim(uuid4(), 10) == []


async def test_effect_that_only_a_person_can_move_is_told(store: Store) -> None:
    parked = await store.dispatching()
    await store.ledger.record([lost(parked, delay=None)])
    goes_on = await store.dispatching()
    await store.ledger.record([lost(goes_on)])
    retried = await store.dispatching()
    await store.ledger.record([retryable(retried)])
    for claim in (parked, goes_on, retried):
        await keep(store, claim.work.effect_id)
    await store.pass_time(timedelta(minutes=11))
    taken = await store.callbacks.claim(uuid4(), 10)
    assert [it.effect_id for it in taken] == [parked.work.effect_id]
    assert await store.status(goes_on.work.effect_id) is S.OUTCOME_UNKNOWN


async def test_what_cannot_be_answered_yet_is_looked_at_again(store: Store) -> None:
    claim = await store.dispatching()
    await keep(store, claim.work.effect_id)
    assert await store.callbacks.claim(uuid4(), 10) == []
    await store.ledger.record([succeeded(claim)])
    assert await store.callbacks.claim(uuid4(), 10) == [], "not looked at again yet"
    await store.pass_time(timedelta(minutes=11))
    assert len(await store.callbacks.claim(uuid4(), 10)) == 1


async def test_claim_takes_no_more_than_its_limit(store: Store) -> None:
    claim = await store.dispatching()
    await store.ledger.record([succeeded(claim)])
    for _ in range(5):
        await keep(store, claim.work.effect_id)
    assert len(await store.callbacks.claim(uuid4(), 2)) == 2
    assert len(await store.callbacks.claim(uuid4(), 2)) == 2
    assert len(await store.callbacks.claim(uuid4(), 2)) == 1
