"""Keys: the keyring and what stands under it, API keys, and operation keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from effect_broker.cipher import Keyring
from effect_broker.domain.errors import EffectBrokerError
from effect_broker.keys import Weakness, weakness
from effect_broker.ledger.health import PostgresHealth
from effect_broker.ports import ApiKey, KeyState, Tenant
from effect_broker.surfaces.diagnosis.finding import Finding, broken, ok, skipped, warning
from effect_broker.wiring.core import Core

RECENT: Final = 500
"""Newest operation keys of each tenant that are looked at."""

TENANTS_MAX: Final = 200
ENDS_SOON: Final = timedelta(days=7)
SHOWN: Final = 3

_WHY: Final[Mapping[Weakness, tuple[str, str]]] = {
    Weakness.NO_STEP: (
        "have no part for the step",
        "a second charge of the same order would be answered with the first. Name what is"
        " done and which one it is, as in order:ord_123:charge:v1",
    ),
    Weakness.ATTEMPT: (
        "hold an attempt number",
        "each attempt is another effect. Leave it out; effect_broker.keys builds keys"
        " that survive retries",
    ),
    Weakness.CALL_ID: (
        "hold a model's call id or a random id",
        "a re-run makes another one, and so another effect. Name the durable step",
    ),
}


def look_at_keyring(core: Core, tenants: Sequence[Tenant]) -> tuple[Finding, bool]:
    """Read the keyring, and say whether it could be; it must derive for every tenant."""
    where = "EFFECT_BROKER_KEYRING"
    try:
        ring: Keyring = core.keyring
    except (EffectBrokerError, OSError) as error:
        said = getattr(error, "message", None) or f"{type(error).__name__}."
        do = "Name the keyring that sealed this ledger; a new one opens nothing."
        return broken("keyring", where, said, do), False
    lost = ring.missing(hmac_key_ids={tenant.hmac_key_id for tenant in tenants})
    if lost:
        return _lost("keyring", lost), True
    return ok("keyring", where, f"Seals under {ring.active_data_key}."), True


def missing_keys(ring: Keyring, data: frozenset[str], hmac: frozenset[str]) -> Finding:
    """Judge the keyring against every key that something stands under."""
    lost = ring.missing(data_key_ids=data, hmac_key_ids=hmac)
    if lost:
        return _lost("keys in use", lost)
    said = f"All {len(data)} data keys and {len(hmac)} HMAC keys are there."
    return ok("keys in use", "EFFECT_BROKER_KEYRING", said)


def _lost(check: str, lost: frozenset[str]) -> Finding:
    return broken(
        check,
        "EFFECT_BROKER_KEYRING",
        f"Without {', '.join(sorted(lost))}, on which stored rows or tenants rely.",
        "Put them back; a key is dropped only once nothing stands under it.",
    )


def api_key_findings(keys: Sequence[ApiKey], now: datetime) -> Iterator[Finding]:
    """Warn of live keys that are about to end."""
    live = [key for key in keys if key.state is KeyState.LIVE]
    for key in live:
        if key.expires_at is not None and key.expires_at - now < ENDS_SOON:
            yield warning(
                "API keys",
                f"{key.tenant_slug}, key {key.key_id}",
                f"Ends at {key.expires_at.isoformat(timespec='seconds')}.",
                "If somebody uses it: `effect-broker keys rotate`.",
            )
    yield ok("API keys", "registry", f"{len(live)} open.")


async def look_at_operation_keys(core: Core, tenants: Sequence[Tenant]) -> list[Finding]:
    """Look at how callers make their operation keys, by the newest of each tenant."""
    health, found = PostgresHealth(core.connections), list[Finding]()
    for tenant in tenants[:TENANTS_MAX]:
        recent = await health.recent_operation_keys(tenant.tenant_id, RECENT)
        keys = [operation_key for _, operation_key in recent]
        found += hygiene_findings(f"tenant {tenant.slug}", keys)
    left = len(tenants) - TENANTS_MAX
    if left > 0:
        found.append(skipped("key hygiene", "tenants", f"{left} more tenants."))
    return found


def hygiene_findings(where: str, operation_keys: Sequence[str]) -> Iterator[Finding]:
    """Judge operation keys: they must name one business intent, and survive a retry."""
    weak: dict[Weakness, list[str]] = defaultdict(list)
    for key in operation_keys:
        if (found := weakness(key)) is not None:
            weak[found].append(key)
    for kind, keys in weak.items():
        what, do = _WHY[kind]
        shown = ", ".join(map(repr, keys[:SHOWN]))
        yield warning(
            "key hygiene",
            where,
            f"{len(keys)} of the newest {len(operation_keys)} keys {what}: {shown}.",
            f"{do[0].upper()}{do[1:]}.",
        )
    if not weak:
        said = f"The newest {len(operation_keys)} keys name an intent."
        yield ok("key hygiene", where, said)
