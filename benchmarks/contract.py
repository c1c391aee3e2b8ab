"""The contract that is measured: an idempotent charge, answered at once."""

from __future__ import annotations

import base64
import json
from typing import Final
from uuid import UUID

from effect_broker.adapters.custom import AdapterContext
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.intent import EffectRecord
from effect_broker.domain.outcome import (
    Ambiguous,
    Committed,
    Outcome,
    ProbeResult,
    ProbeStatus,
)

DATA_KEY_ID: Final = "k1"
HMAC_KEY_ID: Final = "h1"
TOOL: Final = "bench.charge"

KEYRING: Final = json.dumps(
    {
        "data_keys": {DATA_KEY_ID: base64.b64encode(bytes(range(32))).decode()},
        "active_data_key": DATA_KEY_ID,
        "hmac_keys": {HMAC_KEY_ID: base64.b64encode(bytes(range(32))).decode()},
    }
)

CONTRACT: Final = EffectContract.model_validate(
    {
        "tool": TOOL,
        "name": "bench-charge",
        "version": "1",
        "safety": "idempotent",
        "adapter": f"{__name__}:Immediate",
        # far longer than any pause of a busy machine: a lapsed lease is no measurement
        "attempt_timeout": "2m",
        "lease": "5m",
        "key_retention": "24h",
        "settlement_bound": "30s",
        "key_records": "commits",
        "arguments": {
            "type": "object",
            "required": ["amount", "currency", "memo"],
            "properties": {
                "amount": {"type": "integer", "minimum": 1},
                "currency": {"type": "string"},
                "memo": {"type": "string"},
            },
        },
        "redact": {"show": ["/amount", "/currency"]},
    }
)


LOST_TOOL: Final = "bench.lost"
LOST: Final = EffectContract.model_validate(
    {
        "tool": LOST_TOOL,
        "name": "bench-lost",
        "version": "1",
        "safety": "reconcilable",
        "adapter": f"{__name__}:Silent",
        "attempt_timeout": "1s",
        "lease": "5s",
        "settlement_bound": "1s",
        "arguments": {"type": "object"},
        "probe": {"consistency": "strong"},
    }
)


class Immediate:
    """A target that commits at once: what is left is the broker's own cost."""

    def __init__(self, contract: EffectContract, context: AdapterContext) -> None:
        self.contract = contract
        self._context = context

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        """Answer as a payment target does, after the gate has permitted the write."""
        self._context.permit()
        return Committed(
            f"ch_{attempt_id.hex}",
            output={"id": f"ch_{attempt_id.hex}", "status": "succeeded"},
            evidence={"status": 200},
        )

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        """Say that nothing is known; nobody asks it."""
        return ProbeResult(ProbeStatus.UNKNOWN)


class Silent(Immediate):
    """A target that commits and whose answer is lost; its lookup tells the truth."""

    async def dispatch(self, effect: EffectRecord, *, attempt_id: UUID) -> Outcome:
        """Lose the answer."""
        self._context.permit()
        return Ambiguous("lost", evidence={"bytes_may_have_left": True})

    async def probe(self, effect: EffectRecord) -> ProbeResult:
        """Find what was committed."""
        return ProbeResult(ProbeStatus.COMMITTED, f"ch_{effect.effect_id.hex}")
