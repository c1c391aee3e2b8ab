"""What is played: systems, targets and cases, as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class World(StrEnum):
    """The target's worlds, by what they let a caller prove."""

    KEYED = "keyed"  # one charge a key
    LOOKUP = "lookup"  # can be asked for a charge by its reference
    PLAIN = "plain"  # neither


class Case(StrEnum):
    """What happens after the target has committed; then the same is asked for again."""

    KILLED = "killed"  # the caller's process is killed before it is answered
    ANSWER_LOST = "answer lost"  # the connection closes without an answer; nobody dies


@dataclass(frozen=True)
class System:
    """One module of `systems/`; `of_ours` says that this checkout's Python runs it."""

    name: str
    program: str
    variant: str = "default"
    note: str = ""
    of_ours: bool = False
    needs_database: bool = True


@dataclass(frozen=True)
class Play:
    """One system, one target, one case."""

    system: System
    world: World
    case: Case


JOURNAL: Final = System(
    "plain journal", "journal", of_ours=True, needs_database=False, note="no package"
)
BROKER: Final = System("effect-broker", "broker_program", of_ours=True, note="this one")
OTHERS: Final = (
    System("agent-ledger", "agent_ledger_program", note="defaults"),
    System(
        "agent-ledger",
        "agent_ledger_program",
        "takeover",
        note="stale calls are taken over after 1 s",
    ),
    System("DBOS", "dbos_program", note="defaults"),
    System("DBOS", "dbos_program", "retries", note="retries_allowed on the step"),
)


def plays(systems: Sequence[System]) -> Iterator[Play]:
    """Yield every combination, by target and case."""
    for world in World:
        for case in Case:
            for system in systems:
                yield Play(system, world, case)
