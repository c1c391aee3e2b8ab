"""What a person may decide: only on evidence from after everything settled, once,
against a version.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from effect_broker.broker.resolving import Finding
from effect_broker.domain.errors import DecisionRefused, VersionConflict
from effect_broker.domain.resolution import Decision
from effect_broker.domain.status import EffectStatus
from tests.guarantees import guarantee
from tests.integration.broker.world import World, contract


async def _unknown(world: World, safety: str, **changes: Any) -> Any:
    await world.open(contract(safety, **changes))
    effect = (await world.submit("order:1:charge:v1", "lose_request")).effect
    await world.dispatcher().run_once()
    assert await world.status(effect.effect_id) is EffectStatus.OUTCOME_UNKNOWN
    return effect


async def _finding(world: World, effect_id: Any, decision: Decision) -> Finding:
    snapshot = await world.ledger.get(world.tenant.tenant_id, effect_id)
    assert snapshot is not None
    return Finding(
        decision=decision,
        reason="looked it up in the target's console",
        evidence={"ticket": "OPS-1"},
        expected_version=snapshot.version,
        decision_id="decision-1",
        actor="operator:ann",
        observed_at=snapshot.now,
        external_id="ch_9" if decision is Decision.COMMITTED else None,
        output={"id": "ch_9"} if decision is Decision.COMMITTED else None,
    )


async def test_operators_commit_becomes_the_receipt(world: World) -> None:
    effect = await _unknown(world, "unsafe")
    tenant = world.tenant.tenant_id
    finding = await _finding(world, effect.effect_id, Decision.COMMITTED)
    await world.broker.resolve(tenant, effect.effect_id, finding)
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    receipt = await world.receipt(effect.effect_id)
    assert (receipt["source"], receipt["external_id"]) == ("operator", "ch_9")
    assert receipt["output"] == {"id": "ch_9"}


@guarantee("operator-evidence-is-dated")
@pytest.mark.parametrize("decision", [Decision.NOT_COMMITTED, Decision.FAILED])
async def test_absence_seen_before_settlement_is_refused_with_the_earliest_instant(
    world: World, decision: Decision
) -> None:
    effect = await _unknown(world, "unsafe", requeue_after_operator_proof=True)
    tenant = world.tenant.tenant_id
    early = await _finding(world, effect.effect_id, decision)
    with pytest.raises(DecisionRefused) as refused:
        await world.broker.resolve(tenant, effect.effect_id, early)
    assert refused.value.not_before is not None
    await world.let_pass(60)
    assert early.observed_at is not None
    stale = replace(early, observed_at=early.observed_at - timedelta(seconds=60))
    with pytest.raises(DecisionRefused):
        await world.broker.resolve(tenant, effect.effect_id, stale)
    late = await _finding(world, effect.effect_id, decision)
    await world.broker.resolve(tenant, effect.effect_id, late)
    expected = {
        Decision.NOT_COMMITTED: EffectStatus.PREPARED,
        Decision.FAILED: EffectStatus.FAILED_FINAL,
    }
    assert await world.status(effect.effect_id) is expected[decision]


@guarantee("unsafe-at-most-once")
async def test_unsafe_effect_is_requeued_only_where_its_contract_says_so(
    world: World,
) -> None:
    effect = await _unknown(world, "unsafe")
    await world.let_pass(60)
    finding = await _finding(world, effect.effect_id, Decision.NOT_COMMITTED)
    with pytest.raises(DecisionRefused):
        await world.broker.resolve(world.tenant.tenant_id, effect.effect_id, finding)
    assert await world.status(effect.effect_id) is EffectStatus.OUTCOME_UNKNOWN


async def test_repeated_decision_is_recorded_once(world: World) -> None:
    effect = await _unknown(world, "unsafe")
    tenant = world.tenant.tenant_id
    finding = await _finding(world, effect.effect_id, Decision.COMMITTED)
    first = await world.broker.resolve(tenant, effect.effect_id, finding)
    again = await world.broker.resolve(tenant, effect.effect_id, finding)
    assert again.version == first.version
    assert (await world.events(effect.effect_id)).count("ResolvedCommitted") == 1
    with pytest.raises(DecisionRefused):
        await world.broker.resolve(
            tenant, effect.effect_id, replace(finding, decision=Decision.FAILED)
        )


async def test_decision_on_a_state_that_moved_on_is_refused(world: World) -> None:
    effect = await _unknown(world, "idempotent")
    finding = await _finding(world, effect.effect_id, Decision.COMMITTED)
    await world.let_pass(2)
    await world.reconciler().run_once()
    with pytest.raises(VersionConflict):
        await world.broker.resolve(world.tenant.tenant_id, effect.effect_id, finding)


async def test_expired_key_is_not_sent_again_on_an_operators_word(world: World) -> None:
    effect = await _unknown(
        world,
        "idempotent",
        key_retention="60s",
        short_horizon=True,
        key_records="successes",
    )
    await world.let_pass(100)
    finding = await _finding(world, effect.effect_id, Decision.NOT_COMMITTED)
    with pytest.raises(DecisionRefused):
        await world.broker.resolve(world.tenant.tenant_id, effect.effect_id, finding)


async def test_key_that_is_over_is_followed_by_another_once_somebody_asks(
    world: World,
) -> None:
    await world.open(
        contract(
            key_retention="60s",
            short_horizon=True,
            key_generations=2,
        )
    )
    effect = (await world.submit("order:1:charge:v1", "not_executed")).effect
    await world.dispatcher().run_once()
    await world.let_pass(60)
    await world.dispatcher().run_once()
    assert await world.status(effect.effect_id) is EffectStatus.MANUAL_REVIEW
    await world.settle(passes=3)
    assert len(world.target.requests) == 1
    await world.broker.reconcile(world.tenant.tenant_id, effect.effect_id)
    await world.settle(passes=3)
    assert await world.status(effect.effect_id) is EffectStatus.SUCCEEDED
    first, second = world.target.requests
    assert first.key == effect.downstream_key != second.key


async def test_asking_for_reconciliation_never_moves_an_unsafe_effect(
    world: World,
) -> None:
    effect = await _unknown(world, "unsafe")
    await world.broker.reconcile(world.tenant.tenant_id, effect.effect_id)
    await world.settle(passes=3)
    assert await world.status(effect.effect_id) is EffectStatus.OUTCOME_UNKNOWN
    assert len(world.target.requests) == 1


async def test_compensated_effect_keeps_its_receipt(world: World) -> None:
    await world.open(contract())
    tenant = world.tenant.tenant_id
    charge = (await world.submit("order:1:charge:v1")).effect
    refund = (await world.submit("order:1:refund:v1")).effect
    await world.dispatcher().run_once()
    before = await world.receipt(charge.effect_id)
    await world.broker.compensate(
        tenant, charge.effect_id, refund.effect_id, actor="operator:ann", reason="asked"
    )
    assert await world.status(charge.effect_id) is EffectStatus.COMPENSATED
    assert await world.receipt(charge.effect_id) == before
    with pytest.raises(DecisionRefused):
        await world.broker.compensate(
            tenant, refund.effect_id, refund.effect_id, actor="operator:ann", reason="?"
        )
