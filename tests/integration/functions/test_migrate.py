"""The migrate function: an empty database to a broker that answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from effect_broker.ledger.migrate import HEAD
from effect_broker.surfaces.refusing import InvocationRefused
from tests.integration.functions.invoking import KEYRING, Lambdas, charge

CLOUDFORMATION = {"RequestType": "Create", "ResourceProperties": {"HandlerArn": "x"}}


def refused(lambdas: Lambdas, event: Any) -> tuple[str, dict[str, Any]]:
    with pytest.raises(InvocationRefused) as raised:
        lambdas.invoke("migrate", event)
    return type(raised.value).__name__, json.loads(str(raised.value))


def test_deployment_brings_up_a_broker_that_answers(empty_lambdas: Lambdas) -> None:
    assert empty_lambdas.invoke("migrate", {}) == {"revision": HEAD}
    assert empty_lambdas.invoke("migrate", CLOUDFORMATION) == {"revision": HEAD}
    again = empty_lambdas.invoke("migrate", {"operation": "upgrade"})
    assert again == {"revision": HEAD}
    empty_lambdas.set_up()
    answer, _ = empty_lambdas.http("POST", "/v1/effects", charge())
    assert answer["statusCode"] == 202
    assert empty_lambdas.http("GET", "/readyz")[0]["statusCode"] == 200


def test_before_the_migration_nothing_is_ready_and_nothing_is_taken(
    empty_lambdas: Lambdas,
) -> None:
    empty_lambdas.keys["acme"] = "ebk_" + "0" * 16 + "_" + "0" * 64
    for method, path in (("GET", "/readyz"), ("POST", "/v1/effects")):
        answer, document = empty_lambdas.http(method, path, charge())
        assert (answer["statusCode"], document["code"]) == (503, "schema_mismatch")


def test_tenant_is_made_once(lambdas: Lambdas) -> None:
    event = {"operation": "create_tenant", "slug": "new", "name": "New"}
    made = lambdas.invoke("migrate", event)
    again = lambdas.invoke("migrate", event)
    assert (made["created"], again["created"]) == (True, False)
    assert made["tenant_id"] == again["tenant_id"]


def test_contracts_are_published_once_and_another_document_is_refused(
    lambdas: Lambdas, tmp_path: Path
) -> None:
    again = lambdas.invoke("migrate", {"operation": "publish_contracts"})
    assert again["contracts"] == [
        {"tool": "sim.charge", "name": "sim-charge", "version": "1", "created": False}
    ]
    file = tmp_path / "contracts.toml"
    file.write_text(file.read_text().replace('"5s"', '"6s"'))
    name, _ = refused(lambdas, {"operation": "publish_contracts"})
    assert name == "ContractConflict"
    file.write_text("nonsense")
    name, problem = refused(lambdas, {"operation": "publish_contracts"})
    assert (name, problem["status"]) == ("ContractInvalid", 422)


def test_revoked_key_opens_nothing_once_the_process_is_fresh(lambdas: Lambdas) -> None:
    key = lambdas.keys["acme"]
    event = {"operation": "revoke_key", "key_id": key.split("_")[1]}
    assert lambdas.invoke("migrate", event)["revoked"] is True
    answer, _ = lambdas.http("GET", "/v1/tools")
    assert answer["statusCode"] == 401


def test_rotated_key_opens_beside_its_successor(lambdas: Lambdas) -> None:
    old = lambdas.keys["acme"]
    event = {"operation": "rotate_key", "key_id": old.split("_")[1], "overlap": "1h"}
    made = lambdas.invoke("migrate", event)
    assert lambdas.http("GET", "/v1/tools")[0]["statusCode"] == 200
    lambdas.keys["acme"] = made["key"]
    assert lambdas.http("GET", "/v1/tools")[0]["statusCode"] == 200
    listed = lambdas.invoke("migrate", {"operation": "list_keys", "tenant": "acme"})
    assert {row["key_id"] for row in listed["keys"]} == {
        old.split("_")[1],
        made["key_id"],
    }
    assert old.split("_")[2] not in str(listed)


def test_disabled_tenant_neither_reads_nor_submits(lambdas: Lambdas) -> None:
    disabled = {"operation": "disable_tenant", "slug": "acme"}
    assert lambdas.invoke("migrate", disabled)["disabled"] is True
    answer, _ = lambdas.http("GET", "/v1/tools")
    assert answer["statusCode"] == 401
    listed = lambdas.invoke("migrate", {"operation": "list_tenants"})["tenants"]
    assert {row["slug"]: row["disabled"] for row in listed} == {
        "acme": True,
        "other": False,
    }
    enabled = {"operation": "enable_tenant", "slug": "acme"}
    assert lambdas.invoke("migrate", enabled)["disabled"] is False
    assert lambdas.http("GET", "/v1/tools")[0]["statusCode"] == 200


@pytest.mark.parametrize(
    ("event", "name"),
    [
        ({"operation": "rotate_key", "key_id": "0"}, "NotFound"),
        ({"operation": "rotate_key", "key_id": "0", "overlap": "5"}, "InvalidFields"),
        ({"operation": "revoke_key", "key_id": "0"}, "NotFound"),
        ({"operation": "list_keys", "tenant": "nobody"}, "NotFound"),
        ({"operation": "disable_tenant"}, "InvalidFields"),
        ({"operation": "drop"}, "InvalidRequest"),
        ({"operation": "upgrade", "to": "0000"}, "InvalidFields"),
        ({"operation": "create_tenant"}, "InvalidFields"),
        ({"operation": "create_tenant", "slug": "No Slug"}, "InvalidRequest"),
        (
            {"operation": "create_tenant", "slug": "x", "hmac_key_id": "h9"},
            "InvalidRequest",
        ),
        ({"operation": "create_key", "tenant": "acme"}, "InvalidFields"),
        ({"operation": "create_key", "tenant": "acme", "scopes": []}, "InvalidRequest"),
        (
            {"operation": "create_key", "tenant": "acme", "scopes": ["root"]},
            "InvalidRequest",
        ),
        (
            {"operation": "create_key", "tenant": "nobody", "scopes": ["read"]},
            "NotFound",
        ),
    ],
)
def test_operations_that_mean_nothing_are_refused_by_name(
    lambdas: Lambdas, event: Any, name: str
) -> None:
    assert refused(lambdas, event)[0] == name


def test_deployment_beside_an_older_database_goes_on_before_its_keyring_is_put(
    lambdas: Lambdas, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stack makes the secret empty: only then can the keys be put back into it."""
    lambdas.http("POST", "/v1/effects", charge())
    monkeypatch.delenv("EFFECT_BROKER_KEYRING")
    monkeypatch.setenv("EFFECT_BROKER_KEYRING_SECRET", "effect-broker/keyring")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws(), Lambdas(keys=lambdas.keys) as redeployed:
        assert redeployed.invoke("migrate", {})["revision"]
        answer, _ = redeployed.http("POST", "/v1/effects", charge())
        assert answer["statusCode"] in (500, 503)
        store = boto3.client("secretsmanager")
        other = KEYRING.replace('"k1"', '"k9"')
        store.create_secret(Name="effect-broker/keyring", SecretString=other)
    with mock_aws(), Lambdas() as wrong:
        boto3.client("secretsmanager").create_secret(
            Name="effect-broker/keyring", SecretString=other
        )
        assert refused(wrong, {})[0] == "KeysMissing"
