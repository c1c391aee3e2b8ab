"""Contract files: TOML or YAML, a file or a folder, and errors that say where to look."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from effect_broker.domain.contract import (
    CLOCK_MARGIN,
    ContractRulesBroken,
    EffectContract,
    SecretRef,
)
from effect_broker.domain.contract_http import Terms
from effect_broker.domain.errors import ContractInvalid

SUFFIXES: Final = frozenset({".toml", ".yaml", ".yml"})
FILE_BYTES_MAX: Final = 1_000_000
"""A contract is a page; a file this long is another kind of file."""

_SUMMARY: Final = "A contract file: what the broker may rely on, tool by tool."


class ContractFile(BaseModel):
    """A contract file."""

    model_config = ConfigDict(extra="forbid", title="effect-broker contracts")

    contracts: Annotated[list[EffectContract], Field(min_length=1)]


def load_contracts(
    path: Path, *, clock_margin: timedelta = CLOCK_MARGIN
) -> list[EffectContract]:
    """Load a file, or every contract file below a folder, as one set.

    All complaints are collected before anything is refused, each with file, contract,
    field and reason.

    Raises:
        ContractInvalid: with one complaint a line.
    """
    loaded: list[tuple[Path, EffectContract]] = []
    complaints: list[str] = []
    for file in _files(path):
        try:
            contracts = parse_contracts(
                file.read_bytes(), suffix=file.suffix, clock_margin=clock_margin
            )
            loaded.extend((file, contract) for contract in contracts)
        except ContractInvalid as refused:
            complaints.extend(f"{file}: {line}" for line in refused.message.splitlines())
        except OSError as error:
            complaints.append(f"{file}: cannot be read ({error.strerror})")
    complaints.extend(_doubles(loaded))
    if complaints:
        raise ContractInvalid("\n".join(complaints))
    return [contract for _, contract in loaded]


def parse_contracts(
    raw: bytes, *, suffix: str = ".toml", clock_margin: timedelta = CLOCK_MARGIN
) -> list[EffectContract]:
    """Read the contracts of one file's text.

    Raises:
        ContractInvalid: with one complaint a line: contract, field, reason.
    """
    if len(raw) > FILE_BYTES_MAX:
        raise ContractInvalid(f"longer than {FILE_BYTES_MAX} bytes")
    document = _yaml(raw) if suffix in {".yaml", ".yml"} else _toml(raw)
    try:
        file = ContractFile.model_validate(
            document, context={"clock_margin": clock_margin}
        )
    except ValidationError as error:
        raise ContractInvalid("\n".join(_complaints(error, document))) from None
    return file.contracts


def contract_schema() -> dict[str, Any]:
    """Return the JSON Schema of contract files, for editors."""
    schema = ContractFile.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "description": _SUMMARY,
    }


def _files(path: Path) -> Sequence[Path]:
    if path.is_dir():
        found = sorted(
            file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file()
        )
        if not found:
            raise ContractInvalid(f"{path}: holds no .toml, .yaml or .yml file")
        return found
    if not path.is_file():
        raise ContractInvalid(f"{path}: no such file or folder")
    if path.suffix not in SUFFIXES:
        raise ContractInvalid(f"{path}: is neither .toml nor .yaml")
    return [path]


def _toml(raw: bytes) -> Any:
    try:
        return tomllib.loads(raw.decode())
    except UnicodeDecodeError:
        raise ContractInvalid("not UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ContractInvalid(f"not TOML: {error}") from None


def _yaml(raw: bytes) -> Any:
    try:
        from effect_broker.contracts_yaml import read_yaml
    except ModuleNotFoundError:
        raise ContractInvalid("YAML needs the extra effect-broker[yaml]") from None
    return read_yaml(raw)


def _doubles(loaded: Iterable[tuple[Path, EffectContract]]) -> Iterator[str]:
    names: dict[tuple[str, str], Path] = {}
    tools: dict[tuple[str, str], str] = {}
    for file, contract in loaded:
        label = f"{file}: contract {contract.name} {contract.version}"
        identity = (contract.name, contract.version)
        if identity in names:
            yield f"{label}: name and version already stand in {names[identity]}"
            continue
        names[identity] = file
        other = tools.setdefault((contract.tool, contract.version), contract.name)
        if other != contract.name:
            yield (
                f"{label}: tool {contract.tool!r} already has version"
                f" {contract.version} in contract {other}"
            )


def _complaints(error: ValidationError, document: Any) -> Iterator[str]:
    for problem in error.errors(include_url=False):
        if _other_branch(problem):
            continue
        where = _where(problem["loc"], document)
        broken = problem.get("ctx", {}).get("error")
        if isinstance(broken, ContractRulesBroken):
            yield from (f"{where}{reason}" for reason in broken.reasons)
        elif problem["type"] == "extra_forbidden":
            yield f"{where}unknown field{_suggestion(str(problem['loc'][-1]))}"
        else:
            yield f"{where}{problem['msg'].removeprefix('Value error, ')}"


def _other_branch(problem: Mapping[str, Any]) -> bool:
    """Say whether this is about the form of a value that the author did not choose.

    A header is a text or a secret reference, and each form complains about the other.
    """
    given = problem["input"]
    return (problem["type"] == "string_type" and isinstance(given, dict)) or (
        problem["type"] == "model_type"
        and isinstance(given, str)
        and problem["loc"][-1] == SecretRef.__name__
    )


def _where(loc: tuple[int | str, ...], document: Any) -> str:
    steps = [str(step) for step in loc if not _is_branch(step)]
    if len(loc) < 2 or loc[0] != "contracts" or not isinstance(loc[1], int):
        return f"{'.'.join(steps)}: " if steps else ""
    table = document["contracts"][loc[1]]
    name = table.get("name", "?") if isinstance(table, dict) else "?"
    version = table.get("version", "?") if isinstance(table, dict) else "?"
    label = f"contract {name} {version} (#{loc[1] + 1}): "
    return label + (f"{'.'.join(steps[2:])}: " if steps[2:] else "")


def _is_branch(step: int | str) -> bool:
    """Say whether a step names a form of a value and no place in the file."""
    return isinstance(step, str) and ("[" in step or step in {"SecretRef", "str"})


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name, _field_names(), n=1, cutoff=0.7)
    return f"; did you mean {close[0]!r}?" if close else ""


def _field_names() -> list[str]:
    models: list[type[BaseModel]] = [EffectContract, *Terms.__subclasses__()]
    return sorted({field for model in models for field in model.model_fields})
