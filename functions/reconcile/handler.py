"""reconcile: asks about lost answers; its sweep ends lapsed leases first. An operator has
it audit a target.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from effect_broker.broker.answering import Answering
from effect_broker.domain.errors import EffectBrokerError
from effect_broker.surfaces.auditing import answer_audit, asks_for_audit
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
    """Reconcile the nudged effects, or sweep and reconcile whatever is due; or audit."""
    with _environment.invocation():
        try:
            if asks_for_audit(event):
                return _environment.run(answer_audit(_environment.core, event))
            workers = _workers()
            return _environment.run(
                work(
                    event,
                    workers.reconciler,
                    partial(remaining, context),
                    before_sweep=workers.sweep,
                    answering=_answering(),
                )
            )
        except EffectBrokerError as error:
            raise_refusal(error)
        except Exception as error:
            raise_defect(error)


@cache
def _workers() -> Workers:
    return Workers(_environment.core, "reconcile")


@cache
def _answering() -> Answering:
    return answering(_environment.core)
