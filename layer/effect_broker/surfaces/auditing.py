"""An audit as it is asked for and told, from the shell and by the reconcile function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from effect_broker.broker.auditing import Audit, Auditor, Finding
from effect_broker.domain.errors import UnknownTool
from effect_broker.ledger.auditing import PostgresAuditReads
from effect_broker.secrets import CachedSecrets
from effect_broker.surfaces.requests import Fields
from effect_broker.wiring.core import Core
from effect_broker.wiring.sources import secret_source

OPERATION: Final = "audit"
FINDINGS_MAX: Final = 2_000
"""Of one answer of a function, which may hold 6 MB; `differences` counts all."""


async def audit(
    core: Core, tool: str, created_after: datetime, created_before: datetime | None
) -> Audit:
    """Compare what a tool's target lists for a window with the ledger; changes nothing.

    Raises:
        UnknownTool: no published contract names it.
        ContractInvalid: its contract declares no listing.
        TargetUnreadable: the list was not read to its end.
        LedgerUnavailable: the ledger could not be read.
    """
    from effect_broker.adapters.http_listing import HttpLister

    published = await core.catalog.active(tool)
    if published is None:
        raise UnknownTool(f"No contract names the tool {tool!r}.")
    secrets = CachedSecrets(secret_source(core.settings), core.clock)
    lister = HttpLister(secrets, core.clock)
    soon = datetime.fromtimestamp(core.clock.wall(), UTC) + timedelta(hours=1)
    try:
        return await Auditor(PostgresAuditReads(core.connections), lister).audit(
            published.contract,
            created_after=created_after,
            created_before=created_before or soon,
        )
    finally:
        await lister.aclose()


def asks_for_audit(event: object) -> bool:
    """Say whether an event of the reconcile function is an operator's audit."""
    return isinstance(event, Mapping) and event.get("operation") == OPERATION


async def answer_audit(core: Core, event: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out `{"operation": "audit", "tool", "created_after", "created_before"?}`.

    Raises:
        InvalidRequest: the fields are not these.
        EffectBrokerError: as `audit`.
    """
    fields = Fields(
        {name: event[name] for name in event if name != "operation"},
        known=("tool", "created_after", "created_before"),
    )
    tool = fields.text("tool")
    after = fields.instant("created_after", required=True)
    before = fields.instant("created_before")
    fields.check()
    assert after is not None
    found = await audit(core, tool, after, before)
    return {**summary(found), "findings": rows(found.findings[:FINDINGS_MAX])}


def summary(found: Audit) -> dict[str, Any]:
    """Return what an audit read, and how much of it differs."""
    return {
        "contract": found.contract.name,
        "from": found.created_after.isoformat(),
        "to": found.created_before.isoformat(),
        "effects": found.effects,
        "objects": found.objects,
        "undecided": found.undecided,
        "differences": len(found.findings),
    }


def rows(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return findings as JSON values."""
    return [
        {
            "found": str(finding.discrepancy).replace("_", " "),
            "effect_id": finding.effect and str(finding.effect.effect_id),
            "tenant": finding.effect and finding.effect.tenant,
            "operation_key": finding.effect and finding.effect.operation_key,
            "status": finding.effect and str(finding.effect.status),
            "external_ids": list(finding.external_ids),
        }
        for finding in findings
    ]
