"""A check: one promise, what it needs, and the coroutine that tries it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from effect_broker.conformance.target import Fault, TargetUnderTest
from effect_broker.conformance.trial import Trial, trial
from effect_broker.domain.contract import EffectContract, SafetyClass

Run = Callable[[Trial], Awaitable[None]]
Condition = Callable[[TargetUnderTest], str | None]
"""Says why a check is not applicable to a target; None where it is."""


@dataclass(frozen=True, slots=True)
class Check:
    """One promise of the kit; `str(check)` is its name, for the ids of tests."""

    name: str
    promise: str
    conditions: Sequence[Condition]
    body: Run

    def __str__(self) -> str:
        return self.name

    def why_not(self, target: TargetUnderTest) -> str | None:
        """Say why this promise does not apply to the target; None where it does."""
        reasons = (condition(target) for condition in (_has_wire, *self.conditions))
        return next((reason for reason in reasons if reason is not None), None)

    async def run(self, target: TargetUnderTest) -> None:
        """Start the target afresh, try the promise, stop the target.

        Raises:
            ConformanceFailure: it is not kept.
            ValueError: it does not apply; ask `why_not` first.
        """
        reason = self.why_not(target)
        if reason is not None:
            raise ValueError(f"{self.name} does not apply: {reason}")
        async with trial(self.name, target) as stage:
            await self.body(stage)


def _has_wire(target: TargetUnderTest) -> str | None:
    if target.contract.adapter == "sql":
        return "a mutation of the ledger's own database has no wire"
    return None


def check(*conditions: Condition) -> Callable[[Run], Check]:
    """Make a coroutine the check of its name; its docstring is the promise."""

    def made(body: Run) -> Check:
        promise = " ".join((body.__doc__ or "").split())
        return Check(body.__name__, promise, conditions, body)

    return made


def needs(*faults: Fault) -> Condition:
    """Need faults that the target can be made to suffer."""

    def condition(target: TargetUnderTest) -> str | None:
        missing = sorted(set(faults) - target.faults)
        return f"the target cannot play {', '.join(missing)}" if missing else None

    return condition


def needs_lookup(*faults: Fault) -> Condition:
    """Need a lookup, and faults that it can be made to suffer."""

    def condition(target: TargetUnderTest) -> str | None:
        if target.contract.probe is None:
            return "the contract has no lookup"
        missing = sorted(set(faults) - target.lookup_faults)
        return f"a lookup cannot play {', '.join(missing)}" if missing else None

    return condition


def where(holds: Callable[[EffectContract], bool], otherwise: str) -> Condition:
    """Need a contract of some kind."""

    def condition(target: TargetUnderTest) -> str | None:
        return None if holds(target.contract) else otherwise

    return condition


keyed: Final = where(
    lambda contract: contract.safety is not SafetyClass.UNSAFE,
    "an unsafe target sees no key",
)
deduplicated: Final = where(
    lambda contract: contract.safety is SafetyClass.IDEMPOTENT,
    "the target is not said to deduplicate by key",
)


def forgets_keys(target: TargetUnderTest) -> str | None:
    """Need a target that can be made to forget its keys."""
    return None if target.forgets_keys else "the target cannot be made to forget keys"
