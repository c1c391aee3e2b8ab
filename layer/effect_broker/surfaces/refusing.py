"""How an invocation ends that is refused or meets a defect: by a name, with a problem."""

from __future__ import annotations

import logging
from typing import Final, NoReturn

from effect_broker.domain.errors import EffectBrokerError
from effect_broker.surfaces.problem import Problem, internal_problem, problem_of

_log: Final = logging.getLogger(__name__)


class InvocationRefused(Exception):
    """A refusal as the caller of a function sees it: a name to catch, a problem to read.

    Each refusal is raised as a subclass named after the broker's error (`PayloadDrift`,
    `LedgerUnavailable`, …), since workflows retry and catch by name.
    """


def raise_refusal(error: EffectBrokerError) -> NoReturn:
    """End an invocation with a broker error, under the error's own name."""
    raise _refusal(type(error).__name__, problem_of(error)) from None


def raise_defect(error: Exception) -> NoReturn:
    """End an invocation that met a defect; the log knows it by `instance`."""
    problem = internal_problem()
    _log.error(
        "invocation met a defect",
        exc_info=error,
        extra={"occurrence": problem.members["instance"]},
    )
    raise _refusal("InternalError", problem) from None


def _refusal(name: str, problem: Problem) -> InvocationRefused:
    kind = type(name, (InvocationRefused,), {})
    refusal: InvocationRefused = kind(problem.body().decode("ascii"))
    return refusal
