"""What every route stands on: the parts, who calls, and how answers leave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from starlette.responses import Response

from effect_broker.broker.facade import EffectBroker
from effect_broker.ports import Credential
from effect_broker.surfaces.answers import EffectAnswer, render
from effect_broker.surfaces.auth import OPERATE, READ, SUBMIT, Authenticator, require
from effect_broker.surfaces.limiting import RateLimiter


@dataclass(frozen=True, slots=True)
class HttpParts:
    """What the application stands on.

    `ready` raises while the ledger cannot serve; `metrics` renders them where the process
    keeps its own. Browsers of `cors_origins` may call it, and no other's.
    """

    broker: EffectBroker
    authenticator: Authenticator
    ready: Callable[[], Awaitable[None]]
    metrics: Callable[[], Awaitable[tuple[bytes, str]]] | None = None
    limiter: RateLimiter = field(default_factory=lambda: RateLimiter(None))
    cors_origins: Sequence[str] = ()


_bearer = HTTPBearer(auto_error=False, bearerFormat="ebk_<id>_<secret>")


def parts_of(request: Request) -> HttpParts:
    """Return what the application stands on."""
    parts: HttpParts = request.app.state.parts
    return parts


def caller(*scopes: str) -> Any:
    """Return the dependency that proves who calls, and that one of the scopes is theirs.

    Only who has proved it counts against a rate.
    """

    async def authenticated(
        request: Request, _: Annotated[Any, Security(_bearer)]
    ) -> Credential:
        parts = parts_of(request)
        authorization = request.headers.get("authorization")
        credential = await parts.authenticator.authenticate(authorization)
        parts.limiter.take(credential.key_id)
        require(credential, *scopes)
        return credential

    return Depends(authenticated)


Submitting = Annotated[Credential, caller(SUBMIT)]
Reading = Annotated[Credential, caller(READ)]
Operating = Annotated[Credential, caller(OPERATE)]
Choosing = Annotated[Credential, caller(READ, SUBMIT)]


def actor(credential: Credential) -> str:
    """Return how a history names a caller."""
    return f"key:{credential.key_id}"


def effect_response(
    answer: EffectAnswer, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return an effect with its version as the entity tag."""
    response = json_response(answer, status)
    response.headers["ETag"] = f'"{answer.version}"'
    response.headers.update(headers or {})
    return response


def json_response(answer: BaseModel, status: int = 200) -> Response:
    """Return an answer that nobody may keep."""
    return Response(
        render(answer),
        status_code=status,
        media_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
