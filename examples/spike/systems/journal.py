"""A plain local journal, as agent runtimes keep it: TOOL_REQUESTED, the handler,
TOOL_SUCCEEDED or TOOL_FAILED; a restarted run repeats what has no success on record.
"""

from __future__ import annotations

import json
import os
from http.client import HTTPException
from pathlib import Path
from typing import Any

from examples.spike.systems.charging import ChargeFailed, Turn, main, told


def run(turn: Turn) -> tuple[str, str]:
    """Run the tool once, unless the journal has its result."""
    path = Path(turn.store)
    entries = read(path)
    call = f"{turn.order}:charge"
    for entry in entries:
        if entry["event"] == "TOOL_SUCCEEDED":
            return f"succeeded: {entry['result']['id']}", last(path)
    append(path, {"event": "TOOL_REQUESTED", "call": call, "args": turn.arguments})
    try:
        result = turn.charge(call)
    except (ChargeFailed, HTTPException, OSError) as error:
        append(path, {"event": "TOOL_FAILED", "call": call, "error": told(error)})
        return told(error), last(path)
    append(path, {"event": "TOOL_SUCCEEDED", "call": call, "result": result})
    return f"succeeded: {result['id']}", last(path)


def read(path: Path) -> list[dict[str, Any]]:
    """Read the journal from its beginning."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def append(path: Path, entry: dict[str, Any]) -> None:
    """Write an entry, and wait until it is on the disk."""
    with path.open("a") as journal:
        journal.write(json.dumps(entry) + "\n")
        journal.flush()
        os.fsync(journal.fileno())


def last(path: Path) -> str:
    """Return the last event."""
    entries = read(path)
    return str(entries[-1]["event"]) if entries else "nothing"


if __name__ == "__main__":
    main(run)
