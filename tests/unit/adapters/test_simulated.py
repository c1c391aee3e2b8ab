from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from effect_broker.adapters.simulated import SimulatedAdapters
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import ContractInvalid
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    NotSent,
    Outcome,
    ProbeResult,
    ProbeStatus,
    Rejected,
)
from tests.integration.adapters.given import ARGUMENTS, ManualClock, effect

PROBE = {"consistency": "strong"}


def simulated(safety: str = "idempotent", *script: str, **changes: Any) -> EffectContract:
    document: dict[str, Any] = {
        "tool": "demo.charge",
        "name": "demo-charge",
        "version": "1",
        "safety": safety,
        "adapter": "simulated",
        "attempt_timeout": "10s",
        "settlement_bound": "5s",
        "key_retention": "24h" if safety == "idempotent" else None,
        "probe": PROBE,
        "arguments": {"type": "object"},
        "simulated": {"script": list(script)},
    }
    return EffectContract.model_validate(document | changes)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.adapters = SimulatedAdapters(self.clock)
        self.target = self.adapters.target

    async def dispatch(self, made: EffectContract, **of_effect: Any) -> Outcome:
        adapter = await self.adapters.adapter(
            made,
            scope_digest=await self.adapters.scope_digest(made),
            deadline=self.clock.deadline_in(10.0),
        )
        return await adapter.dispatch(effect(made, **of_effect), attempt_id=uuid4())

    async def probe(self, made: EffectContract) -> ProbeResult:
        adapter = await self.adapters.adapter(
            made, scope_digest=await self.adapters.scope_digest(made), deadline=None
        )
        return await adapter.probe(effect(made))


async def test_without_a_script_every_request_commits_once_under_its_key() -> None:
    world = World()
    first = await world.dispatch(simulated())
    second = await world.dispatch(simulated())
    assert isinstance(first, Committed)
    assert first == second
    assert first.output == {"id": "sim_1", "received": ARGUMENTS}
    assert (len(world.target.requests), len(world.target.objects)) == (2, 1)


@pytest.mark.parametrize(
    ("act", "expected", "objects"),
    [
        ("commit", Committed, 1),
        ("lose_request", Ambiguous, 0),
        ("lose_answer", Ambiguous, 1),
        ("hide_commit", Ambiguous, 1),
        ("cut_answer", Committed, 1),
        ("reject", Rejected, 0),
        ("reject_final", Rejected, 0),
        ("not_executed", Rejected, 0),
        ("not_sent", NotSent, 0),
        ("in_progress", Ambiguous, 0),
        ("key_conflict", Ambiguous, 0),
    ],
)
async def test_each_act_does_what_it_says(act: str, expected: type, objects: int) -> None:
    world = World()
    outcome = await world.dispatch(simulated("idempotent", act))
    assert isinstance(outcome, expected)
    assert len(world.target.objects) == objects
    assert len(world.target.requests) == (act != "not_sent")


@pytest.mark.parametrize(
    ("key_records", "objects", "expected"),
    [
        ("successes", 2, Committed),
        ("commits", 1, Committed),
        ("all_answers", 1, Ambiguous),
    ],
)
async def test_hidden_commit_is_deduplicated_as_the_contract_says(
    key_records: str, objects: int, expected: type
) -> None:
    world = World()
    made = simulated("idempotent", "hide_commit", key_records=key_records)
    await world.dispatch(made)
    assert isinstance(await world.dispatch(made), expected)
    assert len(world.target.objects) == objects


@pytest.mark.parametrize("safety", ["reconcilable", "unsafe"])
async def test_target_without_deduplication_repeats_what_is_repeated(safety: str) -> None:
    world = World()
    made = simulated(safety, "lose_answer")
    await world.dispatch(made)
    await world.dispatch(made)
    assert len(world.target.objects) == 2
    keys = {request.key is None for request in world.target.requests}
    assert keys == {safety == "unsafe"}


async def test_script_in_the_arguments_belongs_to_one_effect() -> None:
    world = World()
    arguments = {"simulate": ["lose_answer", "in_progress"]}
    outcomes = [await world.dispatch(simulated(), arguments=arguments) for _ in range(3)]
    assert [type(outcome) for outcome in outcomes] == [Ambiguous, Ambiguous, Committed]
    assert len(world.target.objects) == 1


async def test_same_key_with_another_payload_is_a_conflict() -> None:
    world = World()
    await world.dispatch(simulated(), arguments={"amount": 1})
    outcome = await world.dispatch(simulated(), arguments={"amount": 2})
    assert isinstance(outcome, Ambiguous)
    assert outcome.contract_violated
    assert len(world.target.objects) == 1


async def test_lookup_sees_an_object_once_its_lag_is_over() -> None:
    world = World()
    world.target.lag_seconds = 90.0
    made = simulated("reconcilable", "lose_answer")
    await world.dispatch(made)
    assert (await world.probe(made)).status is ProbeStatus.NOT_COMMITTED
    world.clock.advance(90.0)
    found = await world.probe(made)
    assert (found.status, found.external_id) == (ProbeStatus.COMMITTED, "sim_1")


async def test_late_or_foreign_request_does_not_reach_the_target() -> None:
    world = World()
    made = simulated()
    scope = await world.adapters.scope_digest(made)
    deadline = world.clock.deadline_in(10.0)
    late = await world.adapters.adapter(made, scope_digest=scope, deadline=deadline)
    world.clock.advance(10.0)
    outcome = await late.dispatch(effect(made), attempt_id=uuid4())
    assert isinstance(outcome, NotSent)
    world.target.account = "another"
    foreign = await world.adapters.adapter(made, scope_digest=scope, deadline=None)
    outcome = await foreign.dispatch(effect(made), attempt_id=uuid4())
    assert isinstance(outcome, Ambiguous)
    assert outcome.contract_violated
    assert world.target.requests == []


async def test_unknown_act_is_an_error_of_the_contract() -> None:
    with pytest.raises(ContractInvalid, match="simulated act"):
        await World().dispatch(simulated("idempotent", "explode"))
