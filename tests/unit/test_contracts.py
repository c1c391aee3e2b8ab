"""Contract files: what loads, and that a complaint says where to look."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from effect_broker.contracts import contract_schema, load_contracts, parse_contracts
from effect_broker.domain.contract import SafetyClass
from effect_broker.domain.errors import ContractInvalid

EXAMPLES = Path(__file__).parents[2] / "examples" / "contracts"
PAYMENTS = (EXAMPLES / "payments.toml").read_text()


def complaints(path: Path) -> list[str]:
    with pytest.raises(ContractInvalid) as refused:
        load_contracts(path)
    return refused.value.message.splitlines()


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", ".")
        path.write_text(text)
    return folder


def as_yaml(text: str) -> str:
    import tomllib

    return yaml.safe_dump(tomllib.loads(text), sort_keys=False)


def test_examples_load() -> None:
    loaded = {contract.tool: contract.safety for contract in load_contracts(EXAMPLES)}
    assert loaded["payments.charge"] is SafetyClass.IDEMPOTENT
    assert loaded["demo.charge.keyed"] is SafetyClass.IDEMPOTENT
    assert loaded["demo.charge.lookup"] is SafetyClass.RECONCILABLE
    assert loaded["demo.charge.plain"] is SafetyClass.UNSAFE


def test_yaml_and_toml_are_one_contract(tmp_path: Path) -> None:
    folder = written(tmp_path, payments__yaml=as_yaml(PAYMENTS))
    (from_yaml,) = load_contracts(folder)
    (from_toml,) = load_contracts(EXAMPLES / "payments.toml")
    assert from_yaml.document() == from_toml.document()


def test_yaml_statuses_and_dates_need_no_quotes(tmp_path: Path) -> None:
    text = as_yaml(PAYMENTS).replace("'429': not_executed", "429: not_executed")
    text = text.replace("version: 2026-01\n", "version: 2026-01-31\n")
    assert "429: not_executed" in text
    (contract,) = load_contracts(written(tmp_path, p__yml=text))
    assert contract.version == "2026-01-31"
    assert contract.http is not None
    assert "429" in contract.http.meaning.entries


def test_unknown_field_is_named_with_file_and_near_miss(
    tmp_path: Path,
) -> None:
    text = PAYMENTS.replace("retry_limit = 5", "retry_limt = 5")
    (line,) = complaints(written(tmp_path, bad__toml=text) / "bad.toml")
    assert line == (
        f"{tmp_path}/bad.toml: contract payments-charge 2026-01 (#1): retry_limt:"
        " unknown field; did you mean 'retry_limit'?"
    )


def test_unknown_field_below_is_named_by_its_path(tmp_path: Path) -> None:
    text = PAYMENTS.replace('body = "json"', 'body = "json"\nkey_heder = "X"')
    (line,) = complaints(written(tmp_path, bad__toml=text))
    assert "http.key_heder: unknown field; did you mean 'key_header'?" in line


def test_broken_rule_names_both_fields(tmp_path: Path) -> None:
    text = PAYMENTS.replace('lease = "30s"', 'lease = "10s"')
    (line,) = complaints(written(tmp_path, bad__toml=text))
    assert "payments-charge 2026-01" in line
    assert "lease (10s) must be at least attempt_timeout (10s)" in line


def test_every_complaint_of_every_file_is_told_at_once(tmp_path: Path) -> None:
    lines = complaints(
        written(
            tmp_path,
            a__toml=PAYMENTS.replace('"30s"', '"ten"').replace("= 5", '= "5"'),
            b__toml="not toml at all",
            c__yaml="contracts: [}",
        )
    )
    assert [line.split(": ")[0].rpartition("/")[2] for line in lines] == [
        "a.toml",
        "a.toml",
        "a.toml",
        "b.toml",
        "c.yaml",
    ]
    assert any("lease: 'ten' is no duration" in line for line in lines)
    assert any("retry_limit: Input should be a valid integer" in line for line in lines)


def test_header_complaint_is_about_the_form_that_was_written(tmp_path: Path) -> None:
    text = PAYMENTS.replace('secret = "payments/token"', 'secrets = "payments/token"')
    lines = complaints(written(tmp_path, bad__toml=text))
    assert any("http.headers.Authorization.secret: Field required" in x for x in lines)
    assert any("http.headers.Authorization.secrets: unknown field" in x for x in lines)
    assert len(lines) == 2


def test_complaint_about_a_literal_credential_does_not_repeat_it(tmp_path: Path) -> None:
    text = PAYMENTS.replace('{ secret = "payments/token" }', '"Bearer canary"')
    (line,) = complaints(written(tmp_path, bad__toml=text))
    assert "Authorization is a credential" in line
    assert "canary" not in line


def test_same_name_and_version_twice_in_a_set_is_refused(tmp_path: Path) -> None:
    (line,) = complaints(written(tmp_path, a__toml=PAYMENTS, b__toml=PAYMENTS))
    assert line.startswith(f"{tmp_path}/b.toml: contract payments-charge 2026-01")
    assert f"{tmp_path}/a.toml" in line


def test_same_name_and_version_twice_in_a_file_is_refused(tmp_path: Path) -> None:
    (line,) = complaints(written(tmp_path, a__toml=PAYMENTS + PAYMENTS))
    assert "already stand" in line


def test_one_tool_in_two_contracts_of_one_version_is_refused(tmp_path: Path) -> None:
    other = PAYMENTS.replace('name = "payments-charge"', 'name = "payments-other"')
    (line,) = complaints(written(tmp_path, a__toml=PAYMENTS, b__toml=other))
    assert "payments.charge" in line
    assert "payments-charge" in line


def test_two_versions_of_one_contract_load_together(tmp_path: Path) -> None:
    newer = PAYMENTS.replace('"2026-01"', '"2026-02"')
    loaded = load_contracts(written(tmp_path, a__toml=PAYMENTS, b__toml=newer))
    assert [contract.version for contract in loaded] == ["2026-01", "2026-02"]


def test_folder_is_read_in_depth_and_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    written(tmp_path / "deep", a__toml=PAYMENTS)
    written(tmp_path, README__md="not a contract")
    assert len(load_contracts(tmp_path)) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty.toml", ""),
        ("none.toml", "contracts = []"),
        ("other.toml", "contracts = 1"),
        ("table.toml", "[contracts]"),
        ("more.toml", PAYMENTS + "\n[other]\na = 1"),
        ("list.yaml", "- 1"),
        ("empty.yaml", ""),
        ("alias.yaml", "a: &x [1]\ncontracts: [*x]"),
        ("tag.yaml", "contracts: !!python/object/apply:os.getcwd []"),
        ("twice.yaml", "contracts: [{tool: a, tool: b}]"),
        ("broken.toml", "contracts = ["),
        ("other.json", "{}"),
    ],
)
def test_what_is_no_contract_file_is_refused_by_name(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    assert all(name in line for line in complaints(tmp_path / name))


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ContractInvalid, match="UTF-8"):
        parse_contracts(b"\xff\xfe")


def test_missing_path_and_empty_folder_are_refused(tmp_path: Path) -> None:
    assert "no such file" in complaints(tmp_path / "nowhere")[0]
    assert "holds no" in complaints(tmp_path)[0]


def test_shipped_schema_is_the_models_own() -> None:
    shipped = resources.files("effect_broker").joinpath("contracts.schema.json")
    assert json.loads(shipped.read_text()) == contract_schema()


def test_shipped_schema_accepts_the_examples_and_refuses_a_typo() -> None:
    import tomllib

    schema = contract_schema()
    Draft202012Validator.check_schema(schema)
    editor = Draft202012Validator(schema)
    for path in EXAMPLES.glob("*.toml"):
        document = tomllib.loads(path.read_text())
        assert [error.message for error in editor.iter_errors(_told(document))] == []
    typo = tomllib.loads(PAYMENTS.replace("retry_limit", "retry_limt"))
    assert not editor.is_valid(_told(typo))


def _told(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out tables that are opened and say nothing."""
    for contract in document["contracts"]:
        for name in ("output", "listing", "sandbox"):
            if contract.get(name) == {}:
                del contract[name]
    return document
