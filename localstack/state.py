"""What one `up` leaves for the next: ports, processes and keys."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from localstack.processes import ProcessRecord

_SAVING = threading.Lock()  # parts start at the same time, and each is recorded at once


@dataclass
class State:
    """`kind` is the local AWS that runs, and none after `down`.

    `bootstrapped` names the generation of the local AWS that CDK was bootstrapped in:
    one that started later knows nothing of it.

    `keys` are the demo tenant's API keys by name; the file is readable to its owner only.
    """

    kind: str | None = None
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, ProcessRecord] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    bootstrapped: str | None = None

    @classmethod
    def load(cls, path: Path) -> State:
        """Read the state; a missing or unreadable file is as if nothing had been started.

        A process that is not on record is still found by its command line at `down`.
        """
        try:
            stored: dict[str, Any] = json.loads(path.read_text())
            processes = {
                name: ProcessRecord(**record)
                for name, record in stored.pop("processes", {}).items()
            }
            return cls(processes=processes, **stored)
        except (FileNotFoundError, ValueError, TypeError, AttributeError):
            return cls()

    def save(self, path: Path) -> None:
        """Replace the file at once, so that a reader never sees half of it."""
        with _SAVING:
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_suffix(".new")
            fresh.touch(mode=0o600)
            fresh.write_text(json.dumps(asdict(self), indent=2) + "\n")
            os.replace(fresh, path)
