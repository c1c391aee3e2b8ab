"""Routes that read: effects, histories, receipts, tools; none reaches a target."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from effect_broker.broker.replaying import folded_at
from effect_broker.domain.replay import difference
from effect_broker.surfaces import requests, serving
from effect_broker.surfaces.answers import (
    EffectDetail,
    HistoryAnswer,
    PageAnswer,
    ReceiptAnswer,
    ToolsAnswer,
)
from effect_broker.surfaces.http_context import (
    Choosing,
    Reading,
    effect_response,
    json_response,
    parts_of,
)
from effect_broker.surfaces.http_parameters import (
    HistoryParameters,
    PageParameters,
    cursor_after,
)
from effect_broker.surfaces.http_preferences import applied, preferred_wait
from effect_broker.surfaces.telling import effect_answer, history_answer, tool_answer

reading = APIRouter(prefix="/v1")


@reading.get("/effects", response_model=PageAnswer)
async def list_effects(
    request: Request, caller: Reading, parameters: Annotated[PageParameters, Query()]
) -> Response:
    """List the tenant's effects, newest first."""
    views = await parts_of(request).broker.page(caller.tenant_id, parameters.query())
    shown = views[: parameters.limit]
    more = len(views) > len(shown)
    last = shown[-1].snapshot.intent.effect_id if more else None
    return json_response(
        PageAnswer(
            effects=[effect_answer(view) for view in shown],
            next_cursor=cursor_after(last) if last else None,
        )
    )


@reading.get("/effects/{effect_id}", response_model=EffectDetail)
async def get_effect(request: Request, caller: Reading, effect_id: str) -> Response:
    """Tell an effect with its history, attempts, deadlines and what may be done next."""
    identifier = requests.effect_id(effect_id)
    patience = preferred_wait(request.headers.getlist("prefer"))
    answer = await serving.detail(
        parts_of(request).broker,
        caller.tenant_id,
        identifier,
        patience=patience or serving.NO_WAIT,
    )
    return effect_response(answer, headers=applied(patience))


@reading.get("/effects/{effect_id}/history", response_model=HistoryAnswer)
async def get_history(
    request: Request,
    caller: Reading,
    effect_id: str,
    parameters: Annotated[HistoryParameters, Query()],
) -> Response:
    """Fold the effect's events up to a point, and compare it with another."""
    identifier = requests.effect_id(effect_id)
    events = await parts_of(request).broker.events(caller.tenant_id, identifier)
    state = folded_at(events, parameters.at_sequence)
    other = parameters.compare_to
    compared = None
    if other is not None:
        compared_to = folded_at(events, other)
        compared = (compared_to, difference(state, compared_to))
    return json_response(history_answer(identifier, events, state, compared))


@reading.get("/effects/{effect_id}/receipt", response_model=ReceiptAnswer)
async def get_receipt(request: Request, caller: Reading, effect_id: str) -> Response:
    """Return the immutable receipt; reaches no target."""
    identifier = requests.effect_id(effect_id)
    broker = parts_of(request).broker
    receipt = await broker.replay_receipt(caller.tenant_id, identifier)
    return json_response(ReceiptAnswer(dict(receipt)))


@reading.get("/tools", response_model=ToolsAnswer)
async def list_tools(request: Request, caller: Choosing) -> Response:
    """List the tools that may be named, with schema, safety class and guarantee."""
    published = await parts_of(request).broker.tools()
    return json_response(ToolsAnswer(tools=[tool_answer(item) for item in published]))
