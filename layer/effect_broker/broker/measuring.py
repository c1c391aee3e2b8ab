"""What is counted of dispatch and reconciliation; no tenant, argument or result among the
labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from effect_broker.broker.settling import Ended
from effect_broker.domain.outcome import NotSent
from effect_broker.domain.status import EffectStatus, EventType
from effect_broker.domain.transition import Transition
from effect_broker.ports import Claim, Meter, Step, StepResult, StepStatus

_EFFECT_EVENTS: Final = {
    EffectStatus.SUCCEEDED: "succeeded",
    EffectStatus.FAILED_FINAL: "failed",
    EffectStatus.OUTCOME_UNKNOWN: "unknown",
}

_RECONCILE_EVENTS: Final = frozenset(
    {
        EventType.PROBE_INCONCLUSIVE,
        EventType.RECONCILIATION_EXHAUSTED,
        EventType.REDISPATCH_PERMITTED,
        EventType.RECEIPT_RECORDED,
    }
)


TOO_LATE: Final = "send_deadline_passed"
"""An adapter's word for a send that its deadline forbade."""


@dataclass(frozen=True, slots=True)
class Measuring:
    """Counts attempts, transitions, fenced writes and prevented sends."""

    meter: Meter

    def attempts(self, ended: Sequence[Ended], seconds: float) -> None:
        """Count attempts that ended `seconds` after their claim was sent."""
        for item in ended:
            self.meter.observe("dispatch_seconds", seconds)
            self.meter.count(
                "attempts_total",
                tool=item.claim.intent.tool,
                outcome=type(item.outcome).__name__.lower(),
            )
            if isinstance(item.outcome, NotSent) and item.outcome.reason == TOO_LATE:
                self.meter.count("sends_prevented_total", reason=TOO_LATE)

    def steps(self, results: Sequence[tuple[Step, StepResult]]) -> None:
        """Count what became of recorded steps."""
        for step, result in results:
            if result.status is StepStatus.FENCED:
                self.meter.count("fenced_writes_total")
            if result.late_recorded:
                self.meter.count("late_outcomes_total")
            if result.status is StepStatus.APPLIED:
                self._applied(step)

    def reconciliations(
        self, results: Sequence[tuple[Step, StepResult]], seconds: float
    ) -> None:
        """Count what a pass of reconciliation led to, each claim `seconds` after it."""
        for step, result in results:
            self.meter.observe("reconcile_seconds", seconds)
            if (
                result.status is StepStatus.APPLIED
                and step.transition.event in _RECONCILE_EVENTS
            ):
                self.meter.count(
                    "reconciliations_total", tool=step.tool, result=step.transition.event
                )

    def redispatch(self, decided: Transition, claim: Claim) -> None:
        """Record what is left of the key's horizon where a redispatch is permitted."""
        horizon = claim.work.horizon_at
        if decided.event is EventType.REDISPATCH_PERMITTED and horizon is not None:
            left = (horizon - claim.now).total_seconds()
            self.meter.observe("retention_left_seconds", left)

    def _applied(self, step: Step) -> None:
        event = _EFFECT_EVENTS.get(step.transition.new)
        if event is not None:
            self.meter.count("effects_total", event=event, tool=step.tool)
        if step.transition.event is EventType.SEND_FORBIDDEN:
            self.meter.count("sends_prevented_total", reason=step.transition.reason)
