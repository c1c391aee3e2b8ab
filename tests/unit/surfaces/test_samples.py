from __future__ import annotations

from typing import Any

import pytest

from effect_broker.surfaces.samples import sample_arguments
from tests.unit.domain.states import contract


def described(**properties: Any) -> dict[str, Any]:
    """Return a schema that requires every one of its properties."""
    return {"type": "object", "required": list(properties), "properties": properties}


@pytest.mark.parametrize(
    ("schema", "sample"),
    [
        ({"type": "object"}, {}),
        (described(amount={"type": "integer", "minimum": 5}), {"amount": 5}),
        (
            described(currency={"type": "string", "examples": ["eur"]}),
            {"currency": "eur"},
        ),
        (described(kind={"enum": ["card", "cash"]}), {"kind": "card"}),
        (described(live={"const": False}), {"live": False}),
        (described(to=described(city={"type": "string"})), {"to": {"city": "example"}}),
        (described(lines={"type": "array"}), {"lines": []}),
    ],
)
def test_sample_is_what_the_schema_requires_at_the_least(
    schema: dict[str, Any], sample: dict[str, Any]
) -> None:
    assert sample_arguments(contract(arguments=schema)) == sample


def test_sample_that_would_be_refused_is_none() -> None:
    schema = described(iban={"type": "string", "pattern": "^[A-Z]{2}[0-9]+$"})
    assert sample_arguments(contract(arguments=schema)) is None
