"""Cross-origin calls of browsers: refused unless a deployment names their origins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from effect_broker.surfaces.http_problems import problem_response
from effect_broker.surfaces.problem import framework_problem

SENT: Final = ("Authorization", "Content-Type", "If-Match", "Prefer")
READ: Final = ("ETag", "Location", "Preference-Applied", "Retry-After")


class Origins(CORSMiddleware):
    """Lets named origins call, without cookies: the key in a header is the credential."""

    def __init__(self, app: ASGIApp, allow_origins: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=allow_origins,
            allow_methods=("GET", "POST"),
            allow_headers=SENT,
            expose_headers=READ,
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """Answer a browser's question; a refusal is a problem like any other."""
        answer = super().preflight_response(request_headers)
        if answer.status_code < 400:
            return answer
        detail = "This origin, method or header is not allowed here."
        refusal = problem_response(framework_problem(answer.status_code, detail))
        refusal.headers["Vary"] = "Origin"
        return refusal
