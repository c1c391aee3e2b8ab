from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from effect_broker.domain.errors import ContractConflict, NotFound
from effect_broker.ids import uuid7
from effect_broker.ports import EffectQuery
from tests.conformance.ledgers import (
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


async def ids(store: Store, **query) -> list[UUID]:  # type: ignore[no-untyped-def]
    found = await store.ledger.page(store.tenant_id, EffectQuery(**query))
    return [snapshot.intent.effect_id for snapshot in found]


@guarantee("tenant-from-credential")
async def test_what_another_tenant_owns_is_not_found(store: Store) -> None:
    claim = await store.dispatching()
    await store.ledger.record([succeeded(claim)])
    stranger, effect_id = uuid4(), claim.work.effect_id
    assert await store.ledger.get(stranger, effect_id) is None
    assert await store.ledger.attempts(stranger, effect_id) == []
    assert await store.ledger.events(stranger, effect_id) == []
    assert await store.ledger.receipt(stranger, effect_id) is None
    assert await store.ledger.page(stranger, EffectQuery()) == []
    assert await store.ledger.find(stranger, claim.intent.operation_key) is None


async def test_what_does_not_exist_is_not_found(store: Store) -> None:
    assert await store.ledger.get(store.tenant_id, uuid7()) is None
    assert await store.ledger.receipt(store.tenant_id, uuid7()) is None


async def test_pages_go_from_new_to_old_without_gap_or_repeat(store: Store) -> None:
    made = [(await store.reserve()).intent.effect_id for _ in range(7)]
    seen: list[UUID] = []
    after = None
    while page := await ids(store, limit=3, after=after):
        seen += page
        after = page[-1]
    assert seen == sorted(made, reverse=True)


async def test_each_status_lists_its_effects(store: Store) -> None:
    expected = {
        S.PREPARED: (await store.reserve()).intent.effect_id,
        S.DISPATCHING: (await store.dispatching()).work.effect_id,
    }
    held = {
        status: await store.dispatching()
        for status in (
            S.RETRYABLE,
            S.OUTCOME_UNKNOWN,
            S.RECONCILING,
            S.MANUAL_REVIEW,
            S.SUCCEEDED,
            S.FAILED_FINAL,
            S.COMPENSATED,
        )
    }
    await store.ledger.record(
        [
            retryable(held[S.RETRYABLE], delay=timedelta(hours=1)),
            lost(held[S.OUTCOME_UNKNOWN], delay=None),
            lost(held[S.RECONCILING]),
            step(
                held[S.MANUAL_REVIEW], E.CONTRACT_VIOLATED, S.MANUAL_REVIEW, unknown=True
            ),
            succeeded(held[S.SUCCEEDED]),
            failed(held[S.FAILED_FINAL]),
            succeeded(held[S.COMPENSATED]),
        ]
    )
    await store.reconciling(held[S.RECONCILING].work.effect_id)
    refund = await store.dispatching()
    await store.ledger.record([succeeded(refund)])
    await store.ledger.compensate(
        store.tenant_id,
        held[S.COMPENSATED].work.effect_id,
        refund.work.effect_id,
        actor="operator:1",
        sealed_reason=b"",
        data_key_id="k1",
    )
    expected |= {status: claim.work.effect_id for status, claim in held.items()}
    for status, effect_id in expected.items():
        found = await ids(store, status=status)
        assert effect_id in found, status
        others = set(expected.values()) - {effect_id}
        assert not others & set(found), status


async def test_filters_narrow_a_page(store: Store) -> None:
    other, _ = await store.registry.publish(contract(tool="mail.send", name="mail"))
    mail = store.intent("mail:1", contract_id=other.contract_id, tool="mail.send")
    await store.reserve(mail)
    await store.reserve(store.intent("order:1:charge"))
    charge = await store.reserve(store.intent("order:2:charge"))
    assert await ids(store, tool="mail.send") == [mail.effect_id]
    assert await ids(store, operation_prefix="order:2") == [charge.intent.effect_id]
    assert await ids(store, operation_prefix="order:%") == []
    assert len(await ids(store, status=S.PREPARED, tool="payments.charge")) == 2
    assert await ids(store, older_than=timedelta(hours=1)) == []


@guarantee("unknowns-are-listed")
async def test_every_unproved_effect_is_listed_whatever_its_status(
    store: Store,
) -> None:
    held = [await store.dispatching() for _ in range(4)]
    await store.reserve()
    await store.ledger.record(
        [
            lost(held[0], delay=None),
            lost(held[1]),
            step(held[2], E.CONTRACT_VIOLATED, S.MANUAL_REVIEW, unknown=True),
        ]
    )
    reconciling = await store.reconciling(held[1].work.effect_id)
    redispatched = step(
        reconciling,
        E.REDISPATCH_PERMITTED,
        S.PREPARED,
        delay=timedelta(hours=1),
        redispatches=1,
        unknown=True,
    )
    await store.ledger.record([redispatched])
    unknown = {held[place].work.effect_id for place in range(3)}
    assert set(await ids(store, unknown=True)) == unknown
    await store.pass_time(timedelta(seconds=31))
    assert set(await ids(store, unknown=True)) == unknown | {held[3].work.effect_id}
    assert await ids(store, unknown=True, status=S.DISPATCHING) == [
        held[3].work.effect_id
    ]
    (counted,) = await store.ledger.unknown_summary()
    assert (counted.contract, counted.tool, counted.count) == (
        "payments-charge",
        "payments.charge",
        4,
    )
    assert 31 <= counted.oldest_age_seconds < 120


async def test_the_age_of_an_unknown_counts_from_its_beginning(store: Store) -> None:
    old, new = await store.dispatching(), await store.dispatching()
    await store.ledger.record([lost(old, delay=None)])
    await store.pass_time(timedelta(minutes=10))
    await store.ledger.expire_leases(10, clock_margin=timedelta(0))
    assert new.work.effect_id in await ids(store, unknown=True)
    assert await ids(store, unknown=True, older_than=timedelta(minutes=5)) == [
        old.work.effect_id
    ]


async def test_tenants_are_made_once_and_found_by_slug_and_id(store: Store) -> None:
    again, created = await store.registry.create_tenant("acme", "Another name", "h9")
    assert not created
    assert (again.tenant_id, again.name, again.hmac_key_id) == (
        store.tenant_id,
        "Acme",
        "h1",
    )
    assert await store.registry.tenant(slug="acme") == again
    assert await store.registry.tenant(tenant_id=store.tenant_id) == again
    assert await store.registry.tenant(slug="nobody") is None
    assert await store.registry.tenant() is None
    other, created = await store.registry.create_tenant("zeta", "Zeta", "h1")
    assert created
    assert await store.registry.tenants() == [again, other]
    with pytest.raises(NotFound):
        await store.registry.set_disabled(uuid4(), True)
    await store.registry.set_disabled(other.tenant_id, True)
    found = await store.registry.tenant(slug="zeta")
    assert found is not None
    assert found.disabled


async def test_a_contract_version_is_published_once_and_never_changed(
    store: Store,
) -> None:
    same, created = await store.registry.publish(contract())
    assert (created, same.contract_id) == (False, store.contract_id)
    with pytest.raises(ContractConflict):
        await store.registry.publish(contract(attempt_timeout="11s"))
    newer, created = await store.registry.publish(contract(version="2"))
    assert created
    published = {item.contract_id: item for item in await store.registry.contracts()}
    assert published[store.contract_id].contract == contract()
    assert published[store.contract_id].digest == contract().digest()
    assert not published[store.contract_id].active
    assert published[newer.contract_id].active
    back, created = await store.registry.publish(contract())
    assert (created, back.active) == (False, True)
