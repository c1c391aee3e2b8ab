"""Routes that record something: submissions, requests, findings, links, forks."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from effect_broker.domain.errors import VersionConflict
from effect_broker.surfaces import requests, serving
from effect_broker.surfaces.answers import (
    EffectAnswer,
    ForkAnswer,
    ResolvedAnswer,
    SubmitAnswer,
)
from effect_broker.surfaces.auth import OPERATE, require
from effect_broker.surfaces.http_body import read_json, read_nothing
from effect_broker.surfaces.http_context import (
    Operating,
    Reading,
    Submitting,
    actor,
    effect_response,
    json_response,
    parts_of,
)
from effect_broker.surfaces.http_preferences import Precondition, applied, preferred_wait
from effect_broker.surfaces.telling import effect_answer, resolved_answer

RETRY_AFTER_SECONDS: Final = "1"
"""Hint of a new effect's answer: most are settled by then."""

_NEW: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": SubmitAnswer, "description": "A replay; changes nothing."}
}
_FORKED: Final[dict[int | str, dict[str, Any]]] = {
    202: {"model": SubmitAnswer, "description": "Live: recorded for the first time."}
}

writing = APIRouter(prefix="/v1")


@writing.post(
    "/effects",
    status_code=202,
    response_model=SubmitAnswer,
    response_description="Recorded for the first time.",
    responses=_NEW,
)
async def submit_effect(request: Request, caller: Submitting) -> Response:
    """Reserve an effect, or answer with the one its operation key already stands for.

    The status code says which (202 new, 200 replay), the body's status how far it is.
    """
    patience = preferred_wait(request.headers.getlist("prefer"))
    answer = await serving.submit(
        parts_of(request).broker,
        caller.tenant_id,
        requests.submission(await read_json(request)),
        patience=patience or serving.NO_WAIT,
    )
    return _submitted(answer, applied(patience))


@writing.post("/effects/{effect_id}/reconcile", response_model=EffectAnswer)
async def reconcile_effect(
    request: Request, caller: Submitting, effect_id: str
) -> Response:
    """Ask for reconciliation; never forces a retry, nor changes what is settled."""
    identifier = requests.effect_id(effect_id)
    await read_nothing(request)
    broker, by = parts_of(request).broker, actor(caller)
    return effect_response(
        await serving.reconcile(broker, caller.tenant_id, identifier, actor=by)
    )


@writing.post("/effects/{effect_id}/resolve", response_model=ResolvedAnswer)
async def resolve_effect(request: Request, caller: Operating, effect_id: str) -> Response:
    """Record an operator's finding about an effect that waits for one."""
    identifier = requests.effect_id(effect_id)
    condition = Precondition.of(request.headers.getlist("if-match"))
    found = requests.finding(await read_json(request), actor=actor(caller))
    broker = parts_of(request).broker
    if not condition.names(found.expected_version):
        view = await broker.get(caller.tenant_id, identifier)
        condition.check(view.snapshot.version)
    try:
        result = await broker.resolve(caller.tenant_id, identifier, found)
    except VersionConflict as moved:
        condition.check(moved.version)
        raise
    view = await broker.get(caller.tenant_id, identifier)
    return effect_response(resolved_answer(view, found.decision_id, result.version))


@writing.post("/effects/{effect_id}/compensation", response_model=EffectAnswer)
async def compensate_effect(
    request: Request, caller: Operating, effect_id: str
) -> Response:
    """Link a succeeded effect to the succeeded effect that undid it."""
    identifier = requests.effect_id(effect_id)
    condition = Precondition.of(request.headers.getlist("if-match"))
    compensated_by, reason = requests.compensation(await read_json(request))
    broker = parts_of(request).broker
    if condition.versions is not None and condition.only is None:
        view = await broker.get(caller.tenant_id, identifier)
        condition.check(view.snapshot.version)
    try:
        await broker.compensate(
            caller.tenant_id,
            identifier,
            compensated_by,
            actor=actor(caller),
            reason=reason,
            expected_version=condition.only,
        )
    except VersionConflict as moved:
        condition.check(moved.version)
        raise
    view = await broker.get(caller.tenant_id, identifier)
    return effect_response(effect_answer(view))


@writing.post(
    "/effects/{effect_id}/fork",
    response_model=ForkAnswer | SubmitAnswer,
    response_description="What the recorded answers lead to; or a live fork's replay.",
    responses=_FORKED,
)
async def fork_effect(request: Request, caller: Reading, effect_id: str) -> Response:
    """Go on from a point with the recorded answers, or reserve the payload anew.

    A simulation (`at_sequence`) sends and writes nothing. Live work needs the scope
    operate, and an operation key of its own: it may act at the target again.
    """
    identifier = requests.effect_id(effect_id)
    wanted = requests.fork(await read_json(request))
    broker = parts_of(request).broker
    if isinstance(wanted, int):
        return json_response(
            await serving.fork(broker, caller.tenant_id, identifier, wanted)
        )
    require(caller, OPERATE)
    answer = await serving.fork_live(
        broker, caller.tenant_id, identifier, wanted, actor=actor(caller)
    )
    return _submitted(answer, {})


def _submitted(answer: SubmitAnswer, headers: dict[str, str]) -> Response:
    told = {"Location": answer.links.effect, **headers}
    if not answer.terminal:
        told["Retry-After"] = RETRY_AFTER_SECONDS
    return effect_response(answer, 200 if answer.replayed else 202, told)
