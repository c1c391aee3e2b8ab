"""An effect in the clear, in memory only: what an adapter may see, bound to what was
reserved.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.identity import downstream_key, request_hash
from effect_broker.domain.intent import EffectRecord, EffectRequest, Intent
from effect_broker.domain.work import WorkState
from effect_broker.ports import Deadline, KeyDeriver


def effect_record(
    intent: Intent,
    contract: EffectContract,
    arguments: Any,
    current_key: str,
    work: WorkState,
    now: datetime,
) -> EffectRecord:
    """Return the effect as an adapter sees it, with the key that this attempt carries."""
    return EffectRecord(
        effect_id=intent.effect_id,
        tenant_id=intent.tenant_id,
        request=EffectRequest(
            operation_key=intent.operation_key,
            tool=intent.tool,
            arguments=arguments,
            requested_by=intent.requested_by,
            trace_id=intent.trace_id,
        ),
        request_hash=intent.request_hash,
        downstream_key=current_key,
        contract=contract,
        status=work.status,
        version=work.version,
        created_at=work.created_at,
        updated_at=now,
    )


def bound(intent: Intent, effect: EffectRecord) -> bool:
    """Say whether the payload at hand is the one that was reserved under the pinned
    contract.
    """
    if effect.request.arguments is None:
        return False
    contract = effect.contract
    return intent.request_hash == request_hash(
        intent.tool,
        effect.request.arguments,
        contract.name,
        contract.version,
        contract.non_intent_fields,
    )


def mint_key(
    deriver: KeyDeriver, intent: Intent, contract: EffectContract, generation: int
) -> str:
    """Derive the downstream key of a later generation from the key id stored at
    reservation.
    """
    return downstream_key(
        deriver,
        intent.hmac_key_id,
        intent.tenant_id,
        intent.operation_key,
        contract,
        generation=generation,
    )


def deadline_after(read: Deadline, seconds: float) -> Deadline:
    """Return the deadline that lies `seconds` after clocks that were read before the
    claim.
    """
    return Deadline(
        monotonic=read.monotonic + seconds,
        boottime=read.boottime + seconds,
        wall=read.wall + seconds,
    )
