"""Sweep: the bounded, scheduled pass that finds what no nudge found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from effect_broker.broker.dispatch import forbidden
from effect_broker.broker.measuring import Measuring
from effect_broker.broker.recording import Recorder
from effect_broker.domain.contract import SafetyClass
from effect_broker.domain.status import EffectStatus
from effect_broker.ports import Lapsed, Ledger, Meter, Nudger

LIMIT: Final = 500
"""Rows a pass: bounds the transaction; what is left waits for the next pass."""


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What one pass found; `more` says that a limit was reached."""

    lapsed: int = 0
    overdue: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True)
class Sweeper:
    """Turns lapsed leases into unknown outcomes and ends what nobody may send any
    more.
    """

    ledger: Ledger
    recorder: Recorder
    nudger: Nudger
    measuring: Measuring
    meter: Meter
    clock_margin: timedelta

    async def run_once(self) -> SweepReport:
        """Make one pass.

        Raises:
            LedgerUnavailable: the pass is not done; the next one does it.
        """
        lapsed = await self.ledger.expire_leases(LIMIT, clock_margin=self.clock_margin)
        await self._nudge(lapsed)
        overdue = await self.ledger.overdue(LIMIT, clock_margin=self.clock_margin)
        if overdue:
            pending = [forbidden(item, actor="sweep") for item in overdue]
            self.measuring.steps(await self.recorder.record(pending))
        return SweepReport(
            lapsed=len(lapsed),
            overdue=len(overdue),
            more=LIMIT in (len(lapsed), len(overdue)),
        )

    async def _nudge(self, lapsed: Sequence[Lapsed]) -> None:
        if not lapsed:
            return
        self.meter.count("lease_expirations_total", len(lapsed))
        unknown = [
            item.effect_id
            for item in lapsed
            if item.status is EffectStatus.OUTCOME_UNKNOWN
            and item.safety != SafetyClass.UNSAFE
        ]
        if unknown:
            await self.nudger.reconcile(unknown)
