"""Operation keys for runtimes that run a step again: the same step gives the same key.

A key is built from what survives a retry, a resume, a replay and a redrive: the identity
of the workflow and the logical step in it. Attempt numbers, run ids that change on a
reset and a model's tool-call ids do not survive, and are refused. Arguments are no part
of a key: two equal refunds are two refunds.

Every helper returns `<runtime>:<part>:<part>…`. Whatever is not a letter, a digit or one
of `-_.~@+=` is percent-encoded in its part, so that different parts never make one key.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final
from urllib.parse import quote

from effect_broker.domain.errors import InvalidOperationKey
from effect_broker.domain.identity import check_operation_key

_CALL_ID: Final = re.compile(
    r"(?:call|fc|resp)_(?=[A-Za-z0-9]*[A-Z0-9])[A-Za-z0-9]{6,}"
    r"|(?:toolu|tooluse|chatcmpl)[_-][A-Za-z0-9_-]{6,}"
    r"|c\d{1,3}|call[_-]?\d+"
)
"""Ids that providers give to tool calls and responses: new at every request."""

_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")
_ATTEMPT: Final = re.compile(
    r"(?i)(?:^|[^a-z])(?:attempts?|retry|retries|retrycount|try)[ _.:=#-]*\d+$"
)

_BETWEEN_PARTS: Final = re.compile(r"[:/|#]")
_BETWEEN_WORDS: Final = re.compile(r"[-_.]")


def operation_key(*parts: str | int) -> str:
    """Join parts of an operation key so that different parts never make the same key.

    For intents that no runtime drives: the parts `order`, `ord_123`, `charge` and `v1`
    make `order:ord_123:charge:v1`.

    Raises:
        InvalidOperationKey: a part is empty or missing, or the key grows too long.
    """
    if not parts:
        raise InvalidOperationKey("an operation key needs at least one part.")
    return check_operation_key(":".join(_part(part) for part in parts))


def step_key(
    runtime: str, workflow_id: str, step: str, *, occurrence: str | int | None = None
) -> str:
    """Name a logical step of a durable workflow.

    `workflow_id` is the identity that stays when the workflow is retried, reset or
    resumed. `step` is the step's name in the code. `occurrence` tells repeats of one step
    apart: the loop's index from durable state, or the id of the item it works on.

    Raises:
        InvalidOperationKey: a part changes from run to run (a UUID, a call id or an
            attempt number as the step), or is empty.
    """
    return _step(runtime, (workflow_id,), (step,), occurrence)


def temporal(
    workflow_id: str,
    step: str,
    *,
    namespace: str = "default",
    occurrence: str | int | None = None,
) -> str:
    """Name a step of a Temporal workflow: by its workflow id, never its run id.

    The run id changes on reset, retry and continue-as-new; the activity's attempt changes
    on every try. A workflow id that is used again for new business needs an `occurrence`
    that tells the two apart.
    """
    return _step("temporal", (namespace, workflow_id), (step,), occurrence)


def step_functions(
    execution_id: str, state: str, *, occurrence: str | int | None = None
) -> str:
    """Name a state of an AWS state machine: `$$.Execution.Id` and `$$.State.Name`.

    A redrive keeps the execution's ARN. `$$.State.RetryCount` and `$$.State.EnteredTime`
    change and have no place here. In a Map state give the item's own id as `occurrence`.

    Raises:
        InvalidOperationKey: the id is no execution ARN, or is that of an express
            execution, whose ARN is another one after each start.
    """
    arn = execution_id.split(":")
    if len(arn) == 9 and arn[2] == "states" and arn[5] == "express":
        raise InvalidOperationKey(
            "an express execution has another ARN after each start; use a business id."
        )
    if len(arn) != 8 or arn[0] != "arn" or arn[2] != "states" or arn[5] != "execution":
        raise InvalidOperationKey("execution_id must be the execution's ARN.")
    return _step("sfn", (arn[6], arn[7]), (state,), occurrence)


def langgraph(thread_id: str, node: str, *, tool: str, occurrence: str | int = 0) -> str:
    """Name a tool call inside a LangGraph node: by thread, node, tool and its place.

    A resumed, retried or time-travelled node runs again from its start and must meet the
    same key. `occurrence` comes from the graph's state (a turn counter, an item's id); a
    checkpoint id, a run id or a tool-call id is another one each time.
    """
    return _step("langgraph", (thread_id,), (node, tool), occurrence)


def openai_agents(
    session_id: str, turn: str | int, *, tool: str, occurrence: str | int = 0
) -> str:
    """Name a tool call of an agent's turn: by session, turn, tool and its place in it.

    `turn` is the application's own: the number or id of the user's message that the run
    answers, so that running the turn again meets the same keys. `occurrence` counts the
    calls of one tool within the turn. The provider's call and response ids are new with
    every request, and repeat between providers.
    """
    return _step("agent", (session_id, turn), (tool,), occurrence)


def durable_function(
    execution_name: str, step: str, *, occurrence: str | int | None = None
) -> str:
    """Name a step of a durable function: by the execution's name and the step's name.

    The execution must have been given a name; an id that the platform draws for unnamed
    executions is another one after a lost start.
    """
    _refuse_random("execution_name", execution_name)
    return _step("durable", (execution_name,), (step,), occurrence)


class Weakness(StrEnum):
    """How a key fails to name one intent."""

    NO_STEP = "no_step"
    ATTEMPT = "attempt_number"
    CALL_ID = "call_id"


def weakness(operation_key: str) -> Weakness | None:
    """Say what would make a key change between tries, or stand for several intents.

    A look at the text, for people who review how callers make keys; nothing is refused on
    it, and a key without a finding may still be a bad one.
    """
    parts = [part for part in _BETWEEN_PARTS.split(operation_key) if part]
    if _UUID.fullmatch(operation_key) or any(map(_CALL_ID.fullmatch, parts)):
        return Weakness.CALL_ID
    if any(map(_ATTEMPT.search, parts)):
        return Weakness.ATTEMPT
    if len(parts) < 2 and len(_BETWEEN_WORDS.split(operation_key)) < 3:
        return Weakness.NO_STEP
    return None


def _step(
    runtime: str,
    identity: tuple[str | int, ...],
    steps: tuple[str, ...],
    occurrence: str | int | None,
) -> str:
    repeats = () if occurrence is None else (occurrence,)
    for part in (*identity, *steps, *repeats):
        _refuse_call_id(part)
        _refuse_attempt(part)
    for step in steps:
        _refuse_random("the step", step)
    return operation_key(runtime, *identity, *steps, *repeats)


def _part(part: object) -> str:
    if isinstance(part, bool) or not isinstance(part, str | int):
        raise InvalidOperationKey("a part of an operation key is a text or a number.")
    if part == "":
        raise InvalidOperationKey("a part of an operation key is empty.")
    return quote(str(part), safe="-_.~@+=")


def _refuse_random(name: str, value: object) -> None:
    if _UUID.fullmatch(str(value)):
        raise InvalidOperationKey(
            f"{name} looks like a random id, which is another one on the next run;"
            " give the name that it has in the code."
        )


def _refuse_call_id(value: object) -> None:
    if _CALL_ID.fullmatch(str(value)):
        raise InvalidOperationKey(
            "a part looks like the id that a model's provider gave to a call, which"
            " changes when the step runs again; name the logical step."
        )


def _refuse_attempt(value: object) -> None:
    if _ATTEMPT.search(str(value)):
        raise InvalidOperationKey(
            "a part holds an attempt number; every attempt of a step is the same intent."
        )
