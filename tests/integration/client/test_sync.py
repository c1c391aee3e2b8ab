"""The sync form against a broker that runs as a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from effect_broker import EffectRequest, SyncEffectBrokerClient
from effect_broker.domain.errors import PayloadDrift
from tests.integration.cli.test_plain_process import Shell
from tests.integration.functions.invoking import CONTRACTS


@pytest.fixture
def client(fresh_database: str, tmp_path: Path) -> Iterator[SyncEffectBrokerClient]:
    shell = Shell(fresh_database)
    contracts = tmp_path / "contracts.toml"
    contracts.write_text(CONTRACTS)
    shell.lines("contracts", "publish", str(contracts))
    shell.lines("tenants", "create", "acme")
    scopes = ("--scope", "submit", "--scope", "read")
    (made,) = shell.lines("keys", "create", "acme", *scopes)
    with (
        shell.serving() as (address, _),
        SyncEffectBrokerClient(address, made["key"]) as client,
    ):
        yield client


def test_plain_code_submits_reads_lists_and_is_refused_like_any_other(
    client: SyncEffectBrokerClient,
) -> None:
    first = client.submit(EffectRequest("order:1:charge", "sim.charge", {"amount": 1}))
    again = client.submit(EffectRequest("order:1:charge", "sim.charge", {"amount": 1.0}))
    assert (again.effect_id, again.replayed) == (first.effect_id, True)
    assert [it.effect_id for it in client.effects(page_size=1)] == [first.effect_id]
    assert client.get(first.effect_id).history[0].type == "EffectReserved"
    assert client.wait_for(first.effect_id, seconds=0).terminal is False
    assert [it.tool for it in client.tools()] == ["sim.charge"]
    with pytest.raises(PayloadDrift):
        client.submit(EffectRequest("order:1:charge", "sim.charge", {"amount": 2}))

    @client.tool("sim.charge", key="order:{order}:refund", wait_seconds=0)
    def refund(order: str, amount: int) -> None: ...

    with pytest.raises(Exception, match="do not fit"):
        refund("ord_1", amount=1)
