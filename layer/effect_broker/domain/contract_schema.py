"""JSON Schema 2020-12 as contracts use it: checked at load, never fetched from afar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry

from effect_broker.domain.canonical import canonical
from effect_broker.domain.errors import InvalidJson

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
ERRORS_SHOWN_MAX: Final = 20
"""Enough to mend a request; a long array of wrong items must not make a long answer."""


def check_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Accept a valid schema whose references stay inside it.

    Raises:
        ValueError: another dialect, a foreign reference, or an invalid schema.
    """
    if schema.get("$schema", DIALECT).rstrip("#") != DIALECT:
        raise ValueError(f"$schema must be {DIALECT}")
    for reference in _references(schema):
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise ValueError("$ref must stay inside the schema (start with '#')")
    try:
        canonical(schema)
    except InvalidJson as error:
        raise ValueError(error.message) from None
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = "/" + "/".join(str(step) for step in error.absolute_path)
        raise ValueError(
            f"no valid JSON Schema 2020-12 at {place}: {error.message}"
        ) from None
    return schema


def argument_errors(schema: Mapping[str, Any], value: Any) -> tuple[str, ...]:
    """Return pointers to what the schema refuses, in order; empty where it accepts."""
    validator = _validator(orjson.dumps(schema))
    found = {_pointer(error.absolute_path) for error in validator.iter_errors(value)}
    return tuple(sorted(found))[:ERRORS_SHOWN_MAX]


def property_at(
    schema: Mapping[str, Any], steps: tuple[str, ...]
) -> Mapping[str, Any] | None:
    """Return the schema declared for a property path, or None where none is declared."""
    current: Any = schema
    for step in steps:
        properties = current.get("properties") if isinstance(current, Mapping) else None
        current = properties.get(step) if isinstance(properties, Mapping) else None
    return {} if current is True else current if isinstance(current, Mapping) else None


@lru_cache(maxsize=512)
def _validator(schema: bytes) -> Draft202012Validator:
    return Draft202012Validator(orjson.loads(schema), registry=Registry())


def _references(schema: Any) -> Iterator[Any]:
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            if key in {"$ref", "$dynamicRef"}:
                yield value
            yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)


def _pointer(path: Any) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
