"""The served OpenAPI document: what the routes cannot know of themselves, added once.

Bodies are read by hand, so that their schemas stand here; problems are answered by
handlers, so that each route's possible ones stand here too. Built when first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from effect_broker.surfaces.openapi_examples import (
    problem_examples,
    request_examples,
    response_examples,
)
from effect_broker.surfaces.openapi_schemas import IF_MATCH, PREFER, SCHEMAS
from effect_broker.surfaces.problem import FRAMEWORK, MEDIA_TYPE

API_VERSION: Final = "1"

DESCRIPTION: Final = """\
Submit a mutating tool call under an operation key of your own. The same key always
answers with the same effect: after a lost answer, repeat the identical request, never
under a new key. A running or unknown effect is not an error; its `outcome` says in words
where it stands, and `next` what may be done.
"""

_EVERYWHERE: Final = (401, 403, 429, 500, 503)
_NAMED: Final = (*_EVERYWHERE, 404)
_WITH_BODY: Final = (*_NAMED, 400, 413, 415)

_PROBLEM_TEXT: Final[Mapping[int, str]] = {
    400: "The request cannot be understood; nothing was stored.",
    401: "No valid API key.",
    403: "The key lacks the scope, or its tenant may not submit.",
    404: "Nothing by that name for this tenant.",
    409: "The request contradicts what is recorded.",
    412: "The effect is not at the version that If-Match names; nothing was changed.",
    413: "The body is too large.",
    415: "The body is not plain JSON.",
    429: "The key asks too often; safe to repeat after Retry-After.",
    500: "A defect; safe to repeat with the same key.",
    503: "The ledger is away; safe to repeat with the same key after Retry-After.",
}


@dataclass(frozen=True, slots=True)
class Operation:
    """What one route takes and refuses."""

    problems: tuple[int, ...]
    body: str | None = None
    body_required: bool = True
    public: bool = False
    parameters: tuple[Mapping[str, Any], ...] = ()


OPERATIONS: Final[Mapping[str, Operation]] = {
    "submit_effect": Operation(
        (*_WITH_BODY, 409), body="EffectSubmission", parameters=(PREFER,)
    ),
    "list_effects": Operation((*_EVERYWHERE, 400)),
    "get_effect": Operation(_NAMED, parameters=(PREFER,)),
    "get_history": Operation((*_NAMED, 400)),
    "get_receipt": Operation(_NAMED),
    "reconcile_effect": Operation(
        (*_NAMED, 400, 413), body="Nothing", body_required=False
    ),
    "resolve_effect": Operation(
        (*_WITH_BODY, 409, 412), body="Finding", parameters=(IF_MATCH,)
    ),
    "compensate_effect": Operation(
        (*_WITH_BODY, 409, 412), body="Compensation", parameters=(IF_MATCH,)
    ),
    "fork_effect": Operation((*_WITH_BODY, 409), body="Fork"),
    "list_tools": Operation(_EVERYWHERE),
    "healthz": Operation((), public=True),
    "readyz": Operation((500, 503), public=True),
}


def describe(app: FastAPI) -> None:
    """Make the application serve the completed document."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _complete(
                get_openapi(
                    title=app.title,
                    version=app.version,
                    description=app.description,
                    routes=app.routes,
                )
            )
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _complete(document: dict[str, Any]) -> dict[str, Any]:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(SCHEMAS)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for methods in document["paths"].values():
        for route in methods.values():
            _complete_route(route, OPERATIONS[route["operationId"]])
    return document


def _complete_route(route: dict[str, Any], operation: Operation) -> None:
    name, responses = route["operationId"], route["responses"]
    responses.pop("422", None)
    for status, examples in response_examples().get(name, {}).items():
        responses[status]["content"]["application/json"]["examples"] = examples
    for refused in sorted(operation.problems):
        responses[str(refused)] = _problem(name, refused)
    if operation.public:
        route["security"] = []
    if operation.parameters:
        route.setdefault("parameters", []).extend(operation.parameters)
    if operation.body is not None:
        route["requestBody"] = {
            "required": operation.body_required,
            "content": {
                "application/json": {
                    "schema": {"$ref": f"#/components/schemas/{operation.body}"},
                    "examples": request_examples().get(name, {}),
                }
            },
        }


def _problem(name: str, status: int) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": {"$ref": "#/components/schemas/Problem"}}
    examples = problem_examples().get((name, status))
    if examples:
        content["examples"] = examples
    response: dict[str, Any] = {
        "description": _PROBLEM_TEXT.get(status) or FRAMEWORK[status][1],
        "content": {MEDIA_TYPE: content},
    }
    if status in (429, 503):
        response["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    return response
