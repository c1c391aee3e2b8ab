"""Contracts and work states for decision tables, as short as a row needs them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from effect_broker.domain.attempt import Attempt, AttemptEnding, EndingKind
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.status import EffectStatus
from effect_broker.domain.work import WorkState

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MARGIN = timedelta(seconds=1)
EFFECT = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
CLASSES = ("transactional", "idempotent", "reconcilable", "unsafe")


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def contract(safety: str = "idempotent", **changes: Any) -> EffectContract:
    """Return a contract of the class that claims as little as its class allows."""
    fields: dict[str, Any] = {
        "tool": "t",
        "name": "c",
        "version": "1",
        "safety": safety,
        "adapter": "simulated",
        "attempt_timeout": "10s",
        "lease": "30s",
        "retry_limit": 2,
        "backoff": {"initial": "1s", "factor": 2.0, "max": "8s", "jitter": 0.0},
        "arguments": {"type": "object"},
    }
    if safety != "transactional":
        fields["settlement_bound"] = "30s"
    if safety == "idempotent":
        fields["key_retention"] = "24h"
    if safety == "reconcilable":
        fields["probe"] = {"consistency": "strong"}
    return EffectContract.model_validate(fields | changes)


def work(status: EffectStatus | str, **changes: Any) -> WorkState:
    """Return an effect with one attempt, unproven, whose requests have settled."""
    state = WorkState(
        effect_id=EFFECT,
        tenant_id=UUID(int=1),
        status=EffectStatus(status),
        version=2,
        attempts=1,
        unproven=1,
        proven_through=0,
        rejections=0,
        retries=0,
        redispatches=0,
        probes=0,
        key_generation=1,
        proof_committed=False,
        due_at=NOW,
        settlement_at=NOW - seconds(60),
        horizon_at=NOW + timedelta(hours=24),
        submit_until=NOW + timedelta(hours=1),
        negative_at=None,
        unknown_since=NOW - seconds(100),
        created_at=NOW - seconds(200),
    )
    return replace(state, **changes)


def attempt(ordinal: int, kind: EndingKind | None = None, **ending: Any) -> Attempt:
    return Attempt(
        effect_id=EFFECT,
        ordinal=ordinal,
        attempt_id=uuid4(),
        worker="w",
        version=ordinal * 2,
        started_at=NOW - seconds(100),
        send_deadline=NOW - seconds(90),
        key_generation=1,
        scope_digest=b"s" * 32,
        ending=AttemptEnding(kind=kind, reason="r", **ending) if kind else None,
    )
