"""Every refusal of the HTTP surface as problem+json, the framework's and defects too."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from effect_broker.domain.errors import EffectBrokerError
from effect_broker.surfaces.problem import (
    MEDIA_TYPE,
    Problem,
    framework_problem,
    internal_problem,
    problem_of,
)
from effect_broker.surfaces.requests import InvalidFields

_log: Final = logging.getLogger(__name__)

_DETAILS: Final = {
    404: "No path of this API matches.",
    405: "This path exists, but not for this method; see Allow.",
}


def problem_response(problem: Problem) -> Response:
    """Render a problem."""
    return Response(
        problem.body(),
        status_code=problem.status,
        media_type=MEDIA_TYPE,
        headers={"Cache-Control": "no-store", **problem.headers},
    )


def add_problem_handlers(app: FastAPI) -> None:
    """Make the application answer every refusal as a problem."""
    app.add_exception_handler(EffectBrokerError, _broker_refused)
    app.add_exception_handler(HTTPException, _framework_refused)
    app.add_exception_handler(RequestValidationError, _parameters_refused)


async def _broker_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, EffectBrokerError)
    problem = problem_of(error)
    if problem.status >= 500:
        _log.error(
            "request could not be served",
            exc_info=error,
            extra={"error": error.code, "occurrence": problem.members.get("instance")},
        )
    return problem_response(problem)


async def _framework_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = _DETAILS.get(error.status_code, error.detail)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_methods(request))
    return problem_response(framework_problem(error.status_code, detail, headers))


def _methods(request: Request) -> list[str]:
    """Return what the path takes over all its routes; the framework names the first's."""
    return [
        method
        for method in ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    ]


async def _parameters_refused(request: Request, error: Exception) -> Response:
    """Name the parameters and what is wrong with each, never what they held."""
    assert isinstance(error, RequestValidationError)
    complaints = {
        ".".join(str(part) for part in item["loc"][1:]): str(item["type"])
        for item in error.errors()
    }
    return problem_response(problem_of(InvalidFields(complaints)))


class OutermostLine:
    """The last resort around the application: a defect is logged, answered, not shown."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request and log that it was served."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Watched(send)
        started = perf_counter()
        try:
            await self._app(scope, receive, answer.send)
        except ClientDisconnect:
            _log.info("client left before its request was read")
        except Exception as error:  # noqa: BLE001 the outermost line of this surface
            await self._answer_defect(error, answer, scope, receive)
        _log.info(
            "request served",
            extra={
                "method": scope["method"],
                "route": getattr(scope.get("route"), "path", "(none)"),
                "status": answer.status,
                "duration_ms": round((perf_counter() - started) * 1000, 1),
            },
        )

    async def _answer_defect(
        self, error: Exception, answer: _Watched, scope: Scope, receive: Receive
    ) -> None:
        problem = internal_problem()
        _log.error(
            "request met a defect",
            exc_info=error,
            extra={"occurrence": problem.members["instance"]},
        )
        if answer.status is None:
            await problem_response(problem)(scope, receive, answer.send)


class _Watched:
    """Notes the status of an answer on its way out."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            _add_headers(message)
        await self._send(message)


def _add_headers(message: Any) -> None:
    message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
