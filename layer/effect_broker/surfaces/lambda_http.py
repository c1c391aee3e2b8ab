"""HTTP events of API Gateway, function URLs and load balancers, served as they are."""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from typing import Any, Final

from mangum import Mangum
from mangum.types import ASGI

from effect_broker.domain.errors import EffectBrokerError, InvalidRequest
from effect_broker.surfaces.problem import (
    MEDIA_TYPE,
    Problem,
    internal_problem,
    problem_of,
)

_log: Final = logging.getLogger(__name__)

_UNREADABLE: Final = (AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""How the adapter ends on an event with a part missing, or of another type."""

_ROOTS: Final = ("/v1/", "/healthz", "/readyz", "/openapi.json")


def is_http(event: object) -> bool:
    """Say whether an event is a request that came through a gateway."""
    return isinstance(event, Mapping) and isinstance(event.get("requestContext"), Mapping)


class LambdaHttp:
    """Serves HTTP events on the environment's loop; no start-up work runs per request."""

    def __init__(self, app: ASGI) -> None:
        self._mangum = Mangum(
            app, lifespan="off", text_mime_types=["text/", "application/json", MEDIA_TYPE]
        )

    def __call__(self, event: object, context: Any) -> dict[str, Any]:
        """Return the gateway's answer to one event; what no gateway sends is a 400."""
        try:
            adapted = self._adapted(event, context)
        except InvalidRequest as error:
            _log.warning("event is no request of a gateway")
            return _answered(problem_of(error))
        return self._mangum(adapted, context)

    def _adapted(self, event: object, context: Any) -> dict[str, Any]:
        """Have the adapter read the whole of an event before any of it is served."""
        if not isinstance(event, Mapping) or not is_http(event):
            raise _no_request()
        if not isinstance(event.get("body"), str | None):
            raise _no_request()
        adapted = {**event, **_body_as_bytes(event), **_path_without_stage(event)}
        try:
            handler = self._mangum.infer(adapted, context)
            scope, _ = handler.scope, handler.body
        except _UNREADABLE:
            raise _no_request() from None
        if not isinstance(scope["method"], str) or not isinstance(scope["path"], str):
            raise _no_request()
        return adapted


def answer_failure(error: Exception) -> dict[str, Any]:
    """Answer a request that met no application, or one that could not serve it."""
    problem = internal_problem()
    if isinstance(error, EffectBrokerError):
        problem = problem_of(error)
    _log.error(
        "request met no application",
        exc_info=error,
        extra={"occurrence": problem.members.get("instance")},
    )
    return _answered(problem)


def _answered(problem: Problem) -> dict[str, Any]:
    headers = {"content-type": MEDIA_TYPE, **problem.headers}
    return {
        "statusCode": problem.status,
        "headers": headers,
        "multiValueHeaders": {name: [value] for name, value in headers.items()},
        "body": problem.body().decode("ascii"),
        "isBase64Encoded": False,
    }


def _no_request() -> InvalidRequest:
    return InvalidRequest("The event is not the request of any gateway.")


def _path_without_stage(event: Mapping[str, Any]) -> dict[str, Any]:
    """Take a named stage off the path of an HTTP API's event.

    A REST API, a load balancer and a mapped domain send paths without it: whatever does
    not lead to the application's own paths is left as it is.
    """
    context = event["requestContext"]
    stage, http = context.get("stage"), context.get("http")
    if not isinstance(stage, str) or not isinstance(http, Mapping):
        return {}
    path = str(http.get("path", ""))
    rest = path.removeprefix(f"/{stage}")
    if rest == path or not rest.startswith(_ROOTS):
        return {}
    return {"requestContext": {**context, "http": {**http, "path": rest}}}


def _body_as_bytes(event: Mapping[str, Any]) -> dict[str, Any]:
    """Hand a text body on as bytes, whatever it holds.

    The runtime may have read an escaped half of a surrogate pair into it, on which the
    adapter would end the request: the strict parser is to refuse it instead.
    """
    body = event.get("body")
    if not isinstance(body, str) or event.get("isBase64Encoded"):
        return {}
    encoded = base64.b64encode(body.encode("utf-8", "surrogatepass"))
    return {"body": encoded.decode("ascii"), "isBase64Encoded": True}
