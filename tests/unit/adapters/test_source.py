"""Which adapter speaks for which contract, and what holds an adapter of one's own."""

from __future__ import annotations

from typing import Any

import pytest

from effect_broker.adapters.http import HttpAdapter
from effect_broker.adapters.source import Adapters, adapters
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import ContractInvalid
from effect_broker.domain.outcome import Ambiguous, Committed, NotSent
from effect_broker.ports import Deadline
from tests.integration.adapters.given import (
    ATTEMPT,
    GivenSecrets,
    ManualClock,
    contract,
    effect,
)
from tests.unit.adapters import own

SECRETS = GivenSecrets(account="a")


def of_kind(name: str, **changes: Any) -> EffectContract:
    document: dict[str, Any] = {
        "tool": "own.tool",
        "name": "own-tool",
        "version": "1",
        "safety": "idempotent",
        "adapter": name,
        "attempt_timeout": "10s",
        "settlement_bound": "5s",
        "key_retention": "24h",
        "arguments": {"type": "object"},
    }
    return EffectContract.model_validate(document | changes)


async def run(
    made: EffectContract, source: Adapters, *, deadline: Deadline | None = None
) -> Any:
    scope = await source.scope_digest(made)
    adapter = await source.adapter(made, scope_digest=scope, deadline=deadline)
    return await adapter.dispatch(effect(made), attempt_id=ATTEMPT)


async def test_kind_in_the_contract_chooses_the_adapter() -> None:
    source = adapters(SECRETS, ManualClock())
    made = contract()
    adapter = await source.adapter(made, scope_digest=b"", deadline=None)
    assert isinstance(adapter, HttpAdapter)
    assert adapter.contract is made
    assert isinstance(await run(of_kind("simulated"), source), Committed)
    await source.aclose()


@pytest.mark.parametrize(
    "name", ["no.such.module:Adapter", "tests.unit.adapters.own:NoSuch"]
)
async def test_adapter_that_is_not_here_is_named(name: str) -> None:
    source = adapters(SECRETS, ManualClock())
    with pytest.raises(ContractInvalid, match=name.replace(".", r"\.")):
        await source.scope_digest(of_kind(name))


async def test_kind_that_nobody_serves_here_is_named() -> None:
    source = Adapters({})
    for made in (contract(), of_kind("tests.unit.adapters.own:TwoStep")):
        with pytest.raises(ContractInvalid, match="is not served here"):
            await source.scope_digest(made)


async def test_sub_steps_have_keys_of_their_own_that_stay_over_retries() -> None:
    made = of_kind("tests.unit.adapters.own:TwoStep")
    source = adapters(SECRETS, ManualClock())
    for _ in range(3):
        assert await run(made, source) == Committed("own_1")
    assert sorted(made.options["paths"].values()) == ["capture", "create"]


async def test_own_adapter_in_another_account_is_not_called() -> None:
    made = of_kind("tests.unit.adapters.own:TwoStep")
    secrets = GivenSecrets(account="a")
    source = adapters(secrets, ManualClock())
    recorded = await source.scope_digest(made)
    secrets.values["account"] = "b"
    adapter = await source.adapter(made, scope_digest=recorded, deadline=None)
    outcome = await adapter.dispatch(effect(made), attempt_id=ATTEMPT)
    assert isinstance(outcome, Ambiguous)
    assert outcome.contract_violated
    assert "paths" not in made.options or made.options["paths"] == {}


async def test_own_adapter_past_its_deadline_is_not_called() -> None:
    own.Careless.calls = []
    clock = ManualClock()
    source = adapters(SECRETS, clock)
    outcome = await run(
        of_kind("tests.unit.adapters.own:Careless"),
        source,
        deadline=clock.deadline_in(0.0),
    )
    assert isinstance(outcome, NotSent)
    assert own.Careless.calls == []


async def test_own_adapter_that_takes_too_long_is_cut_off_and_ambiguous() -> None:
    own.Careless.calls = []
    clock = ManualClock()
    source = adapters(SECRETS, clock)
    outcome = await run(
        of_kind("tests.unit.adapters.own:Careless"),
        source,
        deadline=clock.deadline_in(0.05),
    )
    assert outcome == Ambiguous("timed_out")
    assert own.Careless.calls == [ATTEMPT]


async def test_late_second_write_is_ambiguous_since_the_first_has_left() -> None:
    clock = ManualClock()
    source = adapters(SECRETS, clock)
    outcome = await run(
        of_kind("tests.unit.adapters.own:LateSecondStep"),
        source,
        deadline=clock.deadline_in(10.0),
    )
    assert outcome == Ambiguous("send_deadline_passed")
