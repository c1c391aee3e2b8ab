"""mcp: the contracts' tools for MCP clients, behind a function URL of its own."""

from __future__ import annotations

from functools import cache
from typing import Any

from effect_broker.surfaces.lambda_environment import LambdaContext, LambdaEnvironment
from effect_broker.surfaces.lambda_http import LambdaHttp, answer_failure
from effect_broker.surfaces.mcp.process import http_app

_environment = LambdaEnvironment()


def handler(event: Any, context: LambdaContext) -> Any:
    """Answer one request of an MCP client; the broker's own key says whose it is."""
    with _environment.invocation():
        try:
            return _http()(event, context)
        except Exception as error:
            return answer_failure(error)


@cache
def _http() -> LambdaHttp:
    return LambdaHttp(http_app(_environment.core))
