"""What a lookup proves."""

from __future__ import annotations

from typing import Any

import pytest

from effect_broker.adapters.wire.connections import Connections
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.outcome import ProbeStatus
from tests.integration.adapters import fault_server as faults
from tests.integration.adapters.fault_server import FaultServer, answer
from tests.integration.adapters.given import ARGUMENTS, KEY, GivenSecrets, contract
from tests.integration.adapters.sending import Sender


def looked_up(target: FaultServer, **probe: Any) -> EffectContract:
    terms = {
        "url": f"{target.url}/v1/charges?key={{downstream_key}}",
        "consistency": "strong",
        "found": "/data/0",
        "external_id": "/data/0/id",
    }
    return contract(target.url, probe=terms | probe)


FOUND = {"data": [{"id": "ch_7", "key": KEY}]}


async def test_lookup_asks_by_the_downstream_key_and_mutates_nothing(
    target: FaultServer, connections: Connections
) -> None:
    target.plan(answer(200, FOUND))
    result = await Sender(connections).probe(looked_up(target))
    assert result.status is ProbeStatus.COMMITTED
    assert (result.external_id, result.output) == ("ch_7", FOUND["data"][0])
    (seen,) = target.seen
    assert (seen.method, seen.target) == ("GET", f"/v1/charges?key={KEY}")
    assert seen.body == b""
    assert seen.header("Idempotency-Key") is None


@pytest.mark.parametrize(
    ("act", "probe", "expected"),
    [
        (answer(200, FOUND), {"match": "/data/0/key"}, ProbeStatus.COMMITTED),
        (answer(200, FOUND), {"match": "/data/0/id"}, ProbeStatus.UNKNOWN),
        (answer(200, {"data": []}), {}, ProbeStatus.NOT_COMMITTED),
        (answer(200, {"data": []}), {"found": "/data"}, ProbeStatus.NOT_COMMITTED),
        (answer(200, {"data": None}), {"found": "/data"}, ProbeStatus.NOT_COMMITTED),
        (answer(200, {"error": "busy"}), {}, ProbeStatus.UNKNOWN),
        (answer(404, {}), {"absent": ["404"]}, ProbeStatus.NOT_COMMITTED),
        (answer(404, {}), {}, ProbeStatus.UNKNOWN),
        (faults.cut(404, b"{"), {"absent": ["404"]}, ProbeStatus.UNKNOWN),
        (answer(500, {"data": []}), {}, ProbeStatus.UNKNOWN),
        (answer(302, {"data": []}, {"Location": "/x"}), {}, ProbeStatus.UNKNOWN),
        (answer(401, {}), {}, ProbeStatus.UNKNOWN),
        (faults.cut(200, b'{"data": []}'), {}, ProbeStatus.UNKNOWN),
        (faults.answer_bytes(200, b"<html>"), {}, ProbeStatus.UNKNOWN),
        (faults.answer_bytes(200, b""), {}, ProbeStatus.UNKNOWN),
        (faults.close, {}, ProbeStatus.UNKNOWN),
        (faults.reset, {}, ProbeStatus.UNKNOWN),
        (faults.stall(200, b"{"), {"timeout": "500ms"}, ProbeStatus.UNKNOWN),
        (faults.silence, {"timeout": "500ms"}, ProbeStatus.UNKNOWN),
    ],
)
async def test_only_a_whole_answer_in_the_declared_shape_proves_anything(
    target: FaultServer,
    connections: Connections,
    act: faults.Act,
    probe: dict[str, Any],
    expected: ProbeStatus,
) -> None:
    target.plan(act)
    result = await Sender(connections).probe(looked_up(target, **probe))
    assert result.status is expected
    assert len(target.seen) == 1


async def test_id_is_read_from_the_object_where_the_lookup_names_no_place(
    target: FaultServer, connections: Connections
) -> None:
    target.plan(answer(200, FOUND))
    result = await Sender(connections).probe(looked_up(target, external_id=None))
    assert result.external_id == "ch_7"


async def test_lookup_in_another_account_is_not_made(
    target: FaultServer, connections: Connections
) -> None:
    result = await Sender(connections).probe(looked_up(target), scope=b"other")
    assert result.status is ProbeStatus.UNKNOWN
    assert result.evidence["failure"] == "target_scope_changed"
    assert target.seen == []


async def test_lookup_uses_its_own_credential_where_it_has_one(
    target: FaultServer, connections: Connections
) -> None:
    secrets = GivenSecrets(write="w", read="r")
    made = contract(
        target.url,
        http={"headers": {"Authorization": {"secret": "write"}}},
        probe={
            "url": f"{target.url}/v1/charges?key={{downstream_key}}",
            "consistency": "strong",
            "found": "/data/0",
            "headers": {"Authorization": {"secret": "read"}},
        },
    )
    sender = Sender(connections, secrets=secrets)
    await sender.probe(made)
    assert target.seen[0].header("Authorization") == "r"
    before = await sender.adapters.scope_digest(made)
    secrets.values["read"] = "of another account"
    assert await sender.adapters.scope_digest(made) != before


async def test_contract_without_a_lookup_knows_nothing(
    target: FaultServer, connections: Connections
) -> None:
    result = await Sender(connections).probe(contract(target.url), arguments=ARGUMENTS)
    assert result.status is ProbeStatus.UNKNOWN
    assert target.seen == []
