from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from effect_broker.domain.errors import NotFound
from tests.conformance.ledgers import E, S, Store, contract, succeeded
from tests.guarantees import guarantee


async def test_a_new_intent_is_prepared_and_due(store: Store) -> None:
    intent = store.intent()
    reserved = await store.reserve(intent)
    assert reserved.created
    assert (reserved.status, reserved.version) == (S.PREPARED, 1)
    assert replace(reserved.intent, created_at=None) == intent
    assert reserved.updated_at == reserved.intent.created_at
    work = await store.work(intent.effect_id)
    assert (work.status, work.attempts, work.unproven) == (S.PREPARED, 0, 0)
    assert work.due_at == work.created_at
    assert work.submit_until == work.created_at + store.contract.submit_deadline
    (event,) = await store.ledger.events(store.tenant_id, intent.effect_id)
    assert (event.type, event.old_status, event.new_status, event.actor) == (
        E.EFFECT_RESERVED,
        None,
        S.PREPARED,
        "agent:7",
    )


@guarantee("one-intent-per-key")
async def test_a_key_that_stands_returns_what_stands_whatever_comes(
    store: Store,
) -> None:
    first = await store.reserve(store.intent("order:1:charge"))
    other = store.intent("order:1:charge", request_hash=bytes(32), preview="{}")
    again = await store.reserve(other)
    assert not again.created
    assert again.intent == first.intent
    assert await store.ledger.get(store.tenant_id, other.effect_id) is None


async def test_the_same_call_repeated_says_created_again(store: Store) -> None:
    intent = store.intent()
    first = await store.reserve(intent)
    second = await store.reserve(intent)
    assert (first.created, second.created) == (True, True)
    assert first == second


async def test_the_same_key_of_another_tenant_is_another_intent(store: Store) -> None:
    tenant, _ = await store.registry.create_tenant("other", "Other", "h1")
    mine = await store.reserve(store.intent("order:1"))
    theirs = await store.reserve(store.intent("order:1", tenant_id=tenant.tenant_id))
    assert mine.created
    assert theirs.created
    assert mine.intent.effect_id != theirs.intent.effect_id


async def test_a_batch_answers_in_its_own_order(store: Store) -> None:
    await store.reserve(store.intent("k:5"))
    intents = [store.intent(f"k:{number}") for number in (9, 5, 1, 9)]
    answers = await store.ledger.reserve(intents)
    assert [answer.created for answer in answers] == [True, False, True, False]
    assert [answer.intent.operation_key for answer in answers] == [
        "k:9",
        "k:5",
        "k:1",
        "k:9",
    ]
    assert answers[3].intent.effect_id == intents[0].effect_id


async def test_text_that_only_looks_like_syntax_is_stored_as_it_is(store: Store) -> None:
    awkward = "a,\"b\"\\{c}(d)'e' \u00e9\U0001f600\t"
    intent = store.intent(
        "key,with(\"all\\{of}'it'",
        preview=awkward,
        requested_by=awkward,
        trace_id="",
        arguments_ciphertext=b"",
    )
    await store.reserve(intent)
    found = await store.ledger.find(store.tenant_id, intent.operation_key)
    assert found is not None
    assert replace(found.intent, created_at=None) == intent


async def test_what_stands_is_found_without_writing(store: Store) -> None:
    assert await store.ledger.find(store.tenant_id, "order:1") is None
    reserved = await store.reserve(store.intent("order:1"))
    found = await store.ledger.find(store.tenant_id, "order:1")
    assert found == replace(reserved, created=False)
    assert await store.ledger.find(uuid4(), "order:1") is None


async def test_a_replay_after_the_end_says_how_it_ended(store: Store) -> None:
    claim = await store.dispatching()
    await store.ledger.record([succeeded(claim)])
    again = await store.reserve(store.intent(claim.intent.operation_key))
    assert (again.created, again.status, again.version) == (False, S.SUCCEEDED, 3)
    assert again.intent == claim.intent


async def test_an_unknown_tenant_or_contract_stores_nothing(store: Store) -> None:
    for changes in ({"tenant_id": uuid4()}, {"contract_id": 4711}):
        with pytest.raises(NotFound):
            await store.ledger.reserve([store.intent("a"), store.intent("b", **changes)])
    assert await store.ledger.find(store.tenant_id, "a") is None


async def test_a_disabled_tenant_reserves_nothing_new_but_reads_what_stands(
    store: Store,
) -> None:
    reserved = await store.reserve()
    await store.registry.set_disabled(store.tenant_id, True)
    with pytest.raises(NotFound):
        await store.reserve()
    again = await store.reserve(store.intent(reserved.intent.operation_key))
    assert again.intent == reserved.intent


async def test_reserved_and_claimed_in_one_step(store: Store) -> None:
    intent, order = store.intent(), store.order()
    reserved, claim = await store.ledger.reserve_leased(intent, order)
    assert claim is not None
    assert (reserved.created, reserved.status, reserved.version) == (
        True,
        S.DISPATCHING,
        2,
    )
    assert claim.token == order.token
    assert claim.attempt is not None
    assert claim.attempt.ordinal == 1
    assert claim.intent == reserved.intent
    events = await store.ledger.events(store.tenant_id, intent.effect_id)
    assert [event.type for event in events] == [E.EFFECT_RESERVED, E.ATTEMPT_STARTED]
    (result,) = await store.ledger.record([succeeded(claim)])
    assert result.version == 3


async def test_a_taken_key_is_never_leased_by_its_reservation(store: Store) -> None:
    first = await store.reserve(store.intent("order:1"))
    reserved, claim = await store.ledger.reserve_leased(
        store.intent("order:1"), store.order()
    )
    assert claim is None
    assert (reserved.created, reserved.intent) == (False, first.intent)
    assert await store.status(first.intent.effect_id) is S.PREPARED


async def test_a_reservation_that_may_not_be_sent_now_is_reserved_only(
    store: Store,
) -> None:
    await store.ledger.hold_dispatch("failover")
    reserved, claim = await store.ledger.reserve_leased(store.intent(), store.order())
    assert claim is None
    assert (reserved.created, reserved.status) == (True, S.PREPARED)
    await store.ledger.release_dispatch("operator")
    short = store.order(budget=timedelta(seconds=5))
    reserved, claim = await store.ledger.reserve_leased(store.intent(), short)
    assert claim is None
    assert reserved.status is S.PREPARED


async def test_an_effect_pins_the_contract_it_was_reserved_under(store: Store) -> None:
    reserved = await store.reserve(store.intent("order:1"))
    newer, _ = await store.registry.publish(contract(version="2"))
    again = await store.reserve(
        store.intent("order:1", contract_id=newer.contract_id, contract_version="2")
    )
    assert again.intent.contract_version == "1"
    assert again.intent.contract_id == reserved.intent.contract_id
