"""A schema's references lead to schemas inside it, and to an end."""

from __future__ import annotations

from typing import Any

import pytest

from effect_broker.domain.contract_schema import argument_errors, check_schema

TREE: dict[str, Any] = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    },
}


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ({"$ref": "#/$defs/nowhere"}, "leads to no schema"),
        ({"properties": {"a": {"$ref": "#/$defs/nowhere"}}}, "leads to no schema"),
        ({"$ref": "#name", "$defs": {"a": {}}}, "leads to no schema"),
        ({"$ref": "#/properties", "properties": {"a": {}}}, "leads to no schema"),
        ({"$ref": "#/const", "const": {"type": "string"}}, "leads to no schema"),
        ({"$ref": "https://example.com/schema"}, "inside the schema"),
        ({"$ref": "#"}, "without an end"),
        ({"allOf": [{"anyOf": [{"$ref": "#"}]}]}, "without an end"),
        ({"not": {"$ref": "#"}}, "without an end"),
        ({"if": {}, "then": {"$ref": "#"}}, "without an end"),
        ({"dependentSchemas": {"a": {"$ref": "#"}}}, "without an end"),
        (
            {
                "$defs": {
                    "a": {"$ref": "#/$defs/b"},
                    "b": {"oneOf": [{"$ref": "#/$defs/a"}]},
                }
            },
            "without an end",
        ),
        ({"$id": "https://example.com/", "$ref": "#/$defs/a"}, "JSON pointers"),
        ({"properties": {"a": {"$id": "urn:a"}}}, "JSON pointers"),
        ({"$defs": {"a": {"$anchor": "name"}}}, "JSON pointers"),
        ({"$dynamicRef": "#name"}, "JSON pointers"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value)[:60],
)
def test_reference_that_cannot_be_followed_is_refused_at_load(
    schema: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        TREE,
        {"properties": {"next": {"$ref": "#"}}},
        {"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}},
        {"const": {"$ref": "https://example.com/"}, "default": {"$id": "x"}},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": True}},
        {"$ref": "#/$defs/a%20b", "$defs": {"a b": {"type": "object"}}},
        {
            "allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}],
            "$defs": {"a": {"type": "object"}},
        },
    ],
    ids=lambda schema: repr(schema)[:60],
)
def test_reference_that_consumes_what_it_judges_is_taken(schema: dict[str, Any]) -> None:
    assert check_schema(schema) is schema
    assert argument_errors(schema, {"next": {"next": {}}}) in ((), ("",))


def test_recursive_schema_judges_the_deepest_arguments() -> None:
    arguments: Any = {"next": 7}
    for _ in range(60):
        arguments = {"next": arguments}
    assert argument_errors(TREE, arguments) == ("/next" * 61,)
