"""A fork reads what was recorded; live work needs another key and an explicit act."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import (
    EffectNotFound,
    InvalidOperationKey,
    PayloadDrift,
)
from effect_broker.domain.status import EffectStatus
from tests.guarantees import guarantee
from tests.integration.broker.world import World, contract

KEY = "order:1:charge:v1"


class Unreachable:
    """Adapters that fail the test when anything asks for one."""

    async def scope_digest(self, contract: EffectContract) -> bytes:
        raise AssertionError("a replay reached an adapter")

    async def adapter(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a replay reached an adapter")


async def _settled(world: World) -> UUID:
    await world.open(contract())
    effect = (await world.submit(KEY, "lose_answer")).effect
    await world.settle(passes=3)
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    return effect.effect_id


@guarantee("replay-cannot-send")
async def test_fork_goes_on_with_the_recorded_answers_and_sends_nothing(
    world: World,
) -> None:
    effect_id = await _settled(world)
    tenant, sent = world.tenant.tenant_id, len(world.target.requests)
    events = await world.events(effect_id)
    world.adapters = Unreachable()  # type: ignore[assignment]
    for sequence in range(1, len(events) + 1):
        forked = await world.broker.fork(tenant, effect_id, sequence)
        assert forked.start.sequence == sequence
        assert [event.type for event in forked.recorded] == events[sequence:]
        assert forked.end.status is EffectStatus.SUCCEEDED
        assert forked.receipt == await world.receipt(effect_id)
    assert await world.events(effect_id) == events
    assert len(world.target.requests) == sent


@guarantee("replay-cannot-send")
async def test_fork_of_an_unknown_effect_makes_up_no_receipt(world: World) -> None:
    await world.open(contract("unsafe"))
    effect = (await world.submit(KEY, "lose_answer")).effect
    await world.dispatcher().run_once()
    forked = await world.broker.fork(world.tenant.tenant_id, effect.effect_id, 1)
    assert forked.receipt is None
    assert forked.end.status is EffectStatus.OUTCOME_UNKNOWN


async def test_point_that_the_history_does_not_have_is_refused(world: World) -> None:
    effect_id = await _settled(world)
    for sequence in (0, -1, 99):
        with pytest.raises(EffectNotFound):
            await world.broker.fork(world.tenant.tenant_id, effect_id, sequence)


async def test_live_fork_is_another_effect_under_another_key(world: World) -> None:
    effect_id = await _settled(world)
    tenant = world.tenant.tenant_id
    live = await world.broker.fork_live(
        tenant, effect_id, "order:1:charge:v2", actor="operator:ann"
    )
    assert live.created
    assert live.effect.effect_id != effect_id
    assert live.effect.request.arguments == {"amount": 100}
    assert live.effect.request.requested_by == "operator:ann"
    await world.dispatcher().run_once()
    assert len(world.target.objects) == 2


async def test_live_fork_under_the_old_key_or_a_taken_one_is_refused(
    world: World,
) -> None:
    effect_id = await _settled(world)
    tenant = world.tenant.tenant_id
    with pytest.raises(InvalidOperationKey):
        await world.broker.fork_live(tenant, effect_id, KEY, actor="operator:ann")
    await world.submit("order:2:charge:v1", amount=7)
    with pytest.raises(PayloadDrift):
        await world.broker.fork_live(
            tenant, effect_id, "order:2:charge:v1", actor="operator:ann"
        )


async def test_another_tenants_effect_is_not_forked(world: World) -> None:
    effect_id = await _settled(world)
    other, _ = await world.registry.create_tenant("globex", "Globex", "h1")
    with pytest.raises(EffectNotFound):
        await world.broker.fork(other.tenant_id, effect_id, 1)
    with pytest.raises(EffectNotFound):
        await world.broker.fork_live(
            other.tenant_id, effect_id, "order:3:charge:v1", actor="operator:bob"
        )
