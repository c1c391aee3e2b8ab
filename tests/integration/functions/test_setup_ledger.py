"""The ledger's upkeep through the migrate function, the owner's only way in on AWS."""

from __future__ import annotations

import json
from typing import Any

import pytest

from effect_broker.surfaces import setup_ledger
from effect_broker.surfaces.refusing import InvocationRefused
from tests.integration.cli.ledger_shop import keyring
from tests.integration.functions.invoking import SWEEP, Lambdas, charge


@pytest.fixture
def busy(lambdas: Lambdas) -> Lambdas:
    for number in range(3):
        lambdas.http("POST", "/v1/effects", charge(f"order:{number}:charge:v1"))
    return lambdas


def refused(lambdas: Lambdas, event: Any) -> tuple[str, dict[str, Any]]:
    with pytest.raises(InvocationRefused) as raised:
        lambdas.invoke("migrate", event)
    return type(raised.value).__name__, json.loads(str(raised.value))


def test_old_payloads_are_pruned_and_replays_are_answered(busy: Lambdas) -> None:
    busy.invoke("dispatch", SWEEP)
    event = {"operation": "prune", "older_than": "0s"}
    assert busy.invoke("migrate", event) == {"pruned": 3, "more": False}
    answer, replay = busy.http("POST", "/v1/effects", charge("order:1:charge:v1"))
    assert (answer["statusCode"], replay["replayed"]) == (200, True)
    assert refused(busy, {"operation": "prune"})[0] == "InvalidFields"


def test_long_operation_does_its_share_and_says_that_there_is_more(
    busy: Lambdas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup_ledger, "SHARE_SECONDS", -1.0)
    busy.invoke("dispatch", SWEEP)
    event = {"operation": "prune", "older_than": "0s"}
    assert busy.invoke("migrate", event)["more"] is True


def test_keys_rotate_through_the_function(
    busy: Lambdas, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C45: what is left under each key is said, and the old one is retired."""
    monkeypatch.setenv("EFFECT_BROKER_KEYRING", keyring("k1", "k2", active="k2"))
    with Lambdas(keys=busy.keys) as redeployed:
        done = redeployed.invoke("migrate", {"operation": "reencrypt"})
        assert (done["resealed"], done["retired"], done["more"]) == (3, ["k1"], False)
        assert done["left"] == {"k2": {"arguments": 3}}
    monkeypatch.setenv("EFFECT_BROKER_KEYRING", keyring("k2", active="k2"))
    with Lambdas(keys=busy.keys) as redeployed:
        assert redeployed.invoke("migrate", {})
        redeployed.invoke("dispatch", SWEEP)
        answer, replay = redeployed.http(
            "POST", "/v1/effects", charge("order:1:charge:v1")
        )
        assert (answer["statusCode"], replay["status"]) == (200, "succeeded")


def test_months_are_listed_and_none_that_is_not_over_is_archived(busy: Lambdas) -> None:
    months = busy.invoke("migrate", {"operation": "partitions"})["months"]
    assert len(months) == 4
    assert months[0]["live"] == 3
    event = {"operation": "archive_month", "month": months[0]["month"]}
    assert refused(busy, event)[0] == "Conflict"
    event = {"operation": "drop_month", "month": months[0]["month"]}
    assert refused(busy, event)[0] == "NotFound"
    event = {"operation": "archive_month", "month": "March"}
    assert refused(busy, event)[0] == "InvalidFields"


def test_dispatch_is_held_and_released(busy: Lambdas) -> None:
    event = {"operation": "hold_dispatch", "reason": "comparing books"}
    assert busy.invoke("migrate", event) == {"held": True}
    assert busy.invoke("dispatch", SWEEP)["held"] is True
    event = {"operation": "release_dispatch", "actor": "ann"}
    assert busy.invoke("migrate", event) == {"released": True}
    assert busy.invoke("dispatch", SWEEP)["reports"][0]["attempts"] == 3
