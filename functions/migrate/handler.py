"""migrate: upgrades the schema on deploy, and sets up tenants, keys and contracts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from effect_broker.domain.errors import EffectBrokerError
from effect_broker.surfaces.lambda_environment import LambdaContext, LambdaEnvironment
from effect_broker.surfaces.refusing import raise_defect, raise_refusal
from effect_broker.surfaces.setup import answer_setup

_environment = LambdaEnvironment(seals=False)


def handler(event: Any, context: LambdaContext) -> Any:
    """Carry out one operation; an event without one is a deployment's, and upgrades."""
    with _environment.invocation():
        try:
            asked = event if isinstance(event, Mapping) else {}
            return _environment.run(answer_setup(_environment.core, asked))
        except EffectBrokerError as error:
            raise_refusal(error)
        except Exception as error:
            raise_defect(error)
