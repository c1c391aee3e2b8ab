"""Direct invocation: a workflow or a function calls the submit function, without a key.

The tenant is the alias that was invoked, and IAM decides who may invoke which alias; the
event says nothing about it. The runtime has parsed the event before us: names that stood
in it twice are merged already, all else is held to the same rules as HTTP.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel

from effect_broker.broker.facade import EffectBroker
from effect_broker.domain.canonical import canonical
from effect_broker.domain.errors import (
    Forbidden,
    InvalidRequest,
    RequestTooLarge,
)
from effect_broker.ports import Registry, Tenant
from effect_broker.surfaces import requests, serving
from effect_broker.surfaces.answers import ReceiptAnswer, render
from effect_broker.surfaces.requests import BODY_BYTES_MAX, SUBMISSION, Fields
from effect_broker.surfaces.task_tokens import TaskTokens

_TENANT_ALIAS: Final = re.compile(
    r"arn:aws[a-z-]*:lambda:[a-z0-9-]+:[0-9]{12}:function:[A-Za-z0-9_-]+"
    r":tenant-([a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?)"
)


class DirectInvocations:
    """Answers `{"operation": …}` events for the tenant of the invoked alias."""

    def __init__(
        self, broker: EffectBroker, registry: Registry, tokens: TaskTokens
    ) -> None:
        self._broker = broker
        self._registry = registry
        self._tokens = tokens
        self._operations: Mapping[str, _Operation] = {
            "submit": self._submit,
            "get": self._get,
            "receipt": self._receipt,
            "reconcile": self._reconcile,
        }

    async def answer(self, event: object, invoked_arn: str) -> Any:
        """Carry out one operation and return its answer as JSON values.

        Raises:
            Forbidden: the ARN is not that of an enabled tenant's alias.
            EffectBrokerError: what the operation refuses.
        """
        slug = tenant_slug(invoked_arn)
        operation, body = self._envelope(event)
        tenant = await self._registry.tenant(slug=slug)
        if tenant is None or tenant.disabled:
            raise _not_bound()
        return json.loads(render(await operation(tenant, body)))

    def _envelope(self, event: object) -> tuple[_Operation, dict[str, Any]]:
        if len(canonical(event)) > BODY_BYTES_MAX:
            raise RequestTooLarge(f"The event may hold {BODY_BYTES_MAX} bytes.")
        if not isinstance(event, Mapping):
            raise InvalidRequest("The event must be a JSON object.")
        operation = self._operations.get(str(event.get("operation")))
        if operation is None:
            known = ", ".join(self._operations)
            raise InvalidRequest(f"operation must be one of {known}.")
        return operation, {key: event[key] for key in event if key != "operation"}

    async def _submit(self, tenant: Tenant, body: dict[str, Any]) -> BaseModel:
        task_token = requests.task_token(body)
        submission = {name: body[name] for name in body if name != "task_token"}
        request = requests.submission(submission, known=SUBMISSION)
        answer = await serving.submit(self._broker, tenant.tenant_id, request)
        if task_token is not None:
            await self._tokens.keep(tenant.tenant_id, UUID(answer.effect_id), task_token)
        return answer

    async def _get(self, tenant: Tenant, body: dict[str, Any]) -> BaseModel:
        return await serving.detail(self._broker, tenant.tenant_id, _effect_id(body))

    async def _receipt(self, tenant: Tenant, body: dict[str, Any]) -> BaseModel:
        receipt = await self._broker.replay_receipt(tenant.tenant_id, _effect_id(body))
        return ReceiptAnswer(dict(receipt))

    async def _reconcile(self, tenant: Tenant, body: dict[str, Any]) -> BaseModel:
        actor = f"lambda:tenant-{tenant.slug}"
        effect_id = _effect_id(body)
        return await serving.reconcile(
            self._broker, tenant.tenant_id, effect_id, actor=actor
        )


_Operation = Callable[[Tenant, dict[str, Any]], Awaitable[BaseModel]]


def tenant_slug(invoked_arn: str) -> str:
    """Read the tenant from the ARN that was invoked.

    Raises:
        Forbidden: the function was invoked without a tenant's alias, or by an ARN that
            cannot be read; which tenants exist is not told.
    """
    match = _TENANT_ALIAS.fullmatch(invoked_arn)
    if match is None:
        raise _not_bound()
    return match[1]


def _effect_id(body: dict[str, Any]) -> UUID:
    fields = Fields(body, known=("effect_id",))
    effect_id = fields.text("effect_id")
    fields.check()
    return requests.effect_id(effect_id)


def _not_bound() -> Forbidden:
    return Forbidden(
        "Invoke the function through the alias tenant-<slug> of an enabled tenant.",
        scope="alias",
    )
