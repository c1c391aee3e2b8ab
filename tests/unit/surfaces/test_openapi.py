from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from effect_broker.surfaces.auth import Authenticator
from effect_broker.surfaces.http_api import HttpParts, create_app
from effect_broker.surfaces.openapi import OPERATIONS
from tests.unit.surfaces.keys import KeyStore


async def _ready() -> None: ...


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    parts = HttpParts(None, Authenticator(KeyStore()), ready=_ready)  # type: ignore[arg-type]
    return create_app(parts).openapi()


def routes(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            yield method.upper(), path, route


def test_every_route_of_the_design_is_described(document: dict[str, Any]) -> None:
    assert {(method, path) for method, path, _ in routes(document)} == {
        ("POST", "/v1/effects"),
        ("GET", "/v1/effects"),
        ("GET", "/v1/effects/{effect_id}"),
        ("GET", "/v1/effects/{effect_id}/history"),
        ("GET", "/v1/effects/{effect_id}/receipt"),
        ("POST", "/v1/effects/{effect_id}/reconcile"),
        ("POST", "/v1/effects/{effect_id}/resolve"),
        ("POST", "/v1/effects/{effect_id}/compensation"),
        ("POST", "/v1/effects/{effect_id}/fork"),
        ("GET", "/v1/tools"),
        ("GET", "/healthz"),
        ("GET", "/readyz"),
    }
    assert {route["operationId"] for *_, route in routes(document)} == set(OPERATIONS)


def test_every_v1_route_needs_a_key_and_no_other_does(document: dict[str, Any]) -> None:
    for _, path, route in routes(document):
        assert bool(route["security"]) == path.startswith("/v1")


def test_refusals_are_problems_and_never_the_frameworks_own(
    document: dict[str, Any],
) -> None:
    for _, path, route in routes(document):
        refusals = {
            status: answer
            for status, answer in route["responses"].items()
            if status >= "400"
        }
        assert "422" not in refusals
        if path.startswith("/v1"):
            assert {"401", "403", "500", "503"} <= set(refusals)
        for answer in refusals.values():
            assert list(answer["content"]) == ["application/problem+json"]
    assert "HTTPValidationError" not in document["components"]["schemas"]


def examples(document: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for _, _, route in routes(document):
        bodies = [route["requestBody"]] if "requestBody" in route else []
        for part in [*bodies, *route["responses"].values()]:
            for content in part.get("content", {}).values():
                for name, example in content.get("examples", {}).items():
                    yield (
                        f"{route['operationId']}:{name}",
                        content["schema"],
                        example["value"],
                    )


def test_new_replay_conflict_unknown_and_resolution_are_shown(
    document: dict[str, Any],
) -> None:
    names = {name for name, *_ in examples(document)}
    assert {
        "submit_effect:new",
        "submit_effect:replay",
        "submit_effect:conflict",
        "submit_effect:unknown",
        "resolve_effect:committed",
        "get_receipt:succeeded",
    } <= names


def test_every_example_fits_its_schema(document: dict[str, Any]) -> None:
    for name, schema, value in examples(document):
        whole = {**schema, "components": document["components"]}
        problems = list(Draft202012Validator(whole).iter_errors(value))
        assert problems == [], name


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    def references(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            for value in node.values():
                yield from references(value)
        elif isinstance(node, list):
            for value in node:
                yield from references(value)

    for reference in references(document):
        target = document
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]
