"""One key is one effect: replays, drift, deploys and rotations never make a second
one.
"""

from __future__ import annotations

import asyncio

import pytest

from effect_broker.cipher import AesGcmCipher, Keyring
from effect_broker.domain.errors import (
    Forbidden,
    InvalidArguments,
    PayloadDrift,
    UnknownTool,
)
from effect_broker.domain.intent import EffectRequest
from effect_broker.domain.status import EffectStatus
from tests.guarantees import guarantee
from tests.integration.broker.world import KEYRING, World, contract

KEY = "order:1:charge:v1"


@guarantee("replay-answers-the-same")
async def test_same_key_and_arguments_return_the_existing_effect_in_any_state(
    world: World,
) -> None:
    await world.open(contract())
    first = await world.submit(KEY, "lose_answer")
    for step in (world.dispatcher().run_once, world.settle):
        again = await world.submit(KEY)
        assert (again.replayed, again.created) == (True, False)
        assert again.effect.effect_id == first.effect.effect_id
        await step()
    assert (await world.submit(KEY)).effect.status is EffectStatus.SUCCEEDED
    assert len(world.target.objects) == 1


@guarantee("drift-is-refused")
async def test_other_arguments_under_the_key_are_refused_with_the_fields_named(
    world: World,
) -> None:
    await world.open(contract())
    first = await world.submit(KEY)
    for _ in range(2):
        with pytest.raises(PayloadDrift) as refused:
            await world.submit(KEY, amount=200)
        assert refused.value.effect_id == first.effect.effect_id
        assert refused.value.fields == ("amount",)
        await world.dispatcher().run_once()
    assert len(world.target.objects) == 1


@guarantee("replay-answers-the-same")
async def test_identical_retry_after_a_contract_deploy_is_a_replay(world: World) -> None:
    await world.open(contract())
    first = await world.submit(KEY)
    await world.registry.publish(contract(version="2", retry_limit=9))
    again = await world.submit(KEY)
    assert again.replayed
    assert again.effect.effect_id == first.effect.effect_id
    assert again.effect.contract.version == "1"
    with pytest.raises(PayloadDrift):
        await world.submit(KEY, amount=1)
    other = await world.submit("order:2:charge:v1")
    assert other.effect.contract.version == "2"


async def test_existing_effect_is_returned_though_the_schema_was_tightened(
    world: World,
) -> None:
    await world.open(contract())
    first = await world.submit(KEY)
    tighter = {
        "type": "object",
        "properties": {"amount": {"type": "integer", "maximum": 10}},
        "required": ["amount"],
    }
    await world.registry.publish(contract(version="2", arguments=tighter))
    assert (await world.submit(KEY)).effect.effect_id == first.effect.effect_id
    with pytest.raises(InvalidArguments):
        await world.submit("order:2:charge:v1")


async def test_two_keys_with_equal_arguments_are_two_effects(world: World) -> None:
    await world.open(contract())
    one, two = (
        await world.submit("order:1:refund:1"),
        await world.submit("order:1:refund:2"),
    )
    assert one.effect.effect_id != two.effect.effect_id
    assert one.effect.downstream_key != two.effect.downstream_key
    await world.dispatcher().run_once()
    assert len(world.target.objects) == 2


async def test_rewording_outside_the_intent_is_a_replay_of_what_was_stored(
    world: World,
) -> None:
    schema = {
        "type": "object",
        "properties": {"amount": {"type": "integer"}, "reason": {"type": "string"}},
        "required": ["amount"],
    }
    await world.open(contract(arguments=schema, non_intent_fields=["reason"]))
    tenant = world.tenant.tenant_id
    first = await world.broker.submit(
        tenant, EffectRequest(KEY, "sim.charge", {"amount": 1, "reason": "late"})
    )
    again = await world.broker.submit(
        tenant, EffectRequest(KEY, "sim.charge", {"amount": 1, "reason": "too late"})
    )
    assert again.replayed
    assert again.effect.effect_id == first.effect.effect_id
    assert again.effect.request.arguments == {"amount": 1, "reason": "late"}


@guarantee("one-intent-per-key")
async def test_many_submits_at_once_make_one_effect(world: World) -> None:
    await world.open(contract())
    reservations = await asyncio.gather(*(world.submit(KEY) for _ in range(40)))
    assert sum(reservation.created for reservation in reservations) == 1
    assert len({reservation.effect.effect_id for reservation in reservations}) == 1


@guarantee("key-rotation-keeps-keys")
async def test_key_rotation_changes_no_key_in_flight(world: World) -> None:
    await world.open(contract())
    effect = (await world.submit(KEY, "lose_answer")).effect
    await world.dispatcher().run_once()
    rotated = KEYRING.replace('"hmac_keys": {"h1": "AAEC', '"hmac_keys": {"h1": "//EC')
    assert rotated != KEYRING
    world.cipher = AesGcmCipher(Keyring.from_json(rotated))
    await world.settle()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert {request.key for request in world.target.requests} == {effect.downstream_key}


async def test_kept_rejection_is_final_where_no_new_key_is_allowed(world: World) -> None:
    await world.open(contract(key_records="all_answers", retry_limit=5))
    effect = (await world.submit(KEY, "reject")).effect
    await world.settle()
    assert await world.status(effect.effect_id) is EffectStatus.FAILED_FINAL
    assert len(world.target.requests) == 1


async def test_kept_rejection_is_tried_under_a_new_key_where_the_contract_allows(
    world: World,
) -> None:
    await world.open(contract(key_records="all_answers", key_generations=2))
    effect = (await world.submit(KEY, "reject")).effect
    await world.settle()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    first, second = world.target.requests
    assert first.key == effect.downstream_key
    assert second.key != first.key
    assert len(world.target.objects) == 1


@guarantee("new-key-only-after-proof")
async def test_lost_answer_never_starts_a_new_key(world: World) -> None:
    await world.open(contract(key_records="all_answers", key_generations=2))
    effect = (await world.submit(KEY, "lose_request", "lose_answer")).effect
    await world.settle()
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    assert {request.key for request in world.target.requests} == {effect.downstream_key}


async def test_unknown_tool_and_disabled_tenant_store_nothing(world: World) -> None:
    await world.open(contract())
    tenant = world.tenant.tenant_id
    with pytest.raises(UnknownTool):
        await world.broker.submit(tenant, EffectRequest(KEY, "no.such.tool", {}))
    await world.registry.set_disabled(tenant, True)
    with pytest.raises(Forbidden):
        await world.submit(KEY)
    assert await world.ledger.find(tenant, KEY) is None


@guarantee("tenant-from-credential")
async def test_another_tenants_effect_is_not_found(world: World) -> None:
    await world.open(contract())
    effect = (await world.submit(KEY)).effect
    other, _ = await world.registry.create_tenant("globex", "Globex", "h1")
    assert await world.ledger.get(other.tenant_id, effect.effect_id) is None
    assert await world.ledger.receipt(other.tenant_id, effect.effect_id) is None
    assert list(await world.ledger.attempts(other.tenant_id, effect.effect_id)) == []
    twin = await world.broker.submit(
        other.tenant_id, EffectRequest(KEY, "sim.charge", {"amount": 100})
    )
    assert twin.created
    assert twin.effect.downstream_key != effect.downstream_key
