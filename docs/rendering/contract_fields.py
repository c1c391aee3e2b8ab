"""The contract's fields: types and defaults from the model, meanings from beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from docs.rendering.contract_meanings import MEANINGS
from docs.rendering.markdown import code, table
from effect_broker.contracts import contract_schema
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.contract_http import Terms
from effect_broker.domain.durations import format_duration

_TITLES: Final = {
    "EffectContract": "[[contracts]]",
    "Backoff": "[contracts.backoff]",
    "Redaction": "[contracts.redact]",
    "HttpTerms": "[contracts.http]",
    "MeaningTable": "[contracts.http.meaning]",
    "ProbeTerms": "[contracts.probe]",
    "ListingTerms": "[contracts.listing]",
    "SandboxTerms": "[contracts.sandbox]",
    "SqlTerms": "[contracts.sql]",
    "SimulatedTerms": "[contracts.simulated]",
    "StripeTerms": "[contracts.stripe]",
    "McpTerms": "[contracts.mcp]",
    "McpMeaningTable": "[contracts.mcp.meaning]",
    "McpLookup": "[contracts.mcp.lookup]",
    "SecretRef": "{ secret = … }",
}
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60))
_PLAIN: Final = {
    "string": "text",
    "boolean": "true or false",
    "object": "table",
    "number": "number",
    "integer": "integer",
}


class UndescribedField(ValueError):
    """A field without a meaning, or a meaning without a field."""


def contract_fields() -> str:
    """Describe every field of every table of a contract file."""
    models = _models()
    if set(models) != set(_TITLES):
        raise UndescribedField(f"tables: {sorted(set(models) ^ set(_TITLES))}")
    parts = []
    for name, title in _TITLES.items():
        parts += [f"### `{title}`", _fields(models[name])]
    return "\n\n".join(parts)


def _models() -> Mapping[str, type[BaseModel]]:
    known = {model.__name__: model for model in _subclasses(BaseModel)}
    schema = EffectContract.model_json_schema()
    tables = {name for name, part in schema["$defs"].items() if "enum" not in part}
    return {name: known[name] for name in {*tables, EffectContract.__name__}}


def _subclasses(model: type[BaseModel]) -> list[type[BaseModel]]:
    below = [sub for sub in model.__subclasses__() if sub.__module__.startswith("effect")]
    return below + [deeper for sub in below for deeper in _subclasses(sub)]


def _fields(model: type[BaseModel]) -> str:
    meanings, name = MEANINGS[model.__name__], model.__name__
    if set(meanings) != set(model.model_fields):
        gap = sorted(set(meanings) ^ set(model.model_fields))
        raise UndescribedField(f"{name}: {', '.join(gap)}")
    schema = model.model_json_schema()
    return table(
        ("field", "value", "default", "meaning"),
        [
            (
                code(field),
                _type(schema["properties"][field], schema.get("$defs", {})),
                _default(info),
                meanings[field],
            )
            for field, info in model.model_fields.items()
        ],
    )


def _type(part: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    match part:
        case {"$ref": reference}:
            name = reference.rpartition("/")[2]
            referred = defs[name]
            return _type(referred, defs) if "enum" in referred else code(_TITLES[name])
        case {"anyOf": choices}:
            kinds = [_type(each, defs) for each in choices if each != {"type": "null"}]
            return " or ".join(kinds)
        case {"enum": values}:
            return ", ".join(code(value) for value in values)
        case {"const": value}:
            return code(value)
        case {"type": "string", "pattern": pattern} if "(ms|s|m|h|d)" in pattern:
            return "duration"
        case {"type": "array", "items": items}:
            return f"list of {_type(items, defs)}"
        case {"type": "object", "additionalProperties": Mapping() as values}:
            return f"table of {_type(values, defs)}"
        case {"type": "integer" | "number" as kind, "minimum": low, "maximum": high}:
            return f"{kind}, {low} to {high}"
        case {"type": str(kind)}:
            return _PLAIN[kind]
        case _:
            raise UndescribedField(f"no words for {part}")


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    match info.get_default(call_default_factory=True):
        case None:
            return "none"
        case bool(value):
            return str(value).lower()
        case timedelta() as span:
            return code(_span(span))
        case "" | () | {}:
            return "empty"
        case Terms() | BaseModel():
            return "its defaults"
        case value:
            return code(value)


def _span(span: timedelta) -> str:
    seconds = span.total_seconds()
    for unit, size in _UNITS:
        if seconds and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return format_duration(span)


def editor_schema() -> str:
    """Render the JSON Schema of contract files, which ships in the package."""
    return json.dumps(contract_schema(), indent=2) + "\n"
