"""The HTTP application: one route a use case, each bound to its credential's tenant."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.telemetry import TelemetryConfig
from starlette.responses import Response

from effect_broker.surfaces import openapi
from effect_broker.surfaces.answers import ProcessAnswer
from effect_broker.surfaces.http_context import HttpParts as HttpParts
from effect_broker.surfaces.http_context import json_response, parts_of
from effect_broker.surfaces.http_origins import Origins
from effect_broker.surfaces.http_problems import OutermostLine, add_problem_handlers
from effect_broker.surfaces.http_reading import reading
from effect_broker.surfaces.http_writing import writing

process = APIRouter()

_NO_TELEMETRY: Final[TelemetryConfig] = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
"""The framework's own spans and logs would hold queries, inputs and exceptions' texts."""


def create_app(parts: HttpParts) -> FastAPI:
    """Build the application; it opens nothing and starts nothing."""
    app = FastAPI(
        title="effect-broker",
        version=openapi.API_VERSION,
        description=openapi.DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.parts = parts
    add_problem_handlers(app)
    for router in (writing, reading, process):
        app.include_router(router)
    if parts.metrics is not None:
        app.add_route("/metrics", _metrics, include_in_schema=False)
    if parts.cors_origins:
        app.add_middleware(Origins, allow_origins=parts.cors_origins)
    app.add_middleware(OutermostLine)
    openapi.describe(app)
    return app


@process.get("/healthz", response_model=ProcessAnswer)
async def healthz() -> Response:
    """Say that the process lives."""
    return json_response(ProcessAnswer(status="ok"))


@process.get("/readyz", response_model=ProcessAnswer)
async def readyz(request: Request) -> Response:
    """Say that the ledger can be reached and its schema is this version's."""
    await parts_of(request).ready()
    return json_response(ProcessAnswer(status="ready"))


async def _metrics(request: Request) -> Response:
    metrics = parts_of(request).metrics
    assert metrics is not None, "the route exists only with metrics"
    body, media_type = await metrics()
    return Response(body, headers={"Content-Type": media_type})
