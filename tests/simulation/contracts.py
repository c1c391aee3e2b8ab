"""The contracts of a history: one of each kind of target, with short times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from effect_broker.domain.contract import EffectContract
from tests.simulation.target import Keeps

SETTLEMENT: Final = 10
"""Seconds: more than wire, work and lag together."""

STRONG: Final = {"consistency": "strong", "timeout": "9s"}


@dataclass(frozen=True)
class Kind:
    """A tool: its contract, and what its target really keeps.

    `declines` says whether its target may decline: only where the contract knows how to
    tell a decline.
    """

    contract: EffectContract
    keeps: Keeps
    retention: float = 600.0

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self.contract.tool


def _contract(tool: str, safety: str, **changes: Any) -> EffectContract:
    fields: dict[str, Any] = {
        "tool": tool,
        "name": tool.replace(".", "-"),
        "version": "1",
        "safety": safety,
        "adapter": "simulated",
        "attempt_timeout": "4s",
        "lease": "12s",
        "backoff": {"initial": "1s", "factor": 1.5, "max": "5s", "jitter": 0.1},
        "submit_deadline": "2m",
        "redispatch_limit": 6,
        "unknown_alert_after": "1m",
        "unknown_review_after": "3m",
        "arguments": {"type": "object"},
    }
    if safety != "transactional":
        fields["settlement_bound"] = f"{SETTLEMENT}s"
    if safety == "idempotent":
        fields["key_retention"] = "600s"
    return EffectContract.model_validate(fields | changes)


_A, _B = "idempotent", "reconcilable"

KINDS: Final = (
    Kind(_contract("a.all", _A, key_records="all_answers"), Keeps.ALL_ANSWERS),
    Kind(_contract("a.commits", _A, key_records="commits"), Keeps.COMMITS),
    Kind(
        _contract("a.successes", _A, key_records="successes", probe=STRONG),
        Keeps.SUCCESSES,
    ),
    Kind(_contract("a.careful", _A, key_records="successes"), Keeps.SUCCESSES),
    Kind(
        _contract("a.renewed", _A, key_records="all_answers", key_generations=3),
        Keeps.ALL_ANSWERS,
    ),
    Kind(
        _contract(
            "a.short",
            _A,
            key_records="commits",
            key_retention="25s",
            short_horizon=True,
        ),
        Keeps.COMMITS,
        retention=25.0,
    ),
    Kind(_contract("b.strong", _B, probe=STRONG), Keeps.NOTHING),
    Kind(_contract("b.twice", _B, probe=STRONG, probe_gap="5s"), Keeps.NOTHING),
    Kind(
        _contract("b.eventual", _B, probe={"consistency": "eventual", "timeout": "9s"}),
        Keeps.NOTHING,
    ),
    Kind(_contract("c.unsafe", "unsafe"), Keeps.NOTHING),
    Kind(
        _contract("c.requeued", "unsafe", requeue_after_operator_proof=True),
        Keeps.NOTHING,
    ),
    Kind(_contract("t.local", "transactional"), Keeps.NOTHING),
)

BY_TOOL: Final = {kind.tool: kind for kind in KINDS}


def next_version(contract: EffectContract) -> EffectContract:
    """Return a deploy of the same tool whose terms an effect in flight must not see."""
    careless: dict[str, Any] = {"version": f"{int(contract.version) + 1}"}
    if contract.settlement_bound is not None:
        careless["submit_deadline"] = contract.submit_deadline / 2
    return contract.model_copy(update=careless)
