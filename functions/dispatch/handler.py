"""dispatch: sends what is due, woken by nudges and by the sweep."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from effect_broker.broker.answering import Answering
from effect_broker.domain.errors import EffectBrokerError
from effect_broker.surfaces.lambda_environment import (
    LambdaContext,
    LambdaEnvironment,
    remaining,
)
from effect_broker.surfaces.refusing import raise_defect, raise_refusal
from effect_broker.surfaces.task_tokens import answering
from effect_broker.surfaces.working import work
from effect_broker.wiring.workers import Workers

_environment = LambdaEnvironment()


def handler(event: Any, context: LambdaContext) -> Any:
    """Run one pass over the nudged effects, or passes over whatever is due."""
    with _environment.invocation():
        try:
            return _environment.run(
                work(
                    event,
                    _workers().dispatcher,
                    partial(remaining, context),
                    answering=_answering(),
                )
            )
        except EffectBrokerError as error:
            raise_refusal(error)
        except Exception as error:
            raise_defect(error)


@cache
def _workers() -> Workers:
    return Workers(_environment.core, "dispatch")


@cache
def _answering() -> Answering:
    return answering(_environment.core)
