"""Events of the migrate function: `{"operation": …}`, an operator's or a deployment's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from effect_broker.domain.errors import InvalidRequest, KeysMissing, SecretNotFound
from effect_broker.ports import Tenant
from effect_broker.surfaces.admin import OVERLAP, Administration
from effect_broker.surfaces.requests import Fields
from effect_broker.surfaces.setup_ledger import LEDGER_OPERATIONS
from effect_broker.wiring.core import Core
from effect_broker.wiring.sources import migrate

_log: Final = logging.getLogger(__name__)

UPGRADE: Final = "upgrade"


async def answer_setup(core: Core, event: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out one operation and return its answer.

    An event that names none is a deployment's own (`{}`, or what CloudFormation sends):
    an upgrade of the schema. It fails where the keyring lacks a key that stored work
    relies on, so that no traffic moves to a release that could not go on with it; a
    keyring that was not put yet is another matter.

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
    revision = await asyncio.to_thread(migrate, core.settings)
    try:
        await core.check_keys()
    except KeysMissing as missing:
        # A deployment makes the keyring's secret empty, also beside a database that was
        # there before: whoever deploys can only then put the keys back.
        if not isinstance(missing.__cause__, SecretNotFound):
            raise
        _log.warning("the keyring has no value yet; nothing is served without it")
    return {"revision": revision}


async def _create_tenant(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    fields = Fields(body, known=("slug", "name", "hmac_key_id"))
    slug, name = fields.text("slug"), fields.text("name", required=False)
    hmac_key_id = fields.text("hmac_key_id", required=False) or None
    fields.check()
    administration = Administration(core.registry, core.keyring.hmac_keys)
    tenant, created = await administration.create_tenant(slug, name or slug, hmac_key_id)
    return {"tenant_id": str(tenant.tenant_id), "slug": slug, "created": created}


async def _list_tenants(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    Fields(body, known=()).check()
    return {"tenants": [_tenant(it) for it in await core.registry.tenants()]}


async def _disable_tenant(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    return await _set_disabled(core, body, disabled=True)


async def _enable_tenant(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    return await _set_disabled(core, body, disabled=False)


async def _rekey_tenant(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    fields = Fields(body, known=("slug", "hmac_key_id"))
    slug, hmac_key_id = fields.text("slug"), fields.text("hmac_key_id")
    fields.check()
    administration = Administration(core.registry, core.keyring.hmac_keys)
    return _tenant(await administration.rekey(slug, hmac_key_id))


async def _set_disabled(
    core: Core, body: dict[str, Any], *, disabled: bool
) -> dict[str, Any]:
    fields = Fields(body, known=("slug",))
    slug = fields.text("slug")
    fields.check()
    return _tenant(await Administration(core.registry, ()).set_disabled(slug, disabled))


def _tenant(tenant: Tenant) -> dict[str, Any]:
    return {**asdict(tenant), "tenant_id": str(tenant.tenant_id)}


async def _create_key(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    fields = Fields(body, known=("tenant", "scopes", "expires_in"))
    slug, scopes = fields.text("tenant"), fields.texts("scopes")
    lifetime = fields.span("expires_in")
    fields.check()
    made = await Administration(core.registry, ()).create_key(slug, scopes, lifetime)
    return {"key_id": made.key_id, "key": made.key}


async def _list_keys(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    fields = Fields(body, known=("tenant",))
    slug = fields.text("tenant")
    fields.check()
    owner = await Administration(core.registry, ()).tenant(slug)
    listed = await core.registry.keys(owner.tenant_id)
    return {"keys": [_instants_as_text(asdict(key)) for key in listed]}


async def _rotate_key(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    fields = Fields(body, known=("key_id", "overlap", "expires_in"))
    key_id, overlap = fields.text("key_id"), fields.span("overlap")
    lifetime = fields.span("expires_in")
    fields.check()
    made, ends_at = await Administration(core.registry, ()).rotate_key(
        key_id, overlap=OVERLAP if overlap is None else overlap, lifetime=lifetime
    )
    return {
        "key_id": made.key_id,
        "key": made.key,
        "old_key_ends_at": ends_at.isoformat(),
    }


async def _revoke_key(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    fields = Fields(body, known=("key_id",))
    key_id = fields.text("key_id")
    fields.check()
    await Administration(core.registry, ()).revoke_key(key_id)
    return {"key_id": key_id, "revoked": True}


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


def _instants_as_text(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in row.items()
    }


_Operation = Callable[[Core, dict[str, Any]], Awaitable[dict[str, Any]]]

_OPERATIONS: Final[Mapping[str, _Operation]] = {
    UPGRADE: _upgrade,
    "create_tenant": _create_tenant,
    "list_tenants": _list_tenants,
    "disable_tenant": _disable_tenant,
    "enable_tenant": _enable_tenant,
    "rekey_tenant": _rekey_tenant,
    "create_key": _create_key,
    "list_keys": _list_keys,
    "rotate_key": _rotate_key,
    "revoke_key": _revoke_key,
    "publish_contracts": _publish_contracts,
    **LEDGER_OPERATIONS,
}
