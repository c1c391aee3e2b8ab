"""All checks in their order; one that cannot be made does not keep the next from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from effect_broker.domain.errors import LedgerUnavailable
from effect_broker.ledger.health import PostgresHealth
from effect_broker.ledger.retention import PostgresRetention
from effect_broker.ports import PublishedContract
from effect_broker.surfaces.diagnosis import keys
from effect_broker.surfaces.diagnosis.contracts import (
    look_at_contracts,
    repeatable,
    unverified_paths,
)
from effect_broker.surfaces.diagnosis.database import look_at_database
from effect_broker.surfaces.diagnosis.finding import (
    Finding,
    Verdict,
    broken,
    ok,
    skipped,
)
from effect_broker.surfaces.diagnosis.path import try_path
from effect_broker.wiring.core import Core
from effect_broker.wiring.workers import Workers

_OFFENCES: Final = {
    "keys_without_effect": "keys that stand for no effect",
    "intents_without_key": "effects that no key leads to",
    "neither_live_nor_ended": "effects that are both live and ended, or neither",
    "rows_without_intent": "rows that belong to no effect",
    "endings_without_attempt": "endings of no attempt",
    "unknown_tenant_or_contract": "effects of no tenant or contract",
    "stray_heads": "live effects that do not stand where their history ends",
    "wrong_lanes": "live effects that wait in the wrong lane",
    "broken_chains": "histories that were changed",
    "broken_receipts": "receipts that were changed",
}


@dataclass(frozen=True, slots=True)
class PostPath:
    """A URL that leads to a listener here through the same proxies as the targets."""

    url: str
    host: str
    port: int


@dataclass(slots=True)
class Examination:
    """One look at a deployment; `ledger_away` is set where its database is."""

    core: Core
    deep: bool
    post_path: PostPath | None
    announce: Callable[[str], None]
    ledger_away: bool = field(default=False, init=False)

    async def findings(self) -> Sequence[Finding]:
        """Make every check."""
        published: Sequence[PublishedContract] = ()
        try:
            found = await look_at_database(self.core)
            if not any(it.verdict is Verdict.BROKEN for it in found if _bars(it)):
                published = await self.core.registry.contracts()
                found += await self._registry(published)
        except LedgerUnavailable as error:
            self.ledger_away = True
            found = [
                broken(
                    "database",
                    "EFFECT_BROKER_DATABASE_URL",
                    error.message,
                    "Start it, or correct the address; nothing is sent meanwhile.",
                )
            ]
        return [*found, *await self._path(published)]

    async def _registry(self, published: Sequence[PublishedContract]) -> list[Finding]:
        core = self.core
        tenants = await core.registry.tenants()
        keyring, readable = keys.look_at_keyring(core, tenants)
        clock = await PostgresHealth(core.connections).clock()
        api_keys = await core.registry.keys()
        adapters = Workers(core, "doctor").adapters
        return [
            keyring,
            *keys.api_key_findings(api_keys, clock.now),
            *await look_at_contracts(published, adapters, core.settings),
            *await keys.look_at_operation_keys(core, tenants),
            *await self._deeply(readable=readable),
        ]

    async def _deeply(self, *, readable: bool) -> Sequence[Finding]:
        if not self.deep:
            return [skipped("receipts and chains", "ledger", "Only with --deep.")]
        retention = PostgresRetention(self.core.connections)
        found = [_judged(await retention.check())]
        if readable:
            data, hmac = await retention.keys_in_use()
            found.append(keys.missing_keys(self.core.keyring, data, hmac))
        return found

    async def _path(self, published: Sequence[PublishedContract]) -> Sequence[Finding]:
        path = self.post_path
        if path is None:
            return list(unverified_paths(repeatable(published)))
        return [
            await try_path(
                path.url,
                path.host,
                path.port,
                unkeyed=repeatable(published),
                announce=self.announce,
            )
        ]


def _bars(finding: Finding) -> bool:
    """Say whether a finding keeps the tables from being read."""
    return finding.check in ("database", "migrations")


def _judged(offenders: dict[str, Sequence[UUID]]) -> Finding:
    if not offenders:
        return ok("receipts and chains", "ledger", "Every reference and digest holds.")
    said = [
        f"{_OFFENCES.get(name, name)} ({', '.join(map(str, ids[:3]))})"
        for name, ids in offenders.items()
    ]
    return broken(
        "receipts and chains",
        "ledger",
        f"{'; '.join(said)}.",
        "Somebody wrote past the steps. Compare with a backup, and with the targets.",
    )
