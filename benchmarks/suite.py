"""The targets, and which module measures each."""

from __future__ import annotations

from typing import Final

from benchmarks.arithmetic import Target
from benchmarks.bench import Case
from benchmarks.rows import (
    brokering,
    claiming,
    counting,
    reading,
    recovering,
    reserving,
    stepping,
)

CASES: Final[tuple[Case, ...]] = (
    Case(
        Target("round_trips", "round trips of an effect across processes", 3, ""),
        counting.round_trips,
    ),
    Case(
        Target("commits", "commits of an effect across processes", 3, ""),
        counting.commits,
    ),
    Case(
        Target("round_trips_in_process", "round trips, reserved leased", 2, ""),
        counting.round_trips_in_process,
    ),
    Case(
        Target("commits_in_process", "commits, reserved leased", 2, ""),
        counting.commits_in_process,
    ),
    Case(
        Target("commits_in_batches", "commits of 100 effects in a batch", 3, ""),
        counting.commits_in_batches,
    ),
    Case(
        Target("reserve_1", "reserve against bare, 1 client", 1.3), reserving.reserve(1)
    ),
    Case(
        Target("reserve_4", "reserve against bare, 4 clients", 1.3), reserving.reserve(4)
    ),
    Case(
        Target("reserve_16", "reserve against bare, 16 clients", 1.8),
        reserving.reserve(16),
    ),
    Case(
        Target("steps_1", "three steps in SQL against three, 1 client", 1.6),
        stepping.across_processes(1),
    ),
    Case(
        Target("steps_16", "three steps in SQL against three, 16 clients", 2.3),
        stepping.across_processes(16),
    ),
    Case(
        Target("steps_in_process_1", "two steps in SQL against three, 1 client", 1.0),
        stepping.in_process(1),
    ),
    Case(
        Target("steps_in_process_16", "two steps in SQL against three, 16 clients", 1.3),
        stepping.in_process(16),
    ),
    Case(
        Target("broker_1", "whole broker against three, 1 client", 2.0),
        brokering.one_at_a_time(1),
    ),
    Case(
        Target("broker_8", "whole broker against three, 8 clients", 2.5),
        brokering.one_at_a_time(8),
    ),
    Case(
        Target(
            "broker_in_process", "whole broker in process against three, 1 client", 1.3
        ),
        brokering.in_process,
    ),
    Case(
        Target("python_cpu", "Python CPU of an effect in batches of 100", 100, "µs"),
        brokering.python_cpu,
    ),
    Case(
        Target("canonical", "canonical form of arguments of 1 KB", 10, "µs"),
        reading.canonical_form,
    ),
    Case(Target("replay", "a replay against bare", 0.5), reserving.repeated(drift=False)),
    Case(
        Target("conflict", "a conflict against bare", 0.5), reserving.repeated(drift=True)
    ),
    Case(
        Target("replay_log", "log of 50 replays", 0, "B", exact=True),
        reserving.repeated_wal(drift=False),
    ),
    Case(
        Target("conflict_log", "log of 50 conflicts", 0, "B", exact=True),
        reserving.repeated_wal(drift=True),
    ),
    Case(
        Target(
            "claim_history",
            "claim with 10 million effects in history against 10 thousand",
            1.3,
            full_only=True,
        ),
        claiming.under_history,
    ),
    Case(
        Target(
            "claim_snapshot",
            "claim under a snapshot held for 300,000 effects, last window against first",
            1.5,
            full_only=True,
        ),
        claiming.under_a_snapshot,
    ),
    Case(
        Target("claim_batch", "claim of 100 for each row, against claim of 1", 0.2),
        claiming.in_batches,
    ),
    Case(
        Target(
            "claim_fair",
            "fair claim against first in, first out, beside a million due effects",
            2.5,
            full_only=True,
        ),
        claiming.in_turns,
    ),
    Case(
        Target("same_key", "1,000 reservations of one key against distinct keys", 2.5),
        reserving.same_key_time,
    ),
    Case(
        Target(
            "same_key_created", "effects made by 1,000 reservations of a key", 1, "", True
        ),
        reserving.same_key_created,
    ),
    Case(
        Target("log", "log of an effect without page images and ciphertext", 2.7, "KB"),
        counting.log_written,
    ),
    Case(
        Target(
            "dead_rows", "dead rows in intents, events, attempts, receipts", 0, "", True
        ),
        counting.dead_rows,
    ),
    Case(
        Target(
            "reconciliation", "added to the contract's waits after a lost answer", 1, "s"
        ),
        recovering.added_latency,
    ),
)


def chosen(names: list[str]) -> list[Case]:
    """Return the cases of these names, or all; a name's beginning is enough.

    Raises:
        ValueError: a name fits no case.
    """
    if not names:
        return list(CASES)
    for name in names:
        if not any(case.target.name.startswith(name) for case in CASES):
            known = ", ".join(case.target.name for case in CASES)
            raise ValueError(f"no row is named {name!r}; there are {known}")
    exact = {case.target.name for case in CASES} & set(names)
    return [
        case
        for case in CASES
        if case.target.name in exact
        or any(case.target.name.startswith(name) for name in names if name not in exact)
    ]
