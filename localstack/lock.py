"""One `up` or `down` at a time in a checkout."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.progress import StepFailed


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the checkout for one change; the lock goes with the process, however it ends.

    Raises:
        StepFailed: another process is changing it now.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise StepFailed(
                f"process {file.read().strip()} is at it in this checkout"
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
