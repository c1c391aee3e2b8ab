"""What the CDK context may ask for, and what is refused before anything is deployed."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from infra.capacity import LOCAL_CAPACITY, PRODUCTION_CAPACITY, Capacity
from infra.cdk import ROOT
from infra.config import Config, ConfigError
from infra.keyring import new_keyring
from infra.synth import circular_dependencies

URL = "postgresql://127.0.0.1/ledger"


@pytest.mark.parametrize(
    ("context", "why"),
    [
        ({"local": "true"}, "needs databaseUrl"),
        ({"databaseUrl": URL, "layer": "/layer"}, "template keeps no password"),
        ({"appDatabaseUrl": URL, "layer": "/layer"}, "template keeps no password"),
        ({"local": "yes", "databaseUrl": URL}, "neither true nor false"),
        ({"tennants": "demo"}, "unknown context: tennants"),
        ({"local": "true", "databaseUrl": URL, "tenants": "Demo Co"}, "no slug"),
        ({"environment": "local", "layer": "/layer"}, "belong together"),
        ({"architecture": "riscv", "layer": "/layer"}, "neither arm64 nor x86_64"),
    ],
)
def test_a_context_that_cannot_be_deployed_is_refused_in_words(
    context: dict[str, str], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        Config.from_context(context)


def test_feature_flags_of_the_cdk_are_not_taken_for_ours() -> None:
    flags = json.loads((ROOT / "cdk.json").read_text())["context"]
    config = Config.from_context({**flags, "local": "true", "databaseUrl": URL})
    assert config.stack_name == "effect-broker-local"


def test_a_local_deployment_ships_no_layer_although_one_was_built() -> None:
    assert Config.from_context({"local": "true", "databaseUrl": URL}).layer is None


def test_environments_do_not_share_secrets() -> None:
    staging = Config(environment="staging", layer=Path("/layer"))
    production = Config(layer=Path("/layer"))
    assert staging.target_secrets_prefix == "effect-broker/staging/targets/"
    assert production.target_secrets_prefix == "effect-broker/production/targets/"


def test_more_environments_than_connections_are_refused() -> None:
    with pytest.raises(
        ValueError, match="210 connections may be opened, 150 are allowed"
    ):
        Capacity(submit=70)


def test_both_capacities_fit_their_budgets() -> None:
    for capacity in (PRODUCTION_CAPACITY, LOCAL_CAPACITY):
        assert capacity.connections <= capacity.budget


def test_a_circular_dependency_is_found_in_output_that_says_success() -> None:
    output = "synthesized\n  WARNING F3004 Circular Dependencies for resource Key\nok\n"
    found = circular_dependencies(output)
    assert found == ["WARNING F3004 Circular Dependencies for resource Key"]
    assert circular_dependencies("synthesized\nok\n") == []


def test_a_fresh_keyring_has_two_distinct_keys_of_32_bytes() -> None:
    keyring = json.loads(new_keyring())
    (data,) = keyring["data_keys"].values()
    (hmac,) = keyring["hmac_keys"].values()
    assert keyring["active_data_key"] in keyring["data_keys"]
    assert [len(base64.b64decode(key)) for key in (data, hmac)] == [32, 32]
    assert data != hmac
    assert new_keyring() != new_keyring()


def test_the_cdk_command_is_pinned_without_the_address_of_a_registry() -> None:
    wanted = json.loads((ROOT / "package.json").read_text())["devDependencies"]["aws-cdk"]
    text = (ROOT / "package-lock.json").read_text()
    locked = json.loads(text)["packages"]["node_modules/aws-cdk"]
    assert locked["version"] == wanted
    assert locked["integrity"].startswith("sha512-")
    assert "resolved" not in locked
    assert "://" not in text
