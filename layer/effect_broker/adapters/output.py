"""An answer against the contract's schema: a mismatch is a flag, never a failure."""

from __future__ import annotations

from typing import Any

from effect_broker.adapters.wire.body import SCHEMA_MISMATCH
from effect_broker.domain.contract import EffectContract
from effect_broker.domain.contract_schema import argument_errors


def schema_flags(contract: EffectContract, output: Any) -> tuple[str, ...]:
    """Return the flag of an output that its schema does not allow, or none."""
    if contract.output is None:
        return ()
    try:
        return (SCHEMA_MISMATCH,) if argument_errors(contract.output, output) else ()
    except Exception:  # noqa: BLE001 whatever the validator meets, the call was answered
        return (SCHEMA_MISMATCH,)
