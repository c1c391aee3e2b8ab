"""Operations of the migrate function on the ledger itself.

Where the database stands in a network of its own, this function is the owner's only way
in. What may be long does its share of one invocation and says whether there is more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from datetime import date
from typing import Any, Final

from effect_broker.ledger.key_use import PostgresKeyUse
from effect_broker.ledger.retention import PostgresRetention
from effect_broker.surfaces.requests import Fields
from effect_broker.surfaces.rotation import KeysLeft, Resealed, Rotation
from effect_broker.wiring.core import Core

SHARE_SECONDS: Final = 600.0
"""What one invocation spends on a long operation, of the 15 minutes that it has."""


async def _partitions(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    Fields(body, known=()).check()
    months = await PostgresRetention(core.connections).months()
    return {"months": [{**asdict(it), "month": f"{it.month:%Y-%m}"} for it in months]}


async def _archive_month(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    month = _month(body)
    archived = await PostgresRetention(core.connections).archive_month(month)
    return {"month": f"{month:%Y-%m}", "archived": archived}


async def _drop_month(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    month = _month(body)
    await PostgresRetention(core.connections).drop_archived_month(month)
    return {"month": f"{month:%Y-%m}", "dropped": True}


async def _prune(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    fields = Fields(body, known=("older_than",))
    older_than = fields.span("older_than")
    if older_than is None:
        fields.complain("older_than", "is required")
    fields.check()
    assert older_than is not None
    ends_at, pruned = core.clock.monotonic() + SHARE_SECONDS, 0
    async for count in PostgresRetention(core.connections).prune(older_than):
        pruned += count
        if core.clock.monotonic() > ends_at:
            return {"pruned": pruned, "more": True}
    return {"pruned": pruned, "more": False}


async def _reencrypt(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    Fields(body, known=()).check()
    rotation = Rotation(
        PostgresRetention(core.connections),
        PostgresKeyUse(core.connections.fetch_again),
        core.cipher,
        core.keyring.active_data_key,
    )
    ends_at, done = core.clock.monotonic() + SHARE_SECONDS, Resealed()
    async for done in rotation.reencrypt():
        if core.clock.monotonic() > ends_at:
            return {"resealed": done.resealed, "more": True}
    return {**_told(done, await rotation.retire()), "more": False}


async def _hold_dispatch(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    fields = Fields(body, known=("reason",))
    reason = fields.text("reason")
    fields.check()
    await core.ledger.hold_dispatch(reason)
    return {"held": True}


async def _release_dispatch(core: Core, body: dict[str, Any]) -> dict[str, Any]:
    fields = Fields(body, known=("actor",))
    actor = fields.text("actor")
    fields.check()
    return {"released": await core.ledger.release_dispatch(f"operator:{actor}")}


def _month(body: dict[str, Any]) -> date:
    fields = Fields(body, known=("month",))
    text = fields.text("month")
    try:
        return date.fromisoformat(f"{text}-01")
    except ValueError:
        fields.complain("month", "must be a month such as 2026-03")
        fields.check()
        raise


def _told(done: Resealed, left: KeysLeft) -> dict[str, Any]:
    return {
        "resealed": done.resealed,
        "unreadable": done.unreadable,
        "left": {key: dict(places) for key, places in left.sealed.items()},
        "hmac_keys_in_use": sorted(left.hmac),
        "retired": list(left.retired),
    }


LEDGER_OPERATIONS: Final[
    Mapping[str, Callable[[Core, dict[str, Any]], Awaitable[dict[str, Any]]]]
] = {
    "partitions": _partitions,
    "archive_month": _archive_month,
    "drop_month": _drop_month,
    "prune": _prune,
    "reencrypt": _reencrypt,
    "hold_dispatch": _hold_dispatch,
    "release_dispatch": _release_dispatch,
}
