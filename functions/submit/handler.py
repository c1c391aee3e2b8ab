"""submit: HTTP requests and direct invocations; reserves and answers, never sends."""

from __future__ import annotations

from functools import cache
from typing import Any

from effect_broker.domain.errors import EffectBrokerError
from effect_broker.surfaces.auth import Authenticator
from effect_broker.surfaces.direct import DirectInvocations
from effect_broker.surfaces.http_api import HttpParts, create_app
from effect_broker.surfaces.lambda_environment import LambdaContext, LambdaEnvironment
from effect_broker.surfaces.lambda_http import LambdaHttp, answer_failure, is_http
from effect_broker.surfaces.limiting import Rate, RateLimiter
from effect_broker.surfaces.refusing import raise_defect, raise_refusal
from effect_broker.surfaces.task_tokens import task_tokens

_environment = LambdaEnvironment()


def handler(event: Any, context: LambdaContext) -> Any:
    """Answer one event, which came through a gateway or from a caller with IAM rights."""
    with _environment.invocation():
        return _serve(event, context) if is_http(event) else _answer(event, context)


def _serve(event: Any, context: LambdaContext) -> Any:
    try:
        return _http()(event, context)
    except Exception as error:
        return answer_failure(error)


def _answer(event: Any, context: LambdaContext) -> Any:
    try:
        return _environment.run(_direct().answer(event, context.invoked_function_arn))
    except EffectBrokerError as error:
        raise_refusal(error)
    except Exception as error:
        raise_defect(error)


@cache
def _http() -> LambdaHttp:
    core = _environment.core
    parts = HttpParts(
        broker=core.broker,
        authenticator=Authenticator(core.registry),
        ready=core.check_ready,
        limiter=RateLimiter(Rate.of(core.settings.rate_limit)),
        cors_origins=core.settings.cors_origins,
    )
    return LambdaHttp(create_app(parts))


@cache
def _direct() -> DirectInvocations:
    core = _environment.core
    return DirectInvocations(core.broker, core.registry, task_tokens(core))
