"""Arguments that a contract accepts, for a first request to copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.contract_schema import argument_errors

_BY_TYPE: Final[Mapping[str, Any]] = {
    "boolean": True,
    "null": None,
    "number": 1.5,
    "array": [],
    "string": "example",
}


def sample_arguments(contract: EffectContract) -> dict[str, Any] | None:
    """Return the contract's own sample, or what its schema requires at the least.

    None where a made-up sample would be refused: only its author knows better.
    """
    if contract.sandbox is not None:
        return dict(contract.sandbox.arguments)
    made = _object(contract.arguments)
    return None if argument_errors(contract.arguments, made) else made


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    return {name: _value(properties.get(name, {})) for name in schema.get("required", ())}


def _value(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return _BY_TYPE["string"]
    for given in ("examples", "enum"):
        if schema.get(given):
            return schema[given][0]
    for given in ("const", "default"):
        if given in schema:
            return schema[given]
    kind = schema.get("type")
    if kind == "object":
        return _object(schema)
    if kind == "integer":
        return max(1, schema.get("minimum", 1))
    return _BY_TYPE.get(kind if isinstance(kind, str) else "string")
