"""Events of the migrate function: `{"operation": …}`, an operator's or a deployment's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from effect_broker.domain.errors import InvalidRequest
from effect_broker.surfaces.admin import Administration
from effect_broker.surfaces.requests import Fields
from effect_broker.wiring.core import Core
from effect_broker.wiring.sources import migrate

UPGRADE: Final = "upgrade"


async def answer_setup(core: Core, event: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out one operation and return its answer.

    An event that names none is a deployment's own (`{}`, or what CloudFormation sends):
    an upgrade of the schema.

    Raises:
        InvalidRequest: an unknown operation, or fields that it does not have.
    """
    name = event.get("operation", UPGRADE)
    operation = _OPERATIONS.get(str(name))
    if operation is None:
        raise InvalidRequest(f"operation must be one of {', '.join(_OPERATIONS)}.")
    body = {key: event[key] for key in event if key != "operation"}
    return await operation(core, body if "operation" in event else {})


async def _upgrade(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    Fields(body, known=()).check()
    return {"revision": await asyncio.to_thread(migrate, core.settings)}


async def _create_tenant(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    fields = Fields(body, known=("slug", "name", "hmac_key_id"))
    slug, name = fields.text("slug"), fields.text("name", required=False)
    hmac_key_id = fields.text("hmac_key_id", required=False) or None
    fields.check()
    administration = Administration(core.registry, core.keyring.hmac_keys)
    tenant, created = await administration.create_tenant(slug, name or slug, hmac_key_id)
    return {"tenant_id": str(tenant.tenant_id), "slug": slug, "created": created}


async def _create_key(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    fields = Fields(body, known=("tenant", "scopes"))
    slug, scopes = fields.text("tenant"), fields.texts("scopes")
    fields.check()
    made = await Administration(core.registry, ()).create_key(slug, scopes)
    return {"key_id": made.key_id, "key": made.key}


async def _revoke_key(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    fields = Fields(body, known=("key_id",))
    key_id = fields.text("key_id")
    fields.check()
    return {"key_id": key_id, "revoked": await core.registry.revoke_key(key_id)}


async def _publish_contracts(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    Fields(body, known=()).check()
    if core.settings.contracts is None:
        raise InvalidRequest("EFFECT_BROKER_CONTRACTS names no file or folder.")
    administration = Administration(core.registry, ())
    published = await administration.publish(core.settings.contracts)
    return {
        "contracts": [
            {
                "tool": item.contract.tool,
                "name": item.contract.name,
                "version": item.contract.version,
                "created": created,
            }
            for item, created in published
        ]
    }


_Operation = Callable[[Core, dict[str, Any]], Awaitable[dict[str, Any]]]

_OPERATIONS: Final[Mapping[str, _Operation]] = {
    UPGRADE: _upgrade,
    "create_tenant": _create_tenant,
    "create_key": _create_key,
    "revoke_key": _revoke_key,
    "publish_contracts": _publish_contracts,
}
