"""The HTTP surface: one route a use case, each bound to the tenant of its credential."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Security
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from starlette.responses import Response

from effect_broker.broker.facade import EffectBroker
from effect_broker.broker.replaying import folded_at
from effect_broker.domain.replay import difference
from effect_broker.ports import Credential
from effect_broker.surfaces import openapi, requests, serving
from effect_broker.surfaces.answers import (
    EffectAnswer,
    EffectDetail,
    HistoryAnswer,
    PageAnswer,
    ProcessAnswer,
    ReceiptAnswer,
    ResolvedAnswer,
    SubmitAnswer,
    ToolsAnswer,
    render,
)
from effect_broker.surfaces.auth import OPERATE, READ, SUBMIT, Authenticator, require
from effect_broker.surfaces.http_body import read_json, read_nothing
from effect_broker.surfaces.http_parameters import (
    HistoryParameters,
    PageParameters,
    cursor_after,
    preferred_wait,
)
from effect_broker.surfaces.http_problems import OutermostLine, add_problem_handlers
from effect_broker.surfaces.telling import (
    effect_answer,
    history_answer,
    resolved_answer,
    tool_answer,
)

RETRY_AFTER_SECONDS: Final = "1"
"""Hint of a new effect's answer: most are settled by then."""


@dataclass(frozen=True, slots=True)
class HttpParts:
    """What the application stands on.

    `ready` raises while the ledger cannot serve; `metrics` renders them where the process
    keeps its own.
    """

    broker: EffectBroker
    authenticator: Authenticator
    ready: Callable[[], Awaitable[None]]
    metrics: Callable[[], Awaitable[tuple[bytes, str]]] | None = None


