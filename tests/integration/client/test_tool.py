"""A plain function as a tool: two lines, one effect for one intent."""

from __future__ import annotations

import inspect
import typing

import pytest

from effect_broker import EffectBrokerClient
from effect_broker.client import Submission
from effect_broker.domain.errors import InvalidArguments, InvalidOperationKey
from tests.integration.broker.world import contract
from tests.integration.http.api import Api

SCHEMA = {
    "type": "object",
    "required": ["order", "amount"],
    "additionalProperties": False,
    "properties": {
        "order": {"type": "string"},
        "amount": {"type": "integer"},
        "currency": {"type": "string"},
    },
}


@pytest.fixture(autouse=True)
async def _tool(api: Api) -> None:
    await api.world.registry.publish(
        contract(tool="pay.charge", name="pay-charge", arguments=SCHEMA)
    )


async def test_function_called_again_is_the_same_effect(
    api: Api, agent: EffectBrokerClient
) -> None:
    @agent.tool("pay.charge", key="order:{order}:charge:v1", wait_seconds=0)
    async def charge(order: str, amount: int, currency: str = "EUR") -> None:
        """Charge an order."""
        raise AssertionError("the body never runs")

    first = await charge("ord_1", 100)
    again = await charge(order="ord_1", amount=100, currency="EUR")
    other = await charge("ord_2", amount=100)
    assert (again.effect_id, again.replayed) == (first.effect_id, True)
    assert other.effect_id != first.effect_id
    assert first.operation_key == "order:ord_1:charge:v1"
    assert charge.__doc__ == "Charge an order."
    assert list(inspect.signature(charge).parameters) == ["order", "amount", "currency"]
    assert inspect.iscoroutinefunction(charge)
    assert typing.get_type_hints(charge)["return"] is Submission
    await api.world.dispatcher().run_once()
    done = await charge("ord_1", 100)
    assert done.receipt is not None
    assert len(api.world.target.requests) == 2


async def test_values_cannot_run_into_each_other(agent: EffectBrokerClient) -> None:
    @agent.tool("pay.charge", key="order:{order}:{currency}", wait_seconds=0)
    async def charge(order: str, amount: int, currency: str) -> None: ...

    first = await charge("a:b", 1, "c")
    second = await charge("a", 1, "b:c")
    assert first.effect_id != second.effect_id


async def test_without_a_key_each_call_names_its_intent(
    agent: EffectBrokerClient,
) -> None:
    @agent.tool("pay.charge", wait_seconds=0)
    async def charge(order: str, amount: int) -> None: ...

    assert "operation_key" in inspect.signature(charge).parameters
    assert typing.get_type_hints(charge)["operation_key"] is str
    with pytest.raises(InvalidOperationKey):
        await charge("ord_1", 1)
    made = await charge("ord_1", 1, operation_key="run:7:charge")  # type: ignore[call-arg]
    assert made.operation_key == "run:7:charge"


async def test_key_may_be_a_function_of_the_arguments(agent: EffectBrokerClient) -> None:
    def key(order: str, **_: object) -> str:
        return f"order:{order}:charge:v9"

    @agent.tool("pay.charge", key=key, wait_seconds=0)
    async def charge(order: str, amount: int) -> None: ...

    assert (await charge("ord_1", 1)).operation_key == "order:ord_1:charge:v9"


@pytest.mark.parametrize("order", ["", None, ["x"], True])
async def test_part_that_names_nothing_is_refused(
    agent: EffectBrokerClient, order: object
) -> None:
    @agent.tool("pay.charge", key="order:{order}:charge:v1")
    async def charge(order: object, amount: int) -> None: ...

    with pytest.raises(InvalidOperationKey, match="order"):
        await charge(order, 1)
    assert [it async for it in agent.effects()] == []


async def test_arguments_are_the_contracts_to_judge(agent: EffectBrokerClient) -> None:
    @agent.tool("pay.charge", key="order:{order}:charge:v1")
    async def charge(order: str, amount: str) -> None: ...

    with pytest.raises(InvalidArguments):
        await charge("ord_1", "100")
    with pytest.raises(TypeError):
        await charge("ord_1")  # type: ignore[call-arg]


async def test_signature_or_template_that_names_no_intent_is_refused_at_once(
    agent: EffectBrokerClient,
) -> None:
    async def plain(order: str) -> None: ...
    async def open_ended(order: str, **more: object) -> None: ...
    async def keyed(operation_key: str) -> None: ...

    for function, key in (
        (plain, "charge:v1"),
        (plain, "order:{other}"),
        (plain, "order:{order.id}"),
        (plain, "order:{order!r}"),
        (plain, "order:{}"),
        (open_ended, "order:{order}"),
        (keyed, None),
    ):
        with pytest.raises(TypeError):
            agent.tool("pay.charge", key=key)(function)
