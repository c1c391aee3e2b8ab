"""Callers that race over MCP with one key and two payloads: one of them wins, once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from effect_broker.domain.status import EffectStatus
from effect_broker.ports import EffectQuery
from tests.guarantees import guarantee
from tests.integration.broker.world import World, contract
from tests.integration.mcp.test_serving import TOOL, Served, charge

CALLERS = 20
AMOUNTS = (100, 7)


def calling(request_id: int, amount: int) -> dict[str, Any]:
    params = {"name": TOOL, "arguments": charge(amount=amount)}
    return {
        "jsonrpc": "2.0",
        "id": request_id,
        "method": "tools/call",
        "params": params,
    }


@guarantee("one-intent-per-key", "drift-is-refused")
async def test_race_of_two_payloads_over_mcp_is_one_effect_one_charge_and_drift(
    world: World,
) -> None:
    await world.open(contract())
    served = Served(world)
    accepted = {"Accept": "application/json, text/event-stream"}
    async with served.http(await served.key("submit")) as http:
        answers = await asyncio.gather(
            *(
                http.post(
                    "/mcp",
                    json=calling(number, AMOUNTS[number % 2]),
                    headers=accepted,
                )
                for number in range(CALLERS)
            )
        )
    results = {it.json()["id"]: it.json()["result"] for it in answers}
    assert len(results) == CALLERS
    taken = {number: it for number, it in results.items() if not it["isError"]}
    told = [it["structuredContent"] for it in taken.values()]
    assert len(taken) == CALLERS // 2
    assert len({number % 2 for number in taken}) == 1
    (effect_id,) = {it["effect_id"] for it in told}
    assert [it["replayed"] for it in told].count(False) == 1
    for number in results.keys() - taken.keys():
        problem = json.loads(results[number]["content"][0]["text"])
        assert problem["code"] == "payload_drift"
        assert problem["effect_id"] == effect_id
    await asyncio.gather(*(world.dispatcher(worker=it).run_once() for it in "ab"))
    assert (len(world.target.requests), len(world.target.objects)) == (1, 1)
    (view,) = await world.broker.page(world.tenant.tenant_id, EffectQuery())
    assert view.snapshot.status is EffectStatus.SUCCEEDED
    assert str(view.snapshot.intent.effect_id) == effect_id
