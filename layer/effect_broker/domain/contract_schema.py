"""JSON Schema 2020-12 as contracts use it: checked at load, never fetched from afar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry

from effect_broker.domain.canonical import canonical
from effect_broker.domain.errors import InvalidJson
from effect_broker.domain.pointer import MISSING, at_pointer

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_COMPARED: Final = frozenset({"const", "enum", "default", "examples"})
_NAMED: Final = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)
_REBASING: Final = frozenset({"$id", "$anchor", "$dynamicAnchor", "$dynamicRef"})
"""Keywords that would give references another start than the schema's own top."""

ERRORS_SHOWN_MAX: Final = 20
"""Enough to mend a request; a long array of wrong items must not make a long answer."""


def check_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Accept a valid schema whose references lead to schemas inside it, and to an end.

    Raises:
        ValueError: another dialect, an invalid schema, or a reference that leads nowhere,
            out of the schema, or back to itself on the same value.
    """
    if schema.get("$schema", DIALECT).rstrip("#") != DIALECT:
        raise ValueError(f"$schema must be {DIALECT}")
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
    _check_references(schema)
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


def _check_references(root: dict[str, Any]) -> None:
    schemas = {id(schema): schema for schema in _schemas(root)}
    targets: dict[int, Any] = {}
    for place, schema in schemas.items():
        for keyword in _REBASING & schema.keys():
            raise ValueError(f"{keyword} is not taken: refer by JSON pointers")
        if "$ref" not in schema:
            continue
        reference = schema["$ref"]
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise ValueError("$ref must stay inside the schema (start with '#')")
        target = _target(root, reference)
        if id(target) not in schemas and not isinstance(target, bool):
            raise ValueError(f"$ref {reference} leads to no schema")
        targets[place] = target
    _check_ends(schemas, targets)


def _target(root: dict[str, Any], reference: str) -> Any:
    try:
        return at_pointer(root, unquote(reference[1:]))
    except ValueError:
        return MISSING


def _check_ends(schemas: Mapping[int, Any], targets: Mapping[int, Any]) -> None:
    """Refuse schemas that judge a value by judging the same value by themselves."""
    ended: set[int] = set()
    for start in schemas:
        path = [(start, _on_the_same_value(schemas[start], targets))]
        open_places = {start}
        while path:
            place, following = path[-1]
            below = next(following, None)
            if below is None:
                path.pop()
                open_places.discard(place)
                ended.add(place)
            elif id(below) in open_places:
                raise ValueError("$ref leads back to itself without an end")
            elif id(below) not in ended:
                path.append((id(below), _on_the_same_value(below, targets)))
                open_places.add(id(below))


def _on_the_same_value(
    schema: Mapping[str, Any], targets: Mapping[int, Any]
) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas that judge the very value which this one judges."""
    found = [targets.get(id(schema))]
    for keyword in ("not", "if", "then", "else"):
        found.append(schema.get(keyword))
    for keyword in ("allOf", "anyOf", "oneOf"):
        found.extend(schema.get(keyword, ()))
    found.extend(schema.get("dependentSchemas", {}).values())
    yield from (below for below in found if isinstance(below, Mapping))


def _schemas(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all inside it; values that are only compared are none."""
    if not isinstance(schema, Mapping):
        return
    yield schema
    for keyword, value in schema.items():
        if keyword in _COMPARED:
            continue
        inside = value.values() if keyword in _NAMED else [value]
        if isinstance(value, list):
            inside = value
        for below in inside:
            yield from _schemas(below)


def _pointer(path: Any) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
