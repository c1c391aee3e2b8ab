"""A correctness boundary for side-effecting tools: never send twice, never guess or lie.

Names are imported on first use, so that a Lambda handler pays only for what it touches.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from effect_broker import conformance as conformance
    from effect_broker import keys as keys
    from effect_broker.broker.facade import EffectBroker as EffectBroker
    from effect_broker.client import EffectBrokerClient as EffectBrokerClient
    from effect_broker.client import SyncEffectBrokerClient as SyncEffectBrokerClient
    from effect_broker.domain.contract import EffectContract as EffectContract
    from effect_broker.domain.contract import SafetyClass as SafetyClass
    from effect_broker.domain.intent import EffectRecord as EffectRecord
    from effect_broker.domain.intent import EffectRequest as EffectRequest
    from effect_broker.domain.intent import Reservation as Reservation
    from effect_broker.domain.outcome import Ambiguous as Ambiguous
    from effect_broker.domain.outcome import Committed as Committed
    from effect_broker.domain.outcome import NotSent as NotSent
    from effect_broker.domain.outcome import ProbeResult as ProbeResult
    from effect_broker.domain.outcome import ProbeStatus as ProbeStatus
    from effect_broker.domain.outcome import Rejected as Rejected
    from effect_broker.domain.status import EffectStatus as EffectStatus
    from effect_broker.ports import TargetAdapter as TargetAdapter

_HOMES = {
    "Ambiguous": "domain.outcome",
    "Committed": "domain.outcome",
    "EffectBroker": "broker.facade",
    "EffectBrokerClient": "client",
    "EffectContract": "domain.contract",
    "EffectRecord": "domain.intent",
    "EffectRequest": "domain.intent",
    "EffectStatus": "domain.status",
    "NotSent": "domain.outcome",
    "ProbeResult": "domain.outcome",
    "ProbeStatus": "domain.outcome",
    "Rejected": "domain.outcome",
    "Reservation": "domain.intent",
    "SafetyClass": "domain.contract",
    "SyncEffectBrokerClient": "client",
    "TargetAdapter": "ports",
}

_MODULES = frozenset({"conformance", "keys"})

__all__ = sorted({*_HOMES, *_MODULES})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