def create_app(parts: HttpParts) -> FastAPI:
    """Build the application; it opens nothing and starts nothing."""
    app = FastAPI(
        title="effect-broker",
        version=openapi.API_VERSION,
        description=openapi.DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.parts = parts
    add_problem_handlers(app)
    app.include_router(effects)
    app.include_router(process)
    if parts.metrics is not None:
        app.add_route("/metrics", _metrics, include_in_schema=False)
    app.add_middleware(OutermostLine)
    openapi.describe(app)
    return app


effects = APIRouter(prefix="/v1")
process = APIRouter()

_bearer = HTTPBearer(auto_error=False, bearerFormat="ebk_<id>_<secret>")


def _parts(request: Request) -> HttpParts:
    parts: HttpParts = request.app.state.parts
    return parts


def _caller(*scopes: str) -> Any:
    """Return the dependency that proves who calls and that a scope is theirs."""

    async def authenticated(
        request: Request, _: Annotated[Any, Security(_bearer)]
    ) -> Credential:
        authorization = request.headers.get("authorization")
        credential = await _parts(request).authenticator.authenticate(authorization)
        require(credential, *scopes)
        return credential

    return Depends(authenticated)


Submitting = Annotated[Credential, _caller(SUBMIT)]
Reading = Annotated[Credential, _caller(READ)]
Operating = Annotated[Credential, _caller(OPERATE)]
Choosing = Annotated[Credential, _caller(READ, SUBMIT)]


@effects.post(
    "/effects",
    status_code=202,
    response_model=SubmitAnswer,
    response_description="Recorded for the first time.",
    responses={200: {"model": SubmitAnswer, "description": "A replay; changes nothing."}},
)
async def submit_effect(request: Request, caller: Submitting) -> Response:
    """Reserve an effect, or answer with the one its operation key already stands for.

    The status code says which (202 new, 200 replay), the body's status how far it is.
    """
    patience = preferred_wait(request.headers.getlist("prefer"))
    answer = await serving.submit(
        _parts(request).broker,
        caller.tenant_id,
        requests.submission(await read_json(request)),
        patience=patience or serving.NO_WAIT,
    )
    headers = {"Location": answer.links.effect}
    if patience is not None:
        headers["Preference-Applied"] = f"wait={int(patience.total_seconds())}"
    if not answer.terminal:
        headers["Retry-After"] = RETRY_AFTER_SECONDS
    return _effect(answer, 200 if answer.replayed else 202, headers)


@effects.get("/effects", response_model=PageAnswer)
async def list_effects(
    request: Request, caller: Reading, parameters: Annotated[PageParameters, Query()]
) -> Response:
    """List the tenant's effects, newest first."""
    views = await _parts(request).broker.page(caller.tenant_id, parameters.query())
    shown = views[: parameters.limit]
    more = len(views) > len(shown)
    last = shown[-1].snapshot.intent.effect_id if more else None
    return _json(
        PageAnswer(
            effects=[effect_answer(view) for view in shown],
            next_cursor=cursor_after(last) if last else None,
        )
    )


@effects.get("/effects/{effect_id}", response_model=EffectDetail)
async def get_effect(request: Request, caller: Reading, effect_id: str) -> Response:
    """Tell an effect with its history, attempts, deadlines and what may be done next."""
    identifier = requests.effect_id(effect_id)
    broker = _parts(request).broker
    return _effect(await serving.detail(broker, caller.tenant_id, identifier))


@effects.get(
    "/effects/{effect_id}/history",
    response_model=HistoryAnswer,
)
async def get_history(
    request: Request,
    caller: Reading,
    effect_id: str,
    parameters: Annotated[HistoryParameters, Query()],
) -> Response:
    """Fold the effect's events up to a point, and compare it with another."""
    identifier = requests.effect_id(effect_id)
    events = await _parts(request).broker.events(caller.tenant_id, identifier)
    state = folded_at(events, parameters.at_sequence)
    other = parameters.compare_to
    compared = None
    if other is not None:
        compared_to = folded_at(events, other)
        compared = (compared_to, difference(state, compared_to))
    return _json(history_answer(identifier, events, state, compared))


@effects.get("/effects/{effect_id}/receipt", response_model=ReceiptAnswer)
async def get_receipt(request: Request, caller: Reading, effect_id: str) -> Response:
    """Return the immutable receipt; reaches no target."""
    identifier = requests.effect_id(effect_id)
    broker = _parts(request).broker
    receipt = await broker.replay_receipt(caller.tenant_id, identifier)
    return _json(ReceiptAnswer(dict(receipt)))


@effects.post(
    "/effects/{effect_id}/reconcile",
    response_model=EffectAnswer,
)
async def reconcile_effect(
    request: Request, caller: Submitting, effect_id: str
) -> Response:
    """Ask for reconciliation; never forces a retry, nor changes what is settled."""
    identifier = requests.effect_id(effect_id)
    await read_nothing(request)
    broker, actor = _parts(request).broker, _actor(caller)
    return _effect(
        await serving.reconcile(broker, caller.tenant_id, identifier, actor=actor)
    )


@effects.post(
    "/effects/{effect_id}/resolve",
    response_model=ResolvedAnswer,
)
async def resolve_effect(request: Request, caller: Operating, effect_id: str) -> Response:
    """Record an operator's finding about an effect that waits for one."""
    identifier = requests.effect_id(effect_id)
    found = requests.finding(await read_json(request), actor=_actor(caller))
    broker = _parts(request).broker
    result = await broker.resolve(caller.tenant_id, identifier, found)
    view = await broker.get(caller.tenant_id, identifier)
    return _effect(resolved_answer(view, found.decision_id, result.version))


@effects.post(
    "/effects/{effect_id}/compensation",
    response_model=EffectAnswer,
)
async def compensate_effect(
    request: Request, caller: Operating, effect_id: str
) -> Response:
    """Link a succeeded effect to the succeeded effect that undid it."""
    identifier = requests.effect_id(effect_id)
    compensated_by, reason = requests.compensation(await read_json(request))
    broker = _parts(request).broker
    await broker.compensate(
        caller.tenant_id, identifier, compensated_by, actor=_actor(caller), reason=reason
    )
    return _effect(effect_answer(await broker.get(caller.tenant_id, identifier)))


@effects.get("/tools", response_model=ToolsAnswer)
async def list_tools(request: Request, caller: Choosing) -> Response:
    """List the tools that may be named, with schema, safety class and guarantee."""
    published = await _parts(request).broker.tools()
    return _json(ToolsAnswer(tools=[tool_answer(item) for item in published]))


@process.get("/healthz", response_model=ProcessAnswer)
async def healthz() -> Response:
    """Say that the process lives."""
    return _json(ProcessAnswer(status="ok"))


@process.get("/readyz", response_model=ProcessAnswer)
async def readyz(request: Request) -> Response:
    """Say that the ledger can be reached and its schema is this version's."""
    await _parts(request).ready()
    return _json(ProcessAnswer(status="ready"))


async def _metrics(request: Request) -> Response:
    metrics = _parts(request).metrics
    assert metrics is not None, "the route exists only with metrics"
    body, media_type = await metrics()
    return Response(body, headers={"Content-Type": media_type})


def _actor(caller: Credential) -> str:
    return f"key:{caller.key_id}"


def _effect(
    answer: EffectAnswer, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    response = _json(answer, status)
    response.headers["ETag"] = f'"{answer.version}"'
    response.headers.update(headers or {})
    return response


def _json(answer: BaseModel, status: int = 200) -> Response:
    return Response(
        render(answer),
        status_code=status,
        media_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
