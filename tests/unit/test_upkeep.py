from __future__ import annotations

from collections.abc import Sequence

from effect_broker.broker.upkeep import EVERY_SECONDS, FORGET_PASSES, Upkeep
from effect_broker.domain.errors import LedgerUnavailable
from tests.integration.broker.world import MovableClock


class Tables:
    """Counts what it was asked; `fences` says how many each call removes."""

    def __init__(self, fences: Sequence[int] = (), *, away: bool = False) -> None:
        self.fences = list(fences)
        self.away = away
        self.made = 0
        self.forgotten = 0

    async def make_partitions(self) -> Sequence[str]:
        if self.away:
            raise LedgerUnavailable("The ledger is away.")
        self.made += 1
        return ["effect_intents_2027_03"]

    async def forget_fences(self) -> int:
        self.forgotten += 1
        return self.fences.pop(0) if self.fences else 0


async def test_tables_are_kept_in_order_a_few_times_a_day() -> None:
    tables, clock = Tables([500, 3]), MovableClock()
    upkeep = Upkeep(tables, clock)
    assert await upkeep.run_if_due()
    assert not await upkeep.run_if_due()
    assert (tables.made, tables.forgotten) == (1, 3)
    clock.moved += EVERY_SECONDS
    assert await upkeep.run_if_due()
    assert tables.made == 2


async def test_one_upkeep_forgets_no_more_than_its_share() -> None:
    tables = Tables([500] * (2 * FORGET_PASSES))
    await Upkeep(tables, MovableClock()).run_if_due()
    assert tables.forgotten == FORGET_PASSES


async def test_ledger_that_is_away_leaves_the_upkeep_due() -> None:
    tables = Tables(away=True)
    upkeep = Upkeep(tables, MovableClock())
    assert not await upkeep.run_if_due()
    tables.away = False
    assert await upkeep.run_if_due()
